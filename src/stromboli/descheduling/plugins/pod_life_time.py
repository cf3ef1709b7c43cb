"""PodLifeTime: pods that are too old, or in a state for too long.

Such a pod is evicted without a place for its successor: not where it is is wrong, but what it is. So the successor may
come back to the same node, and nothing has to be free elsewhere. Pods that have finished are deleted. Pods that wait
for a node stay: their successors would wait as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from stromboli.api import Condition, Pod
from stromboli.api.quantity import format_duration
from stromboli.api.timestamps import parse_timestamp
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import DeschedulePlugin
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, texts
from .pod_states import age, exit_codes, states

_STATES: Final = (
    "Running", "Pending", "Succeeded", "Failed", "Unknown", "NodeAffinity", "NodeLost", "Shutdown",
    "UnexpectedAdmissionError", "PodInitializing", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff",
    "CreateContainerConfigError", "ErrImagePull", "CreateContainerError", "InvalidImageName", "OOMKilled", "Error",
    "Completed", "DeadlineExceeded", "Evicted", "ContainerCannotRun", "StartError",
)  # fmt: skip
_FIELDS: Final = ("type", "status", "reason", "minTimeSinceLastTransitionSeconds")


class PodLifeTime(DeschedulePlugin):
    name: ClassVar[str] = "PodLifeTime"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments)
        given = arguments.get("maxPodLifeTimeSeconds")
        self._longest = None if given is None else arguments.integer("maxPodLifeTimeSeconds", 0, minimum=0)
        self._states = texts(arguments, "states", _STATES)
        self._conditions = _conditions(arguments)
        self._codes = read_numbers(arguments, "exitCodes")
        self._init = arguments.boolean("includingInitContainers", False)
        self._ephemeral = arguments.boolean("includingEphemeralContainers", False)
        self._has_owner_kind = _owner_kinds(arguments)
        if self._longest is None and not (self._states or self._conditions or self._codes):
            raise arguments.error(
                "maxPodLifeTimeSeconds", "is required, unless there are states, conditions or exitCodes"
            )

    def warnings(self) -> tuple[str, ...]:
        if not self._ephemeral:
            return ()
        return (f"{self.name}: includingEphemeralContainers has no effect here: their states are not read",)

    def deschedule(self, run: Run) -> None:
        now = run.view.now
        tasks = [task for node in run.view.nodes.nodes for task in run.view.tasks_on(node)]
        found = [(task, False) for task in tasks] + [(task, True) for task in run.view.finished_tasks()]
        oldest_first = sorted(found, key=lambda each: (-age(each[0].pod, now), each[0].key))
        for task, has_finished in oldest_first:
            why = self._why(task.pod, now)
            if why is None:
                continue
            refusal = run.refusal_to_delete(task) if has_finished else run.refusal(task)
            if refusal is None:
                run.remove(task, plugin=self.name, why=why, has_finished=has_finished)

    def _why(self, pod: Pod, now: float) -> str | None:
        """Why a pod has to go; None if it may stay."""
        if not self._pods.covers(pod) or not self._has_owner_kind(pod):
            return None
        old = age(pod, now)
        if self._longest is not None and old <= self._longest:
            return None
        said = {*states(pod, init=self._init)}
        if self._states and not said & {*self._states}:
            return None
        if self._codes and not {*exit_codes(pod, init=self._init)} & self._codes:
            return None
        if self._conditions and not any(fits(one, now) for fits in self._conditions for one in pod.status.conditions):
            return None
        state = next((one for one in self._states if one in said), "")
        return f"it is {format_duration(round(old))} old{f' and {state}' if state else ''}"


def read_numbers(arguments: Arguments, key: str) -> set[int]:
    given = arguments.get(key) or []
    if not isinstance(given, list) or not all(isinstance(each, int) and not isinstance(each, bool) for each in given):
        raise arguments.error(key, "must be a list of whole numbers")
    return set(given)


def _owner_kinds(arguments: Arguments) -> Callable[[Pod], bool]:
    given = arguments.get("ownerKinds")
    if given is None:
        return lambda pod: True
    if not isinstance(given, dict) or not set(given) <= {"include", "exclude"}:
        raise arguments.error("ownerKinds", "must have include or exclude, a list of kinds")
    include, exclude = given.get("include") or [], given.get("exclude") or []
    if include and exclude:
        raise arguments.error("ownerKinds", "must have either include or exclude, not both")

    def fits(pod: Pod) -> bool:
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        return bool(kinds & {*include}) if include else not kinds & {*exclude}

    return fits


def _conditions(arguments: Arguments) -> list[Callable[[Condition, float], bool]]:
    given = arguments.get("conditions") or []
    problem = "must be a list, each with a type, a status, a reason or minTimeSinceLastTransitionSeconds"
    if not isinstance(given, list):
        raise arguments.error("conditions", problem)
    found = []
    for each in given:
        if not isinstance(each, dict) or not each or not set(each) <= {*_FIELDS}:
            raise arguments.error("conditions", problem)
        found.append(_condition(each))
    return found


def _condition(wanted: dict[str, Any]) -> Callable[[Condition, float], bool]:
    least = wanted.get("minTimeSinceLastTransitionSeconds")

    def fits(one: Condition, now: float) -> bool:
        if any(wanted.get(name) not in (None, "", getattr(one, name)) for name in ("type", "status", "reason")):
            return False
        if least is None:
            return True
        return one.last_transition_time is not None and now - parse_timestamp(one.last_transition_time) >= least

    return fits
