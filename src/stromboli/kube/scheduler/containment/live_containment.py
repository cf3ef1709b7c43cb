"""What the scheduler's process remembers from one cycle to the next: who is put aside, and who had no turn.

Both are inputs of the next cycle, and are recorded with it. A restart forgets them: then every object is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from stromboli.api import KObject, key
from stromboli.cluster import Applied, Cluster, ClusterEvent, Deleted, JobKey
from stromboli.cluster.relevance import is_relevant
from stromboli.containment import ContainedError, ObjectRef, PutAside
from stromboli.kube.runtime import ErrorReporter, Log
from stromboli.scheduling.containment import Aside, CycleInputs, TimeLimit
from stromboli.scheduling.decisions import Cycle

_log = Log("scheduler")


class LiveContainment:
    def __init__(
        self,
        reporter: ErrorReporter,
        *,
        budget: float | None = None,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """`budget`: seconds after which a cycle is cut; None: never. `stopwatch`: the clock for that."""
        self._reporter = reporter
        self._budget = budget
        self._stopwatch = stopwatch
        self._put_aside = PutAside()
        self._not_reached: dict[str, list[JobKey]] = {}
        self._broken: dict[ObjectRef, KObject] = {}  # objects that cannot be applied

    # -- before a cycle -----------------------------------------------------------------------------------------

    def inputs(self, now: float) -> CycleInputs:
        aside = {ref: Aside(error, entirely) for ref, error, entirely in self._put_aside.at(now)}
        self._reporter.put_aside(len(aside) + len(self._broken))
        return CycleInputs(aside, self._not_reached)

    def time_limit(self, actions: Sequence[str]) -> TimeLimit | None:
        return None if self._budget is None else TimeLimit(self._budget, actions, self._stopwatch)

    # -- events -------------------------------------------------------------------------------------------------

    def observe(self, event: ClusterEvent, cluster: Cluster) -> None:
        """Call before the event is applied: an object that changes is tried again soon."""
        if not cluster.put_aside or not isinstance(event, Applied | Deleted):
            return
        ref = _ref(event.object)
        known = cluster.put_aside.get(ref)
        if known is not None:
            if isinstance(event, Deleted):
                self._put_aside.gone(ref)
            elif is_relevant(known.object, event.object):
                self._put_aside.changed(ref)

    def without_broken(self, events: Iterable[ClusterEvent]) -> list[ClusterEvent]:
        """The events but for those about objects that cannot be applied, as long as these stay as they are."""
        if not self._broken:
            return list(events)
        found: list[ClusterEvent] = []
        for event in events:
            ref = _ref(event.object) if isinstance(event, Applied | Deleted) else None
            if ref in self._broken:
                if isinstance(event, Applied) and event.object == self._broken[ref]:
                    continue
                del self._broken[ref]
            found.append(event)
        return found

    def cannot_apply(self, obj: KObject, error: ContainedError) -> bool:
        """The cluster state must be built again without this object. False if it is left out already."""
        if _ref(obj) in self._broken:
            return False
        self._broken[_ref(obj)] = obj
        self._reporter.report(error, seconds=0.0)
        return True

    # -- after a cycle ------------------------------------------------------------------------------------------

    def new_errors(self, errors: Iterable[ContainedError]) -> list[ContainedError]:
        """Those that have not been logged."""
        return [error for error in errors if self._reporter.is_new(error)]

    def charge(self, errors: Iterable[ContainedError], now: float, recording: str = "") -> None:
        """`recording`: what reproduces them."""
        for error in errors:
            seconds = self._put_aside.charge(error.subject, error.error, now, entirely=error.entirely)
            self._reporter.report(error, seconds=seconds, recording=recording)

    def note_turns(self, cycle: Cycle) -> None:
        self._not_reached = cycle.not_reached
        if cycle.cut:
            missed = list(dict.fromkeys(job for jobs in cycle.not_reached.values() for job in jobs))
            _log.warning(
                "a cycle ran out of time; the next one begins with the jobs that had no turn",
                seconds=self._budget,
                actions=", ".join(cycle.cut),
                jobs=len(missed),
                first=", ".join(missed[:5]),
            )


def _ref(obj: KObject) -> ObjectRef:
    return ObjectRef(obj.kind, key(obj))
