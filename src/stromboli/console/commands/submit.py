"""`stromboli submit`: manifests, or a program with options, as batch systems have it.

It writes what kubectl would: objects as the user wrote them, or a Job that `--dry-run` shows. So whatever watches a
cluster sees nothing new.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stromboli.console.source import Source, cluster_options
from stromboli.errors import UserError

if TYPE_CHECKING:
    from stromboli.console.manifests import Manifest
    from stromboli.kube.client import Client

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_ONLY_WITH_COMMAND: Final = {
    "name": "", "namespace": "", "pods": 1, "cpus": "1", "memory": "", "gpus": 0, "queue": "", "time": "", "image": "",
    "folder": "", "priority_class": "", "environment": (), "array": None,
}  # fmt: skip


@click.command(
    epilog="""\b
Examples:
  stromboli submit -f queue.yaml -f job.yaml
  stromboli submit --cpus 2 --time 2h -- python train.py
  stromboli submit --pods 4 --gpus 1 --queue research --logs -- torchrun train.py
  stromboli submit --array 1-100%10 -- sh step.sh
  stromboli submit --pods 4 --dry-run -- python train.py >job.yaml
"""
)
@click.option("-f", "--file", "files", metavar="FILE", multiple=True, help="Manifests; - is standard input.")
@click.option("--name", default="", help="Of the job; by default from the program, with some letters.")
@click.option("-n", "--namespace", default="", help="By default that of the kubeconfig's context.")
@click.option("--pods", type=click.IntRange(1, 50_000), default=1, help="So many programs, which start together.")
@click.option("--cpus", default="1", show_default=True, help="Of each of them.")
@click.option("--memory", default="", metavar="SIZE", help="Of each of them, such as 4Gi; it is killed above that.")
@click.option("--gpus", type=click.IntRange(0, 1024), default=0, help="Of each of them (nvidia.com/gpu).")
@click.option("--queue", default="", help="By default that of the namespace.")
@click.option("--time", default="", metavar="DURATION", help="It is ended after that; shorter ones may start earlier.")
@click.option("--array", "array", metavar="FIRST-LAST", help="Independent programs, see STROMBOLI_ARRAY_INDEX.")
@click.option("--env", "environment", metavar="NAME=VALUE", multiple=True, help="A variable of the programs.")
@click.option("--chdir", "folder", default="", metavar="DIR", help="Where the programs start; without --image: here.")
@click.option("--image", default="", help="Needed on a cluster whose nodes run containers.")
@click.option("--priority-class", default="", metavar="NAME", help="A PriorityClass.")
@click.option("--wait", is_flag=True, help="Until the job has ended; exit status 5 if it has failed.")
@click.option("--logs", is_flag=True, help="The same, and show what the programs write.")
@click.option("--dry-run", is_flag=True, help="Check, and create nothing. Of a program, print the manifest.")
@click.argument("command", nargs=-1, metavar="[-- PROGRAM [ARGUMENT]...]")
@cluster_options
@click.pass_context
def submit(
    ctx: click.Context, /, source: Source, files: tuple[str, ...], command: tuple[str, ...], wait: bool, logs: bool,
    dry_run: bool, **options: Any,
) -> None:  # fmt: skip
    """Submit manifests, or a program.

    All manifests, and whether their names and namespaces are free, are checked before the first object is created. The
    arguments of a program stand after --.
    """
    manifests = _of_program(source, command, options) if command else _of_files(source, files, options)
    if command and files:
        raise UserError("give manifests with -f, or a program after --, not both.")
    if dry_run:
        _show(manifests, as_yaml=bool(command))
        return
    names = [f"{one.object.metadata.namespace}/{one.object.metadata.name}" for one in manifests if _is_job(one)]
    if (wait or logs) and len(names) != 1:
        raise UserError(f"--wait and --logs need exactly one Job, not {len(names)}.")

    async def create(client: Client) -> int:
        await _create(client, manifests)
        if not wait and not logs:
            return 0
        from stromboli.console.job_progress import Logs, exit_status
        from stromboli.console.job_progress import wait as wait_for

        if logs:
            await Logs(client, names[0], follows=True, tail=None).show()
        return exit_status(await wait_for(client, names[0], lambda line: click.echo(line, err=True)))

    ctx.exit(source.with_client(create))


def _of_files(source: Source, files: Sequence[str], options: dict[str, Any]) -> list[Manifest]:
    from stromboli.console.manifests import read_manifests, warn_about

    if not files:
        raise UserError("there is nothing to submit: give manifests with -f FILE, or a program after --.")
    given = [name for name, otherwise in _ONLY_WITH_COMMAND.items() if options[name] != otherwise]
    if given:
        raise UserError(f"--{given[0].replace('_', '-')} is for a program after --; manifests say it themselves.")
    manifests = read_manifests(files, source.namespace_of_manifests)
    if not manifests:
        where = ", ".join("standard input" if file == "-" else file for file in files)
        raise UserError(f"{where}: has no objects; give a Job, PodGroup, Pod or Queue.")
    warn_about(manifests)
    return manifests


def _of_program(source: Source, command: Sequence[str], options: dict[str, Any]) -> list[Manifest]:
    from stromboli.console.manifests import manifest_from, warn_about
    from stromboli.console.program_job import Array, Wanted, manifest_of, name_for

    array = Array.of(options.pop("array")) if options["array"] else options.pop("array")
    if array is not None and options["pods"] != 1:
        raise UserError("--array and --pods exclude each other: each program of an array has one pod.")
    variables = {}
    for text in options.pop("environment"):
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UserError(f"--env: {text} is not like NAME=VALUE.")
        variables[name] = value
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(5))
    options["name"] = options["name"] or name_for(command, suffix)
    options["namespace"] = options["namespace"] or source.namespace_of_manifests
    if not options["image"] and not options["folder"]:
        options["folder"] = os.getcwd()  # it runs on this machine, or nowhere
    wanted = Wanted(command=command, environment=variables, array=array, **options)
    manifest = manifest_from(manifest_of(wanted))
    warn_about([manifest])
    return [manifest]


def _show(manifests: Sequence[Manifest], *, as_yaml: bool) -> None:
    if not as_yaml:
        for manifest in manifests:
            click.echo(f"{manifest.title} is valid (dry run, nothing was created)")
        return
    import yaml

    click.echo(yaml.safe_dump(manifests[0].content, sort_keys=False, allow_unicode=True, width=120), nl=False)


def _is_job(manifest: Manifest) -> bool:
    return type(manifest.object).__name__ in ("Job", "BatchJob")


async def _create(client: Client, manifests: Sequence[Manifest]) -> None:
    from stromboli.console.submission_check import check_submission, exists_already
    from stromboli.kube.client import Failure, is_already_exists, resource_of

    await check_submission(client, manifests)
    for manifest in manifests:
        try:
            await client.create(resource_of(type(manifest.object)), manifest.content)
        except Failure as failure:
            if not is_already_exists(failure):
                raise
            raise UserError(exists_already(manifest, "nothing after it was created")) from None
        click.echo(f"{manifest.title} created")
