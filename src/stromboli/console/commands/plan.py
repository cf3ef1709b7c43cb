"""`stromboli plan`: what would happen if a job were submitted now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from stromboli.console.output import Answer, output_option, show, styled
from stromboli.console.source import Source, state_options
from stromboli.errors import UserError
from stromboli.grammar import plural

if TYPE_CHECKING:
    from stromboli.console.whatif.submission import Plan

_EXAMPLES = """\b
Examples:
  stromboli plan -f job.yaml
  stromboli plan -f job.yaml -o json | jq .startsNow
  generate-job | stromboli plan -f -
  stromboli plan -f job.yaml --scenario examples/demo.yaml --at 20s
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "-f", "--file", "files", metavar="FILE", multiple=True, required=True, help="Manifests; - is standard input."
)
@state_options
@output_option
def plan(source: Source, files: tuple[str, ...], output: str) -> None:
    """Show what would happen if a job were submitted now: where it would start or why not, and whom it would evict.

    Nothing is created. The manifests are tried on a copy of the cluster, in virtual time.
    """
    from stromboli.api.upstream import translated
    from stromboli.console.manifests import read_manifests, warn_about
    from stromboli.console.whatif.submission import plan_submission, submitted_jobs

    manifests = read_manifests(files, source.namespace_of_manifests)
    warn_about(manifests)
    objects = [translated(manifest.object) for manifest in manifests]
    state = source.read()
    jobs = submitted_jobs(objects, state)
    if not jobs:
        where = "standard input" if files[0] == "-" else files[0]
        raise UserError(f"{where}: has no job; give a Job, PodGroup, ReplicaSet or Pod.")
    plans = [plan_submission(state, objects, job, *source.scheduling(), is_live=source.is_live) for job in jobs]
    assumption = f"the scheduler runs with {source.configuration}"
    plans = [replace(one, assumptions=[*one.assumptions, assumption]) if one.assumptions else one for one in plans]
    lines: list[str] = []
    for one in plans:
        lines += [*([""] if lines else []), *_lines(one, state.now)]
    data = [_data(one) for one in plans]
    show(Answer(data[0] if len(data) == 1 else data, head=lines), output)


def _lines(plan: Plan, now: float) -> Iterator[str]:
    from stromboli.api.timestamps import format_timestamp
    from stromboli.console.explanation_view import reason_lines
    from stromboli.console.short_amounts import age

    if plan.refused:
        yield f"{plan.job} would not start: {plan.refused}"
        return
    if plan.starts_now:
        yield styled(f"{plan.job} would start now.", bold=True)
    elif plan.expected_start is not None:
        when = f"{format_timestamp(plan.expected_start)} (in {age(plan.expected_start - now)})"
        yield styled(f"{plan.job} would wait, and start about {when}.", bold=True)
    else:
        yield styled(f"{plan.job} would wait. No start is in sight.", bold=True)
    if plan.explanation is not None:
        yield from reason_lines(plan.explanation)
    if plan.placements:
        yield ""
        yield "Places:"
        for node, pods in sorted(Counter(plan.placements.values()).items()):
            yield f"  {node}: {plural(pods, 'pod')}"
    yield ""
    if plan.evictions:
        yield "Evictions that it would cause:"
        for eviction in plan.evictions:
            yield f"  {eviction.pod} ({eviction.reason})"
    else:
        yield "It would evict nobody."
    if not plan.starts_now:
        yield ""
        yield f"Assumed: {'; '.join(plan.assumptions)}."


def _data(plan: Plan) -> dict[str, Any]:
    from stromboli.insight import document

    data: dict[str, Any] = document(plan)
    if plan.explanation is not None:
        data["reasons"] = data["explanation"]["reasons"]
    del data["explanation"]
    return data
