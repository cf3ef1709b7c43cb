"""Trying jobs, turn by turn.

The rule: tasks are placed as far as the job needs (`place_gang`). If it can start then, that is committed. If it could
once pods that terminate are gone, its statement stays open, and its next turn goes on with it: what it holds there
counts towards its minimum, so it has to become true together with what is added. Anything else is given back.

The short cuts of a first turn give the same outcome. They are about jobs that hold nothing, so that the state of the
cluster decides alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from stromboli.cluster import Job, JobKey, Task
from stromboli.scheduling.gang import TentativePlaces, complete_with_best_effort, is_close, place_afresh, place_gang
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .enough_places import could_start_anywhere, lacks_places
from .failed_attempts import FailedAttempts
from .small_jobs import SmallJobs


class Outcome(Enum):
    MORE = "started, and has more tasks"
    DONE = "started, and has no more tasks"
    WAITS = "waits for leaving pods"
    NOTHING = "cannot start"


# Looked up once: it takes long to find members of an enumeration.
_DONE = Outcome.DONE
_NOTHING = Outcome.NOTHING


@dataclass(frozen=True, slots=True)
class Way:
    """How a job is tried."""

    name: str  # what failed is remembered under it
    lending: bool = False  # its queue may go beyond what it deserves
    conditionally: bool = True  # its tasks may count on room that is lent to others


ALLOCATE: Final = Way("allocate")
LEND: Final = Way("lend", lending=True)
BACKFILL: Final = Way("backfill", lending=True, conditionally=False)


class Attempts:
    """The attempts of one action."""

    def __init__(self, session: Session, give_back: Callable[[Statement, Job], Outcome]) -> None:
        """`give_back`: what becomes of places that are not enough."""
        self._session = session
        self._give_back = give_back
        self._places = session.state(TentativePlaces)
        self._failures = session.state(FailedAttempts)
        self._small = session.state(SmallJobs)
        self._open: dict[JobKey, Statement] = {}  # of jobs that wait for leaving pods
        self.begin(ALLOCATE)

    def begin(self, way: Way) -> None:
        """All jobs have their first turn again."""
        self._way = way
        self._left: dict[JobKey, deque[Task]] = {}  # the tasks that are left of jobs after a turn

    def take_turn(self, job: Job) -> Outcome:
        if job.key in self._left or job.key in self._open or job in self._places:
            return self.go_on(job)
        way, failures = self._way, self._failures
        if failures.repeat(way.name, job):
            return _NOTHING
        if not way.lending and self._small.place(job):
            return _DONE
        # What is kept although it is not enough, is more than nothing.
        keeps_some = bool(self._session.points.fallback_possible)
        if lacks_places(self._session, job, self.left(job), lending=way.lending, keeps_some=keeps_some):
            outcome = _NOTHING
        else:
            outcome = self.go_on(job)
        if outcome is _NOTHING and job not in self._places:
            failures.record(way.name, job)
        return outcome

    def left(self, job: Job) -> deque[Task]:
        """The tasks of a job that were not tried in its earlier turns."""
        known = self._left.get(job.key)
        if known is None:
            known = self._left[job.key] = requesting(self._session, job)
        return known

    def go_on(self, job: Job, tasks: deque[Task] | None = None) -> Outcome:
        """The rule. `tasks`: to be tried, if not those that are left."""
        session, way = self._session, self._way
        tasks = self.left(job) if tasks is None else tasks
        self._places.give_up(job)
        statement = self._open.pop(job.key, None)
        before = 0 if statement is None else len(statement)
        if statement is None:
            statement = place_afresh(session, job, tasks, lending=way.lending)
        else:
            place_gang(session, statement, job, tasks, lending=way.lending)
        if len(statement) > before and session.job_ready(job):
            if complete_with_best_effort(session, statement, job):
                statement.commit()
                return Outcome.MORE if tasks else Outcome.DONE
            # It lacks a node for a pod without requests. Room kept for it meanwhile could lie idle for ever.
            statement.discard()
            return Outcome.NOTHING
        if statement.operations and session.job_pipelined(job):
            self._open[job.key] = statement
            return Outcome.WAITS
        return self._give_back(statement, job)


def requesting(session: Session, job: Job) -> deque[Task]:
    """The waiting tasks of a job, in order; without those that request nothing, which are placed at the end of a cycle,
    unless it matters with which others they are."""
    tasks = session.pending_tasks(job)
    return deque(tasks if is_close(job) else (task for task in tasks if not task.best_effort))


def make_ready(session: Session, statement: Statement, job: Job, tasks: deque[Task], way: Way) -> bool:
    """Place as many tasks as the job needs to start; whether it can. If not, whoever asks discards the statement."""
    if lacks_places(session, job, tasks, lending=way.lending):
        return False
    place_gang(session, statement, job, tasks, lending=way.lending, conditionally=way.conditionally)
    return session.job_ready(job)


def start_instead(session: Session, job: Job, choices: Sequence[Callable[[Statement], None]]) -> bool:
    """Whether the job starts, all or nothing, where one of these choices gives something up for it. What was said of it
    before stays, if it does not."""
    places = session.state(TentativePlaces)
    if not choices or (job not in places and not could_start_anywhere(session, job)):
        return False
    return any(_starts_with(session, job, give_up) for give_up in choices)


def _starts_with(session: Session, job: Job, give_up: Callable[[Statement], None]) -> bool:
    session.state(TentativePlaces).give_up(job)
    said = session.notes.of(job)
    statement = session.statement()
    give_up(statement)
    is_ready = make_ready(session, statement, job, requesting(session, job), ALLOCATE)
    if is_ready and complete_with_best_effort(session, statement, job):
        statement.commit()
        session.notes.pardon(job)
        return True
    statement.discard()
    session.notes.recall(job, said)
    return False
