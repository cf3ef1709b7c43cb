"""`stromboli why`: why a job waits, and what would start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stromboli.console.output import Answer, output_option, repeat, watch_option
from stromboli.console.source import Source, state_options
from stromboli.errors import UserError

if TYPE_CHECKING:
    from stromboli.insight import State

_EXAMPLES = """\b
Examples:
  stromboli why lab/training
  stromboli why training                      (in namespace default)
  stromboli why lab/training --no-what-if     (faster on a large cluster)
  stromboli why lab/training -o json | jq '.reasons[0].code'
  stromboli why lab/training-2 --scenario examples/gang.yaml --at 10s
"""


@click.command(epilog=_EXAMPLES)
@click.argument("job", metavar="[NAMESPACE/]JOB")
@state_options
@click.option("--what-if/--no-what-if", default=True, show_default=True, help="Try what would start the job.")
@output_option
@watch_option
def why(source: Source, job: str, what_if: bool, output: str, watch: float | None) -> None:
    """Explain why a job waits, and what would start it.

    JOB is the name of a Job, PodGroup, ReplicaSet or pod. The scheduler decides once on a copy of the cluster, on this
    machine, and its reasons are shown. Each line about what would start the job was tried on such a copy.
    """
    name = job if "/" in job else f"default/{job}"
    repeat(lambda: _answer(source, source.read(), name, what_if), output, watch, live=source.is_live)


def _answer(source: Source, state: State, name: str, what_if: bool) -> Answer:
    from stromboli.console.explanation_view import explanation_view
    from stromboli.console.whatif.counterfactuals import prospects
    from stromboli.insight import explain, inspect

    explanation = explain(state, source.scheduler(), name)
    if explanation is None:
        raise UserError(_not_found(state, name, source.options))
    found = None
    if what_if and explanation.job.waits:
        picture = inspect(state, source.scheduler()).picture
        found = prospects(state, picture, explanation, *source.scheduling())
    answer = explanation_view(explanation, found, state.now)
    answer.data["configuration"] = source.configuration
    answer.hints += source.hints
    return answer


def _not_found(state: State, name: str, options: str) -> str:
    from stromboli.api import Pod, key

    for obj in state.objects:
        if isinstance(obj, Pod) and key(obj) == name and obj.spec.scheduler_name != state.scheduler_name:
            other = obj.spec.scheduler_name or "default-scheduler"
            ours = state.scheduler_name
            return f"Pod {name} has schedulerName {other}, not {ours}; or is it --scheduler-name {other}?"
    return f"There is no job {name}. Try: stromboli jobs{options}"
