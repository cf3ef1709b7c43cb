"""`stromboli cancel`, `suspend` and `resume`.

They write what kubectl would: deletions, and Volcano's Commands. So whatever watches a
cluster sees nothing new.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from stromboli.console.job_names import full_name, without_kind
from stromboli.console.source import Source, cluster_options
from stromboli.errors import UserError

if TYPE_CHECKING:
    from stromboli.kube.client import Client, Resource

_ABORT = "AbortJob"
_RESUME = "ResumeJob"


@click.command(
    epilog="""\b
Examples:
  stromboli cancel lab/training
  stromboli cancel training --yes
"""
)
@click.argument("job", metavar="[NAMESPACE/]JOB")
@click.option("-y", "--yes", is_flag=True, help="Do not ask on a terminal.")
@cluster_options
def cancel(source: Source, job: str, yes: bool) -> None:
    """Delete a job and its pods: a Job, a PodGroup with its pods, or a pod."""
    name = full_name(job, source.namespace)

    async def delete(client: Client) -> None:
        resource, pods = await _find(client, name)
        if not yes and sys.stdin.isatty():
            click.confirm(f"Delete {resource.type.__name__} {name}?", abort=True)
        from stromboli.kube.client import PODS

        for pod in pods:
            await client.delete(PODS, pod)
        await client.delete(resource, name, propagation="Background")
        click.echo(f"{resource.type.__name__} {name} deleted")

    source.with_client(delete)


@click.command(epilog="\b\nExamples:\n  stromboli suspend lab/training\n")
@click.argument("job", metavar="[NAMESPACE/]JOB")
@cluster_options
def suspend(source: Source, job: str) -> None:
    """Stop a Job and keep it for later: its pods are deleted, and `stromboli resume` creates them again."""
    _command(source, full_name(job, source.namespace), _ABORT, "suspended")


@click.command(epilog="\b\nExamples:\n  stromboli resume lab/training\n")
@click.argument("job", metavar="[NAMESPACE/]JOB")
@cluster_options
def resume(source: Source, job: str) -> None:
    """Continue a suspended Job: it waits in its queue again, and its pods start anew."""
    _command(source, full_name(job, source.namespace), _RESUME, "resumed")


def _command(source: Source, name: str, action: str, done: str) -> None:
    async def send(client: Client) -> None:
        from stromboli.kube.client import COMMANDS, JOBS, Failure, is_not_found

        try:
            job = await client.get(JOBS, name)
        except Failure as failure:
            if not is_not_found(failure):
                raise
            raise UserError(
                f"There is no Job {name}{_meant(name, client)} Only Jobs can be {done}. Try: stromboli jobs"
            ) from None
        if action == _RESUME and job.status.state.phase not in ("Aborted", "Aborting"):
            raise UserError(f"Job {name} is not suspended: it is {job.status.state.phase or 'Pending'}.")
        if action == _ABORT and job.status.state.phase in ("Aborted", "Aborting"):
            raise UserError(f"Job {name} is suspended already. Continue it with: stromboli resume {name}")
        if action == _ABORT and job.status.state.phase not in ("", "Pending", "Running"):
            raise UserError(f"Job {name} cannot be suspended: it is {job.status.state.phase}.")
        meta = job.metadata
        target = {
            "apiVersion": job.api_version, "kind": "Job", "name": meta.name, "uid": meta.uid, "controller": True,
        }  # fmt: skip
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {
                "generateName": f"{meta.name}-{action.lower()}-",
                "namespace": meta.namespace,
                "ownerReferences": [target],
            },
            "target": target,
            "action": action,
            "reason": "CommandLine",
            "message": f"stromboli {'suspend' if action == _ABORT else 'resume'}",
        }
        await client.create(COMMANDS, body)
        click.echo(f"Job {name} {done}")

    source.with_client(send)


async def _find(client: Client, name: str) -> tuple[Resource[Any], list[str]]:
    """What the name stands for, and the pods that have to be deleted one by one."""
    from stromboli.api import group_name_of, key
    from stromboli.kube.client import JOBS, POD_GROUPS, PODS, Failure, is_not_found

    namespace = name.partition("/")[0]
    candidates: tuple[Resource[Any], ...] = (JOBS, POD_GROUPS, PODS)
    for resource in candidates:
        try:
            await client.get(resource, name)
        except Failure as failure:
            if not is_not_found(failure):
                raise
            continue
        if resource is not POD_GROUPS:
            return resource, []
        pods = (await client.list(PODS, namespace=namespace)).items
        return resource, [key(pod) for pod in pods if f"{namespace}/{group_name_of(pod)}" == name]
    reservation = name.rpartition("/")[2]
    if await _is_reservation(client, reservation):
        raise UserError(
            f"There is no Job, PodGroup or pod {name}, but a Reservation {reservation}. Look at it with: stromboli "
            f"reservations; delete it with: kubectl delete reservation {reservation}"
        )
    raise UserError(f"There is no Job, PodGroup or pod {name}{_meant(name, client)} Try: stromboli jobs")


async def _is_reservation(client: Client, name: str) -> bool:
    from stromboli.kube.client import RESERVATIONS, Failure

    try:
        await client.get(RESERVATIONS, name)
    except Failure:  # whatever it is, there is no job of that name
        return False
    return True


def _meant(name: str, client: Client) -> str:
    """The end of a sentence about a name that does not exist."""
    other = without_kind(name, client.config.namespace)
    return f"; the part before the slash is a namespace, did you mean {other}?" if other else "."
