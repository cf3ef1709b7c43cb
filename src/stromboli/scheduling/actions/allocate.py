"""allocate: give idle room to jobs, in the one order.

A job is taken as far as it can start and then goes back in line, so queues, namespaces and jobs share turn by turn.
A job that cannot start gives back all it was tried with (unless leaving pods will make room for it: then it keeps
its promise for this cycle).

After that pass, room may lie idle only because tasks are larger than what is left of each queue's deserved amount.
It is lent, in the same order, up to the queues' hard limits; what is lent can be reclaimed.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from stromboli.cluster import Job, Status, Task
from stromboli.scheduling.attempt import (
    ALLOCATE,
    LEND,
    Attempts,
    Outcome,
    start_instead,
)
from stromboli.scheduling.backfill import Lending, could_borrow, ends_some_day, note_conditional, take_back
from stromboli.scheduling.bind_backoff import worth_trying
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.eviction import Nominations, ReturnedPromises
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.gang import (
    TentativePlaces,
    conditionally_ready,
    is_close,
    is_eligible,
    promised_first,
)
from stromboli.scheduling.moves import is_successor, place_successors
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.reservations import fail_hopeless, place_users, waiting_stand_ins
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement
from stromboli.scheduling.walk import Walk

_PENDING = Status.PENDING
_TO_PLACE = frozenset({Status.PENDING, Status.RESERVED})


class Allocate(Action):
    name: ClassVar[str] = "allocate"

    def __init__(self, arguments: Arguments) -> None:
        pass

    def execute(self, session: Session) -> None:
        if not session.has_action("enqueue"):
            _admit_all(session)
        attempts = Attempts(session, lambda statement, job: _give_back(session, statement, job))
        _keep_promises(session, attempts)
        place_users(session)
        fail_hopeless(session)
        place_successors(session)
        stand_ins = [job for job in waiting_stand_ins(session) if not is_successor(session, job)]
        candidates = [*worth_trying(session, session.waiting), *stand_ins]
        jobs = [job for job in candidates if is_eligible(session, job) and _has_tasks_to_place(session, job)]
        refused = _ordered_pass(session, attempts, jobs)
        if refused:
            _lend(session, attempts, refused)
        # Room that a gang cannot use yet is closed to nobody: neither to preemption, which would evict others beside
        # it, nor to jobs that nothing is lent to.
        places = session.state(TentativePlaces)
        for job in sorted((job for job in jobs if job in places), key=session.job_key, reverse=True):
            if not conditionally_ready(job):
                places.give_up(job)
        _take_from_others(session, jobs)


def _keep_promises(session: Session, attempts: Attempts) -> None:
    """Jobs for which pods were evicted in an earlier cycle take that room before anybody else may."""
    nominations = session.state(Nominations)
    attempts.begin(LEND)
    for job in session.turns.each(nominations.jobs()):
        nominations.give_up(job)
        wanted = [task for task in session.pending_tasks(job) if task.nominated or not task.best_effort]
        tasks = deque(promised_first(wanted))
        outcome = Outcome.MORE
        while outcome is Outcome.MORE and any(task.nominated for task in tasks):
            outcome = attempts.go_on(job, tasks)
            # Pods without requests may have been placed to complete the gang, not in their turn.
            tasks = deque(task for task in tasks if task.node is None or task.status is Status.RESERVED)
        nominations.keep(job)


def _ordered_pass(session: Session, attempts: Attempts, jobs: list[Job]) -> list[Job]:
    """Returns the jobs that a queue's deserved amount held back."""
    held_back: list[Job] = []
    stopped: set[str] = set()  # fifo queues whose head cannot be placed
    attempts.begin(ALLOCATE)
    walk = Walk(session, jobs, drop=session.overused)
    while (job := walk.next()) is not None:
        outcome = attempts.take_turn(job)
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
        refusal = session.allocatable(job.queue, attempts.left(job)[0].request, job=job)
        if refusal is not None:
            session.notes.refuse(job, refusal)
            held_back.append(job)
            continue
        # The queue has used up what it deserves, but not in what this job requests; or it has lost pods since.
        while attempts.go_on(job) is Outcome.MORE:
            pass
        if is_held_back(session, job):
            held_back.append(job)
    return held_back


def _lend(session: Session, attempts: Attempts, jobs: list[Job]) -> None:
    attempts.begin(LEND)
    # What is lent must be possible to take back, pod by pod.
    walk = Walk(session, [j for j in jobs if _has_tasks_to_place(session, j) and not j.goes_whole and not j.stands_for])
    while (job := walk.next()) is not None:
        outcome = attempts.take_turn(job)
        if outcome is Outcome.MORE:
            walk.again(job)
        if outcome in (Outcome.MORE, Outcome.DONE):
            session.notes.pardon(job)
        elif job.queue.fifo:
            walk.stop_queue()


def _give_back(session: Session, statement: Statement, job: Job) -> Outcome:
    """What becomes of places that are not enough. If room may be lent, they are kept until it is."""
    if conditionally_ready(job):
        return _count_on_lent_room(session, statement, job)
    # What is set aside for a job stays so without being kept here; kept, it would look like a place taken, and the
    # rest of the node would be open to everybody.
    holds = any(operation.was[0] is Status.RESERVED for operation in statement.operations)
    if statement.operations and session.state(Lending).rules.lends and not holds:
        session.state(TentativePlaces).keep(job, statement)
    else:
        statement.discard()
    return Outcome.NOTHING


def _count_on_lent_room(session: Session, statement: Statement, job: Job) -> Outcome:
    """The job could start if it had all lent room that it counts on: those who borrow it leave, or it waits."""
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


def _take_from_others(session: Session, jobs: list[Job]) -> None:
    """What is kept for others is given up for jobs that go before them and fit only there."""
    if not session.points.displacement or not session.ledger.reserved_tasks:
        return
    missing = [job for job in jobs if job.ready_count < job.min_available and not job.stands_for]
    for job in session.turns.while_time(sorted(missing, key=session.job_key)):
        if job.ready_count < job.min_available:
            start_instead(session, job, session.displacements(job, evicting=False))


def _admit_all(session: Session) -> None:
    """Without the action enqueue there is no admission: controllers create the pods of every group at once."""
    for job in session.active:
        if job.phase == "Pending" and job.queue.open and not job.ready_count:
            session.ledger.set_phase(job, "Inqueue")


def _has_tasks_to_place(session: Session, job: Job) -> bool:
    if is_close(job):
        return session.has_pending_tasks(job)
    if job.counts[_PENDING] > job.gated + job.pending_best_effort:
        return True
    return any(_is_to_place(task) for task in job.tasks.values())


def _is_to_place(task: Task) -> bool:
    return task.status in _TO_PLACE and not task.gated and not task.shape.best_effort


def is_held_back(session: Session, job: Job) -> bool:
    note = session.notes.known(job)
    return note is not None and note.refused_by(Code.QUEUE_OVER_DESERVED)
