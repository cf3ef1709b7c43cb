"""The same trials for the page, as it asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from stromboli.api import ApiError, KObject, Pod, group_name_of
from stromboli.api.pod_timing import pod_timing
from stromboli.insight import State, explain, inspect
from stromboli.kube.page_server.outlook import ExpectedRun
from stromboli.scheduling.cycle import Scheduler
from stromboli.simulation.rehearsal import Rehearsal

from .counterfactuals import Counterfactual, Progress, prospects

_OBJECTS_IN_ALL_TRIALS: Final = 40_000
"""Fewer than on the command line: the scheduler shares the process."""
_FORECAST_SECONDS: Final = 86_400.0
_FORECAST_CYCLES: Final = 200


class PageAnswers:
    def expected_runs(self, state: State, scheduler: Scheduler) -> Mapping[str, ExpectedRun]:
        picture = inspect(state, _copy(scheduler)).picture
        waiting = [job.group for job in picture.jobs if job.waits and job.group]
        rehearsal = Rehearsal(
            state.objects, state.now, scheduler.registry, scheduler.configuration, scheduler_name=state.scheduler_name
        )
        starts = rehearsal.starts(waiting, seconds=_FORECAST_SECONDS, most_cycles=_FORECAST_CYCLES)
        durations = _durations(rehearsal.objects)
        return {
            group: ExpectedRun(start, None if (runs := durations.get(group)) is None else start + runs)
            for group, start in starts.items()
        }

    def prospects(
        self, state: State, scheduler: Scheduler, job: str, tell: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any] | None:
        explanation = explain(state, _copy(scheduler), job)
        if explanation is None:
            return None
        picture = inspect(state, _copy(scheduler)).picture
        found = prospects(
            state, picture, explanation, scheduler.registry, scheduler.configuration, budget=_OBJECTS_IN_ALL_TRIALS,
            tell=lambda progress: tell(_so_far(progress)),
        )  # fmt: skip
        return {
            "startsNow": found.starts_now,
            "expectedStart": found.expected_start,
            "expectedAfter": found.after,
            "counterfactuals": _rows(found.counterfactuals),
        }


def _so_far(progress: Progress) -> dict[str, Any]:
    return {
        "trying": progress.trying,
        "tried": progress.tried,
        "most": progress.most,
        "counterfactuals": _rows(progress.found),
    }


def _rows(found: Iterable[Counterfactual]) -> list[dict[str, Any]]:
    return [{"sentence": one.sentence, "evicts": one.evicts, "at": one.at} for one in found]


def _copy(scheduler: Scheduler) -> Scheduler:
    return Scheduler(scheduler.configuration, scheduler.registry)


def _durations(objects: list[KObject]) -> dict[str, float | None]:
    """How long the pods of each group run, by the key of the group; None if one of them does not say."""
    found: dict[str, float | None] = {}
    for pod in objects:
        if not isinstance(pod, Pod):
            continue
        try:
            runs = pod_timing(pod.metadata.annotations).run
        except ApiError:
            runs = None
        group = f"{pod.metadata.namespace}/{group_name_of(pod)}"
        known = found.get(group, 0.0)
        found[group] = None if runs is None or known is None else max(known, runs)
    return found
