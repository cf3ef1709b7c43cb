"""allocate: give idle room to jobs, in the one order.

A job is taken as far as it can start and then goes back in line, so queues, namespaces and jobs share turn by turn.
A job that cannot start gives back all it was tried with (unless leaving pods will make room for it: then it keeps
its promise for this cycle).

After that pass, room may lie idle only because tasks are larger than what is left of each queue's deserved amount.
It is lent, in the same order, up to the queues' hard limits; what is lent can be reclaimed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import ClassVar

from stromboli.cluster import Job, JobKey, Status, Task
from stromboli.scheduling.backfill import Lending, could_borrow, ends_some_day, note_conditional, take_back
from stromboli.scheduling.bind_backoff import worth_trying
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.eviction import Nominations, ReturnedPromises
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.gang import (
    FailedAttempts,
    SmallJobs,
    TentativePlaces,
    complete_with_best_effort,
    conditionally_ready,
    is_eligible,
    lacks_places,
    lacks_places_everywhere,
    lacks_places_like_others,
    place_afresh,
    place_gang,
    promised_first,
    start_gang,
)
from stromboli.scheduling.moves import is_successor, place_successors
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.reservations import fail_hopeless, place_users, waiting_stand_ins
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement
from stromboli.scheduling.walk import Walk

_PENDING = Status.PENDING
_TO_PLACE = frozenset({Status.PENDING, Status.RESERVED})


class Outcome(Enum):
    MORE = "started, and has more tasks"
    DONE = "started, and has no more tasks"
    WAITS = "waits for leaving pods"
    NOTHING = "cannot start"


class Allocate(Action):
    name: ClassVar[str] = "allocate"

    def __init__(self, arguments: Arguments) -> None:
        self._open: dict[JobKey, Statement] = {}  # of jobs that wait for leaving pods

    def execute(self, session: Session) -> None:
        if not session.has_action("enqueue"):
            _admit_all(session)
        self._keep_promises(session)
        place_users(session)
        fail_hopeless(session)
        place_successors(session)
        stand_ins = [job for job in waiting_stand_ins(session) if not is_successor(session, job)]
        candidates = [*worth_trying(session, session.waiting), *stand_ins]
        jobs = [job for job in candidates if is_eligible(session, job) and _has_tasks_to_place(job)]
        refused = self._ordered_pass(session, jobs)
        if refused:
            self._lend(session, refused)
        # Room that a gang cannot use yet is closed to nobody: neither to preemption, which would evict others beside
        # it, nor to jobs that nothing is lent to.
        places = session.state(TentativePlaces)
        for job in sorted((job for job in jobs if job in places), key=session.job_key, reverse=True):
            if not conditionally_ready(job):
                places.give_up(job)
        self._take_from_others(session, jobs)

    def _take_from_others(self, session: Session, jobs: list[Job]) -> None:
        """What is kept for others is given up for jobs that go before them and fit only there."""
        if not session.hooks("displacement") or not session.ledger.reserved_tasks:
            return
        places = session.state(TentativePlaces)
        missing = [job for job in jobs if job.ready_count < job.min_available and not job.stands_for]
        for job in session.turns.while_time(sorted(missing, key=session.job_key)):
            if job.ready_count < job.min_available:
                choices = session.displacements(job, evicting=False)
                if choices and (job in places or not lacks_places_everywhere(session, job)):
                    any(self._take(session, job, give_up) for give_up in choices)

    def _take(self, session: Session, job: Job, give_up: Callable[[Statement], None]) -> bool:
        session.state(TentativePlaces).give_up(job)
        said = session.notes.of(job)
        statement = session.statement()
        give_up(statement)
        tasks = _tasks_to_place(session, job)
        if lacks_places(session, job, tasks):
            statement.discard()
        elif start_gang(session, statement, job, tasks):
            session.notes.pardon(job)
            return True
        session.notes.recall(job, said)
        return False

    def _keep_promises(self, session: Session) -> None:
        """Jobs for which pods were evicted in an earlier cycle take that room before anybody else may."""
        nominations = session.state(Nominations)
        for job in session.turns.each(nominations.jobs()):
            nominations.give_up(job)
            wanted = [task for task in session.pending_tasks(job) if task.nominated or not task.best_effort]
            tasks = deque(promised_first(wanted))
            outcome = Outcome.MORE
            while outcome is Outcome.MORE and any(task.nominated for task in tasks):
                outcome = self._try(session, job, tasks, lending=True)
                # Pods without requests may have been placed to complete the gang, not in their turn.
                tasks = deque(task for task in tasks if task.node is None or task.status is Status.RESERVED)
            nominations.keep(job)

    def _ordered_pass(self, session: Session, jobs: list[Job]) -> list[Job]:
        """Returns the jobs that a queue's deserved amount held back."""
        pending: dict[JobKey, deque[Task]] = {}  # of jobs that were tried
        held_back: list[Job] = []
        stopped: set[str] = set()  # fifo queues whose head cannot be placed
        walk = Walk(session, jobs, drop=session.overused)
        while (job := walk.next()) is not None:
            outcome = self._try_in_turn(session, job, pending, lending=False)
            if outcome is Outcome.MORE:
                walk.again(job)
                continue
            # Also a job that started: a sibling of what was placed may have been too large for the deserved amount.
            if is_held_back(session, job):
                held_back.append(job)
            if outcome is Outcome.NOTHING and job.queue.fifo and not job.stands_for:
                walk.stop_queue()
                stopped.add(job.queue.name)
                for later in walk.dropped:
                    if later.queue is job.queue:
                        session.notes.refuse(later, Refusal(Code.QUEUE_FIRST_IN_LINE, subject=job.queue.name))
        for job in session.turns.while_time([job for job in walk.dropped if job.queue.name not in stopped]):
            tasks = pending.setdefault(job.key, _tasks_to_place(session, job))
            refusal = session.allocatable(job.queue, tasks[0].request, job=job)
            if refusal is not None:
                session.notes.refuse(job, refusal)
                held_back.append(job)
                continue
            # The queue has used up what it deserves, but not in what this job requests; or it has lost pods since.
            while self._try(session, job, tasks, lending=False) is Outcome.MORE:
                pass
            if is_held_back(session, job):
                held_back.append(job)
        return held_back

    def _lend(self, session: Session, jobs: list[Job]) -> None:
        pending: dict[JobKey, deque[Task]] = {}
        # What is lent must be possible to take back, pod by pod.
        walk = Walk(session, [j for j in jobs if _has_tasks_to_place(j) and not j.goes_whole and not j.stands_for])
        while (job := walk.next()) is not None:
            outcome = self._try_in_turn(session, job, pending, lending=True)
            if outcome is Outcome.MORE:
                walk.again(job)
            if outcome in (Outcome.MORE, Outcome.DONE):
                session.notes.pardon(job)
            elif job.queue.fifo:
                walk.stop_queue()

    def _try_in_turn(self, session: Session, job: Job, pending: dict[JobKey, deque[Task]], *, lending: bool) -> Outcome:
        """`pending`: the tasks that are left of jobs that had their turn before."""
        tasks = pending.get(job.key)
        if tasks is not None:
            return self._try(session, job, tasks, lending=lending)
        failures, attempt = session.memory(FailedAttempts), "lend" if lending else "allocate"
        holds_nothing = job.key not in self._open and job not in session.state(TentativePlaces)
        if holds_nothing and failures.repeat(session, attempt, job):
            return Outcome.NOTHING
        lends = session.state(Lending).rules.lends
        if holds_nothing and lacks_places_like_others(session, job, lending=lending, keeps_some=lends):
            failures.record(session, attempt, job)
            return Outcome.NOTHING
        if holds_nothing and not lending and session.state(SmallJobs).place(job):
            return Outcome.DONE
        tasks = pending[job.key] = _tasks_to_place(session, job)
        if holds_nothing and lacks_places(session, job, tasks, lending=lending, keeps_some=lends):
            outcome = Outcome.NOTHING
        else:
            outcome = self._try(session, job, tasks, lending=lending)
        if holds_nothing and outcome is Outcome.NOTHING and job not in session.state(TentativePlaces):
            failures.record(session, attempt, job)
        return outcome

    def _try(self, session: Session, job: Job, tasks: deque[Task], *, lending: bool) -> Outcome:
        """A job that waits and is tried again goes on with its open statement: what it holds there counts towards its
        minimum, so it has to become true together with what is added."""
        session.state(TentativePlaces).give_up(job)
        statement = self._open.pop(job.key, None)
        before = 0 if statement is None else len(statement)
        if statement is None:
            statement = place_afresh(session, job, tasks, lending=lending)
        else:
            place_gang(session, statement, job, tasks, lending=lending)
        placed = len(statement) > before
        if placed and session.job_ready(job):
            if complete_with_best_effort(session, statement, job):
                statement.commit()
                return Outcome.MORE if tasks else Outcome.DONE
            # It lacks a node for a pod without requests. Room kept for it meanwhile could lie idle for ever.
            statement.discard()
            return Outcome.NOTHING
        if statement.operations and session.job_pipelined(job):
            self._open[job.key] = statement
            return Outcome.WAITS
        if conditionally_ready(job):
            if could_borrow(session, statement, job):
                return Outcome.NOTHING
            evicts = session.state(Lending).rules.evicts and session.state(ReturnedPromises).until(job) is None
            if evicts and take_back(session, statement, job):
                return Outcome.WAITS
            if not ends_some_day(session, job):
                # Somebody in its way may not be evicted, and never ends.
                statement.discard()
                return Outcome.NOTHING
            session.state(TentativePlaces).keep(job, statement)
            note_conditional(session, job)
            return Outcome.WAITS
        # What is set aside for a job stays so without being kept here; kept, it would look like a place taken, and the
        # rest of the node would be open to everybody.
        holds = any(operation.was[0] is Status.RESERVED for operation in statement.operations)
        if statement.operations and session.state(Lending).rules.lends and not holds:
            session.state(TentativePlaces).keep(job, statement)
            return Outcome.NOTHING
        statement.discard()
        return Outcome.NOTHING


def _admit_all(session: Session) -> None:
    """Without the action enqueue there is no admission: controllers create the pods of every group at once."""
    for job in session.active:
        if job.phase == "Pending" and job.queue.open and not job.ready_count:
            session.ledger.set_phase(job, "Inqueue")


def _has_tasks_to_place(job: Job) -> bool:
    if job.counts[_PENDING] > job.gated + job.pending_best_effort:
        return True
    return any(_is_to_place(task) for task in job.tasks.values())


def _tasks_to_place(session: Session, job: Job) -> deque[Task]:
    """The waiting tasks of a job but for those without requests, in order."""
    return deque(task for task in session.pending_tasks(job) if not task.best_effort)


def _is_to_place(task: Task) -> bool:
    return task.status in _TO_PLACE and not task.gated and not task.shape.best_effort


def is_held_back(session: Session, job: Job) -> bool:
    note = session.notes.known(job)
    return note is not None and note.refused_by(Code.QUEUE_OVER_DESERVED)
