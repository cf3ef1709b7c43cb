"""Turns: the border between one job and the next.

Actions and features handle one object after the other. `Turns` knows whose turn it is, so that an error can be charged
to that object, and whether there is time for another turn, so that a cycle that takes too long ends between two jobs
and never inside one. What a job has been given by then is whole: committed, or undone, or kept as a promise.

A cycle that is cut says whom it did not get to. The next one begins with them (`first`), among jobs of equal queue and
priority; see `walk`. Where it was cut is counted in turns of each action, so that a replay ends at the same border.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from stromboli.cluster import Job, JobKey, Queue

Subject = TypeVar("Subject", Job, Queue)

MayGoOn = Callable[[str, int], bool]
"""(action, turns so far): whether there is time for another."""

NOBODY: Final[Mapping[JobKey, int]] = {}


class Turns:
    def __init__(self, first: Mapping[str, Sequence[JobKey]] | None = None, may_go_on: MayGoOn | None = None) -> None:
        """`first`: by action, the jobs that the last cycle did not get to, in order. `may_go_on`: None if there is no
        limit."""
        self.current: Job | Queue | None = None
        self.action = ""
        self.cut: dict[str, int] = {}  # by action: after how many turns it was cut
        self.not_reached: dict[str, dict[JobKey, None]] = {}  # by action: jobs, in the order of the walk
        self.is_limited = may_go_on is not None
        # By action, over all sessions of a cycle: who had a turn, and how many there were. Those of this action are at
        # hand, because there may be ten thousand turns.
        self._had_turns: dict[str, list[JobKey]] = {}
        self._taken: dict[str, int] = {}
        self._had_turn: list[JobKey] = []
        self._number = 0
        self._first = {
            action: {job: position for position, job in enumerate(jobs)} for action, jobs in (first or {}).items()
        }
        self._may_go_on = may_go_on

    def begin(self, action: str) -> None:
        """An action begins; "" when all have ended."""
        self._taken[self.action] = self._number
        self.action = action
        self.current = None
        self._number = self._taken.get(action, 0)
        self._had_turn = self._had_turns.setdefault(action, [])

    def first(self) -> Mapping[JobKey, int]:
        """Jobs that this action begins with, and their places: whoever was passed over first goes first, so that all
        have a turn some day."""
        return self._first.get(self.action, NOBODY)

    def may_go_on(self) -> bool:
        """Whether this action has time for another turn; then it counts as taken."""
        if self._may_go_on is None or not self.action:
            return True
        if self.action in self.cut:
            return False
        if not self._may_go_on(self.action, self._number):
            self.cut[self.action] = self._number
            return False
        self._number += 1
        return True

    def take(self, job: Job) -> None:
        """It is the turn of this job."""
        self.current = job
        if self.is_limited:
            self._had_turn.append(job.key)

    def miss(self, jobs: Iterable[Job]) -> None:
        """There was no time for these. Those that had a turn in this action before are not missed: it was about another
        chance."""
        had_turns = frozenset(self._had_turn)
        missed = dict.fromkeys([job.key for job in jobs if job.key not in had_turns])
        if missed:
            self.not_reached.setdefault(self.action, {}).update(missed)

    def each(self, subjects: Iterable[Subject]) -> Iterator[Subject]:
        """Give each its turn, however long it takes."""
        for subject in subjects:
            self.current = subject
            yield subject
        self.current = None  # not after an error: that is charged to whoever had the turn

    def while_time(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Give each job its turn while there is time."""
        waiting = iter(jobs)
        for job in waiting:
            self.current = None
            if not self.may_go_on():
                self.miss([job, *waiting])
                return
            self.take(job)
            yield job
        self.current = None
