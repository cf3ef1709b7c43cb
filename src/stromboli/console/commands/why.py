"""`stromboli why`: why a job waits, and what would start it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from stromboli.console.job_names import full_name, suggestion, without_kind
from stromboli.console.output import Answer, line_width, output_option, repeat, styled, watch_option
from stromboli.console.source import Source, state_options
from stromboli.errors import NotPermitted, UserError

if TYPE_CHECKING:
    from stromboli.insight import State

_EXAMPLES = """\b
Examples:
  stromboli why lab/training
  stromboli why training                      (in the namespace of the context)
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

    JOB is the name of a Job, PodGroup, ReplicaSet or pod, also written as job/NAME. The scheduler decides once on a
    copy of the cluster, on this machine, and its reasons are shown. Each line about what would start the job was tried
    on such a copy.
    """
    name = full_name(job, source.namespace)
    repeat(lambda: _look(source, name, what_if), output, watch, live=source.is_live)


def _look(source: Source, name: str, what_if: bool) -> Answer:
    try:
        state = source.read()
    except NotPermitted as problem:
        return _written(source, name, problem)
    return _answer(source, state, name, what_if)


def _written(source: Source, name: str, problem: NotPermitted) -> Answer:
    """For users who may read one namespace only: what the scheduler wrote into the status of the job."""
    from stromboli.console.explanation_view import written_view
    from stromboli.insight import written_explanation

    other = without_kind(name, source.namespace)
    try:
        state = source.read_namespace(name.partition("/")[0])
    except NotPermitted:
        if not other:
            raise
        return _written(source, other, problem)
    explanation = written_explanation(state, name)
    if explanation is not None:
        return written_view(explanation, state.now, str(problem))
    if other:
        return _written(source, other, problem)
    raise UserError(_not_found(source, state, name))


def _answer(source: Source, state: State, name: str, what_if: bool) -> Answer:
    from stromboli.console.explanation_view import explanation_view
    from stromboli.console.whatif.counterfactuals import prospects
    from stromboli.insight import explain, inspect

    names = list(filter(None, (name, without_kind(name, source.namespace))))
    found_as = (explain(state, source.scheduler(), one) for one in names)
    explanation = next((one for one in found_as if one is not None), None)
    if explanation is None:
        refused = next((one for one in names if one in state.refused), "")
        if refused:
            return _refused(refused, state.refused[refused])
        raise UserError(_not_found(source, state, name))
    found = None
    if what_if and explanation.job.waits:
        picture = inspect(state, source.scheduler()).picture
        found = prospects(state, picture, explanation, *source.scheduling())
    answer = explanation_view(explanation, found, state.now)
    answer.data["configuration"] = source.configuration
    answer.hints += source.hints
    return answer


def _refused(name: str, message: str) -> Answer:
    head = [styled(f"{name} was refused when it was submitted, so it does not exist.", bold=True), ""]
    head += textwrap.wrap(f"{message.rstrip('.')}.", line_width(100), initial_indent="  ", subsequent_indent="  ")
    head += ["", "Next step   Correct that, and submit it again."]
    return Answer({"name": name, "refused": message}, head=head)


def _started_singly(state: State, name: str) -> str:
    """The groups of a composite one that is no job itself, because they need not start together; "" if it is none."""
    from stromboli.api import key
    from stromboli.api.upstream import COMPOSITE_SUFFIX, UpstreamGroup, plain_name

    composite = f"{plain_name(name)}{COMPOSITE_SUFFIX}"
    groups = [obj for obj in state.objects if isinstance(obj, UpstreamGroup)]
    parts = sorted(plain_name(key(group)) for group in groups if group.parent == composite)
    return ", or ".join(parts[:3]) if any(key(group) == composite for group in groups) else ""


def _not_found(source: Source, state: State, name: str) -> str:
    from stromboli.api import Job, Pod, PodGroup, ReplicaSet, Reservation, StatefulSet, key
    from stromboli.api.upstream import plain_name

    for obj in state.objects:
        if isinstance(obj, Pod) and key(obj) == name and obj.spec.scheduler_name != state.scheduler_name:
            other = obj.spec.scheduler_name or "default-scheduler"
            ours = state.scheduler_name
            return f"Pod {name} has schedulerName {other}, not {ours}; or is it --scheduler-name {other}?"
    reservation = name.rpartition("/")[2]
    if any(isinstance(obj, Reservation) and key(obj) == reservation for obj in state.objects):
        look = f"stromboli reservations -o wide{source.options}"
        return f"There is no job {name}, but a Reservation {reservation}. Why it waits: {look}"
    if later := source.submitted_at(name):
        files = "".join(f" --scenario {file}" for file in source.scenario)
        return f"{name} is submitted at {later} of the scenario. Try: stromboli why {name}{files} --at {later}"
    kinds = (Job, PodGroup, ReplicaSet, StatefulSet, Pod)
    if single := _started_singly(state, name):
        return f"The groups of CompositePodGroup {name} start one by one: ask about {single}."
    known = {plain_name(key(obj)) for obj in state.objects if isinstance(obj, kinds)} | state.refused.keys()
    return f"There is no job {name}{suggestion(name, known, source.namespace)} Try: stromboli jobs{source.options}"
