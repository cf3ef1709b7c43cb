"""The commands `stromboli descheduler` and `stromboli defrag`."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from stromboli import plain_json
from stromboli.errors import ClusterError, UserError

from .processes import common_options, config_option, process_options

if TYPE_CHECKING:
    from stromboli.kube.runtime import Component, ProcessContext

PORT = 8082
_LARGEST_ANSWER = 64 << 20  # bytes


@click.command(
    epilog="""\b
Examples:
  stromboli descheduler --policy policy.yaml --config scheduler.yaml
  stromboli descheduler --policy policy.yaml --dry-run --no-leader-elect
  stromboli defrag plan --for team-a/training
"""
)
@click.option(
    "--policy",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The policy: which plugins run, and when. Reloaded when it changes.",
)
@config_option
@click.option("--dry-run", is_flag=True, help="Log what would be moved, and write nothing.")
@click.option(
    "--keep-nodes",
    is_flag=True,
    help="Keep cluster-autoscaler from removing nodes that are locked, held, set aside, or emptied for a job.",
)
@common_options(PORT)
def descheduler(policy: Path, config: Path | None, dry_run: bool, keep_nodes: bool, **common: Any) -> None:
    """Move pods to other nodes, by a policy.

    Runs until SIGTERM or SIGINT. A pod is evicted only after a Reservation keeps a place for its successor. Give it the
    same --config as the scheduler: the scheduler's own rules decide where pods could go.
    """
    from stromboli.kube.runtime import run_process

    def components(context: ProcessContext) -> list[Component]:
        return [descheduler_component(context, config, policy, dry_run=dry_run, keep_nodes=keep_nodes)]

    run_process("stromboli-descheduler", process_options(common), components)


def descheduler_component(
    context: ProcessContext, config: Path | None, policy: Path, *, dry_run: bool = False, keep_nodes: bool = False
) -> Component:
    from stromboli.descheduling import Policy, Registry, warnings_about
    from stromboli.kube.descheduler import DeschedulerApi, DeschedulerComponent, DeschedulerMetrics
    from stromboli.kube.runtime import ConfigurationFile, Log
    from stromboli.scheduling.cycle import Scheduler
    from stromboli.scheduling.registry import Registry as SchedulingRegistry

    log = Log("descheduler")
    scheduling, plugins = SchedulingRegistry(), Registry()
    scheduler = ConfigurationFile(
        config,
        lambda text, where: Scheduler(scheduling.load(text, where=where), scheduling),
        built_in=lambda: Scheduler(scheduling.default(), scheduling),
    )

    def load(text: str, where: str) -> Policy:
        loaded = plugins.load(text, where=where)
        for warning in (*loaded.warnings, *warnings_about(loaded, scheduler.current.configuration)):
            log.warning(warning)
        return loaded

    component = DeschedulerComponent(
        context.client,
        policy=ConfigurationFile(policy, load, built_in=Policy),
        scheduler=scheduler,
        leadership=context.leadership("descheduler"),
        scheduler_name=context.options.scheduler_name,
        bucket=context.bucket,
        metrics=DeschedulerMetrics(context.metrics),
        dry_run=dry_run,
        keep_nodes=keep_nodes,
        request_timeout=context.request_timeout,
        clock=context.wall_clock,
    )
    component.register_routes = DeschedulerApi(component, context.client).register
    return component


@click.group()
def defrag() -> None:
    """Show what the descheduler would move, or let it do so now.

    Both ask a running descheduler; nothing is moved by the command itself.
    """


def _asking(function: Any) -> Any:
    options = [
        click.option("--for", "job", metavar="NAMESPACE/NAME", help="Make room for this waiting Job or PodGroup."),
        click.option("--profile", help="Run this profile of the policy only."),
        click.option(
            "--address", default=f"http://127.0.0.1:{PORT}", show_default=True, help="Where the descheduler listens."
        ),
        click.option(
            "--token",
            envvar="STROMBOLI_TOKEN",
            help="The token of somebody who may list pods or, to apply, evict them: see `kubectl create token`.",
        ),
        click.option(
            "--token-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The file that the descheduler was started with, or the one that `stromboli up` names.",
        ),
        click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@defrag.command()
@_asking
def plan(**asked: Any) -> None:
    """Show what would move, from where to where, and what that frees."""
    _print(_ask("GET", "plan", **asked), asked["output"])


@defrag.command()
@_asking
def apply(**asked: Any) -> None:
    """Let the leading descheduler make its plans now and carry them out."""
    _print(_ask("POST", "apply", **asked), asked["output"])


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token elsewhere."""

    def redirect_request(self, *_: object) -> None:
        return None


def _ask(method: str, what: str, *, job: str | None, profile: str | None, address: str, token: str | None,
         token_file: Path | None, output: str) -> dict[str, Any]:  # fmt: skip
    query = urllib.parse.urlencode({key: value for key, value in (("for", job), ("profile", profile)) if value})
    url = f"{address.rstrip('/')}/descheduler/{what}{'?' if query else ''}{query}"
    if not url.startswith(("http://", "https://")):
        raise UserError(f"{address}: must start with http:// or https://")
    if token_file is not None:
        from stromboli.listeners import read_token

        token = read_token(token_file)
    if token and not (token.isascii() and token.isprintable()):
        raise UserError("--token must be ASCII")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=60) as response:
            answer = _read(response)
    except urllib.error.HTTPError as error:
        message = _read(error).get("error")
        if message is None:
            raise _no_descheduler(address, error.reason) from None
        # What does not exist is wrong input; everything else is a refusal.
        kind = UserError if error.code == HTTPStatus.NOT_FOUND else ClusterError
        raise kind(f"{address}: {message}") from None
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        raise _no_descheduler(address, str(getattr(error, "reason", error))) from None
    if "plans" not in answer:
        raise _no_descheduler(address, "something else does")
    return answer


def _read(response: IO[bytes]) -> dict[str, Any]:
    """What it says, or nothing if that is not an object in JSON."""
    try:
        answer = plain_json.decode(response.read(_LARGEST_ANSWER))
    except msgspec.DecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _no_descheduler(address: str, reason: str) -> ClusterError:
    return ClusterError(f"{address}: no descheduler answers there ({reason}); give its --address")


def _print(answer: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
        return
    for note in answer["notes"]:
        click.echo(f"{note[:1].upper()}{note[1:]}.")
    if not answer["plans"]:
        click.echo("Nothing would be gained by moving pods now.")
        return
    for each in answer["plans"]:
        click.echo(f"{each['plugin']} {each['goal']}:")
        for move in each["moves"]:
            requests = ", ".join(f"{_stated(name, text)} {name}" for name, text in move["requests"].items())
            click.echo(f"  {move['pod']}  {move['from']} ▶ {move['to']}  ({requests})")
        for removal in each.get("removals", ()):
            click.echo(f"  {removal['pod']}  leaves {removal['from'] or 'no node'}: no place is kept for a successor")
    click.echo("")
    for line in answer["picture"]:
        click.echo(line)
    if answer["applied"] and any(each["moves"] for each in answer["plans"]):
        click.echo("\nThe moves are under way: kubectl get reservations")
    elif answer["applied"]:
        click.echo("\nThe pods are evicted: kubectl get events")


def _stated(resource: str, quantity: str) -> str:
    from stromboli.api.quantity import amount, stated_amount

    return stated_amount(resource, amount(resource, quantity))
