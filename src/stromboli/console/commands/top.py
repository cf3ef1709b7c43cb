"""`stromboli top`: who uses the cluster, and who waits longest, live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stromboli.console.output import Answer, Table, is_terminal, output_option, repeat
from stromboli.console.source import Source, state_options

from .look import picture_of

if TYPE_CHECKING:
    from stromboli.insight import Picture

_EXAMPLES = """\b
Examples:
  stromboli top
  stromboli top --interval 1 --rows 20
  stromboli top --once -o json
  stromboli top --once --scenario examples/demo.yaml --at 20s
"""


@click.command(epilog=_EXAMPLES)
@state_options
@click.option("--rows", default=10, show_default=True, type=click.IntRange(1), help="Rows of each table.")
@click.option(
    "--interval", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Seconds between two looks."
)
@click.option("--once", is_flag=True, help="Look once and end; also what happens in a pipe and with --scenario.")
@output_option
def top(source: Source, rows: int, interval: float, once: bool, output: str) -> None:
    """Show the jobs that use most, the jobs that wait longest, and the fullest nodes, until Ctrl-C."""
    is_live = source.is_live and not once and is_terminal()
    repeat(lambda: _view(picture_of(source), rows), output, interval if is_live else None, live=source.is_live)


def _view(picture: Picture, rows: int) -> Answer:
    from stromboli.console.short_amounts import age, listed, percent, used_of
    from stromboli.insight import document
    from stromboli.insight.picture import share_of

    using = sorted(
        (job for job in picture.jobs if job.allocated),
        key=lambda job: (-share_of(job.allocated, picture.capacity), job.name),
    )[:rows]
    waiting = sorted(
        (job for job in picture.jobs if job.waiting_since is not None), key=lambda job: (job.waiting_since, job.name)
    )[:rows]
    nodes = sorted(picture.nodes, key=lambda node: (-node.use, node.name))[:rows]
    busy = Table(("job", "queue", ">share", "allocated", ">pods", ">age"), title="Using most")
    for job in using:
        share = percent(share_of(job.allocated, picture.capacity))
        busy.add(job.name, job.queue, share, listed(job.allocated), job.pods.running, age(picture.now - job.created))
    idle = Table(("job", "queue", ">waits", ">pods", "reason"), title="Waiting longest")
    for job in waiting:
        assert job.waiting_since is not None
        idle.add(job.name, job.queue, age(picture.now - job.waiting_since), job.pods.waiting, job.reason)
    full = Table(("node", ">use", "used", ">pods"), title="Fullest nodes")
    for node in nodes:
        full.add(node.name, percent(node.use), used_of(node.used, node.allocatable), node.pods)
    data = {"using": document(using), "waiting": document(waiting), "nodes": document(nodes)}
    head = [f"Used: {used_of(picture.used, picture.capacity)}"]
    return Answer(data, [table for table in (busy, idle, full) if table.rows], head)
