"""`stromboli logs`: what the pods of a job write, all together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stromboli.console.job_names import full_name
from stromboli.console.source import Source, cluster_options

if TYPE_CHECKING:
    from stromboli.kube.client import Client


@click.command(
    epilog="""\b
Examples:
  stromboli logs lab/training
  stromboli logs training -f
  stromboli logs training --tail 20
"""
)
@click.argument("job", metavar="[NAMESPACE/]JOB")
@click.option("-f", "--follow", is_flag=True, help="As it is written, until the job has ended.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Only the last lines of each pod.")
@click.option("-p", "--previous", is_flag=True, help="Of the run before the last restart.")
@cluster_options
def logs(source: Source, job: str, follow: bool, tail: int | None, previous: bool) -> None:
    """Show what the pods of a job have written; with several pods, each line begins with its pod."""
    name = full_name(job, source.namespace)

    async def show(client: Client) -> None:
        from stromboli.console.job_progress import Logs

        await Logs(client, name, follows=follow, tail=tail, previous=previous).show()

    source.with_client(show)
