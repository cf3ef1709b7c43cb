"""How much work a cycle spends on searches for victims, and who goes on in the next one.

Placements are sent when the cycle is over. So a cycle must not take long because of jobs for which victims are searched
in vain, on thousands of nodes for each kind of pod. The work is counted in nodes for which a plan was made, not in
time, so that equal clusters give equal decisions. When the limit is reached, the jobs that have not had their turn wait
for the next cycle, and those that had it in vain are passed over there, until everybody had a turn.

A gang that has begun to search is not interrupted: it finds about one plan for each of its tasks.
"""

from __future__ import annotations

from stromboli.cluster import Job, JobKey
from stromboli.scheduling.session import Session

MOST_PLANS = 20_000  # in one cycle


class _Round:
    """From one cycle to the next: who had a turn in vain since everybody had one."""

    def __init__(self) -> None:
        self.tried: set[tuple[str, JobKey]] = set()
        self.goes_on = False  # somebody had no turn in the last cycle


class Turns:
    """The work of one cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._round = session.memory(_Round)
        if not self._round.goes_on:
            self._round.tried.clear()
        self._round.goes_on = False
        self.plans = 0  # made in this cycle, for all jobs

    def may_search(self, action: str, job: Job) -> bool:
        """Whether it is the turn of a job to search for victims; if not, there is another cycle soon."""
        had_its_turn = (action, job.key) in self._round.tried
        if not had_its_turn and self.plans < MOST_PLANS:
            return True
        if not had_its_turn:
            self._round.goes_on = True
            self._session.cycle.postponed_searches += 1
        self._session.due(self._session.now)
        return False

    def searched_in_vain(self, action: str, job: Job) -> None:
        self._round.tried.add((action, job.key))
