"""`stromboli status`, `queues`, `jobs`, `nodes` and `reservations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from stromboli.console.output import Answer, output_option, repeat, watch_option
from stromboli.console.source import Source, state_options
from stromboli.errors import NotPermitted

if TYPE_CHECKING:
    from stromboli.insight import Picture

_ELSEWHERE: Final = "  stromboli {0} --scenario examples/demo.yaml --at 20s\n"


def _examples(name: str, *others: str) -> str:
    lines = [f"  stromboli {name}", *(f"  stromboli {name} {other}" for other in others)]
    return "\b\nExamples:\n" + "\n".join(lines) + "\n" + _ELSEWHERE.format(name)


def picture_of(source: Source) -> Picture:
    from stromboli.insight import inspect

    return inspect(source.read(), source.scheduler()).picture


def _show(source: Source, output: str, watch: float | None, view: Callable[[Picture], Answer]) -> None:
    repeat(lambda: view(picture_of(source)), output, watch, live=source.is_live)


@click.command(epilog=_examples("status", "--watch", "-o json | jq .queues"))
@state_options
@output_option
@watch_option
def status(source: Source, output: str, watch: float | None) -> None:
    """Show the cluster: queues with their shares, jobs by phase, nodes by use.

    What a queue deserves is computed on this machine, with the configuration of the cluster, or that of --config.
    """
    from stromboli.console.views import status_view

    def view(picture: Picture) -> Answer:
        answer = status_view(picture)
        answer.data["configuration"] = source.configuration
        answer.hints += source.hints
        return answer

    _show(source, output, watch, view)


@click.command(epilog=_examples("queues", "-o wide"))
@state_options
@output_option
@watch_option
def queues(source: Source, output: str, watch: float | None) -> None:
    """List queues: what each has, deserves, borrows and lends, and the namespaces in it."""
    from stromboli.console.views import queues_view

    _show(source, output, watch, queues_view)


@click.command(epilog=_examples("jobs", "--waiting -o wide", "-n lab --queue science"))
@state_options
@click.option("-n", "--namespace", help="Only jobs of this namespace.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--waiting", is_flag=True, help="Only jobs with pods that wait.")
@output_option
@watch_option
def jobs(
    source: Source, namespace: str | None, queue: str | None, waiting: bool, output: str, watch: float | None
) -> None:
    """List jobs with their phase, pods and the reason why they wait."""
    from stromboli.console.views import jobs_view

    def view(picture: Picture) -> Answer:
        chosen = [
            job
            for job in picture.jobs
            if namespace in (None, job.namespace) and queue in (None, job.queue) and (job.waits or not waiting)
        ]
        return jobs_view(picture, chosen)

    def look() -> Answer:
        try:
            return view(picture_of(source))
        except NotPermitted as problem:
            if namespace is None:
                raise NotPermitted(f"{problem}. Without it, list one namespace: stromboli jobs -n NAMESPACE") from None
            from stromboli.console.explanation_view import not_forecast
            from stromboli.insight import written_picture

            answer = view(written_picture(source.read_namespace(namespace)))
            answer.hints.append(not_forecast(str(problem)))
            return answer

    repeat(look, output, watch, live=source.is_live)


@click.command(epilog=_examples("nodes", "-o wide"))
@state_options
@output_option
@watch_option
def nodes(source: Source, output: str, watch: float | None) -> None:
    """List nodes: what is used, reserved, locked, held by Reservations and lent to backfilled pods."""
    from stromboli.console.views import nodes_view

    _show(source, output, watch, nodes_view)


@click.command(epilog=_examples("reservations", "-o yaml"))
@state_options
@output_option
@watch_option
def reservations(source: Source, output: str, watch: float | None) -> None:
    """List Reservations: the node, whom it is for, and how much of it is used."""
    from stromboli.console.views import reservations_view

    _show(source, output, watch, reservations_view)
