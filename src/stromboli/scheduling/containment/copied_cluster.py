"""Cycles on a copy of a live cluster: `why`, `diag` and the page ask what the scheduler would decide.

The scheduler itself goes on after an error, so a copy has to as well: one job that fails must not keep the answers
about all others from users. What a cycle that failed leaves behind is not to be trusted, so the copy is made again,
without those that were charged, as the scheduler builds its state again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from stromboli.cluster import Cluster
from stromboli.containment import ContainedError, PutAside
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle

from .contained_cycle import Aside, CycleInputs, CycleObserver, NotContained, run_contained

MOST_COPIES: Final = 20  # for one cycle; each is without a few more objects


class CopiedScheduler:
    """Decides as a live scheduler does that has just started: who failed is put aside for a growing time."""

    def __init__(self, scheduler: Scheduler, copy_again: Callable[[], Cluster] | None) -> None:
        """`copy_again`: makes the cluster anew from the objects as they are now. None: nobody can, so a cycle that
        fails is an error."""
        self._scheduler = scheduler
        self._copy_again = copy_again
        self._put_aside = PutAside()

    def run(self, cluster: Cluster, now: float) -> Cycle:
        return self.run_on(cluster, now)[0]

    def run_on(self, cluster: Cluster, now: float, observer: CycleObserver | None = None) -> tuple[Cycle, Cluster]:
        """Also returns the copy that the cycle was run on in the end."""
        for copies in count(1):
            aside = {ref: Aside(error, entirely) for ref, error, entirely in self._put_aside.at(now)}
            try:
                cycle = run_contained(self._scheduler, cluster, now, CycleInputs(aside), observer=observer)
                break
            except NotContained as failure:
                if not failure.errors or self._copy_again is None or copies >= MOST_COPIES:
                    raise failure.__cause__ or failure from None
                self._charge(failure.errors, now)
            cluster = self._copy_again()
        self._charge(cycle.contained, now)
        cycle.asks_again = cycle.asks_again or bool(cycle.contained)  # it may have ended without its actions
        return cycle, cluster

    def _charge(self, errors: Iterable[ContainedError], now: float) -> None:
        for error in errors:
            self._put_aside.charge(error.subject, error.error, now, entirely=error.entirely)
