"""Pods that are about to leave: their successors' places are kept already, or asked for.

What follows from it is worked out in every session from the Reservations. Only whose `ends` was changed is remembered,
with the tasks, so that it can be set back, also after another configuration was loaded.
"""

from __future__ import annotations

from typing import Final

from stromboli.api import PodDisruptionBudget, Reservation, is_generated_group
from stromboli.api.reservations import AVAILABLE, is_over
from stromboli.api.selectors import matches_labels
from stromboli.cluster import OCCUPYING, Job, Task, TaskKey
from stromboli.cluster.object_fields import ends_by_itself
from stromboli.cluster.reservations import replaced_task
from stromboli.scheduling.callbacks import Refusal, Verdict
from stromboli.scheduling.explanation.reasons import Code
from stromboli.scheduling.gang import Shortage, shortage
from stromboli.scheduling.session import Session

FEATURE: Final = "moves"


class Leaving:
    """Tasks that Reservations replace, by the name of the Reservation; `promised` has those whose place is kept."""

    def __init__(self, session: Session) -> None:
        self.replaced: dict[str, Task] = {}
        self.promised: dict[TaskKey, Task] = {}
        for name, reservation in session.snapshot.reservations.items():
            task = _replaced_task(session, reservation)
            if task is not None:
                self.replaced[name] = task
                if reservation.status.phase == AVAILABLE:
                    self.promised[task.key] = task


def _replaced_task(session: Session, reservation: Reservation) -> Task | None:
    """The running task that a Reservation replaces."""
    task = None if is_over(reservation) else replaced_task(session.nodes, reservation)
    return task if task is not None and task.status in OCCUPYING else None


def note_leaving(session: Session) -> None:
    """A pod of a service that is moved away ends on its node. So the node can be set aside for a job, as if the pod
    drained."""
    ledger = session.ledger
    leaving = {task.key: task for task in session.state(Leaving).replaced.values()}
    for key, task in ledger.departing.items():
        if leaving.get(key) is not task:
            task.ends = ends_by_itself(task.pod)
    ledger.departing = leaving
    for task in leaving.values():
        task.ends = True


def open_leaving(session: Session) -> None:
    leaving = session.state(Leaving)
    if not leaving.replaced:
        return

    def protect(evictor: Task, candidate: Task, whole: bool) -> Verdict:
        if candidate.key in leaving.promised:
            return Verdict.NO  # it goes anyway, and its successor's place must not be in vain
        job = candidate.job
        if job is None or whole:
            return Verdict.NOTHING
        if _gone_of(leaving, job) and _shortage(leaving, candidate, job) is not None:
            return Verdict.NO
        return Verdict.NO if _over_budget(session, leaving, candidate) else Verdict.NOTHING

    def check(task: Task) -> Refusal | None:
        replaced = leaving.replaced.get(task.stands_for) if task.stands_for else None
        return None if replaced is None else _refusal(session, leaving, replaced)

    def note_promise(task: Task) -> None:
        """A place was found for a successor: from now on its predecessor counts as gone."""
        replaced = leaving.replaced.get(task.stands_for) if task.stands_for else None
        if replaced is not None:
            leaving.promised[replaced.key] = replaced

    def forget_promise(task: Task) -> None:
        replaced = leaving.replaced.get(task.stands_for) if task.stands_for else None
        if replaced is not None:
            leaving.promised.pop(replaced.key, None)

    with session.registering(FEATURE):
        session.add_preemptable(protect, protects=True)
        session.add_reclaimable(protect, protects=True)
        session.add_pre_filter(check)
        session.add_handlers(allocate=note_promise, deallocate=forget_promise)


def _refusal(session: Session, leaving: Leaving, task: Task) -> Refusal | None:
    """Why a pod cannot leave now; None if it can."""
    job = task.job
    short = None if job is None else _shortage(leaving, task, job)
    if job is not None and short is not None:
        return Refusal(Code.NOT_ENOUGH_PODS, need=short.need, have=short.have, subject=str(job.key))
    if _over_budget(session, leaving, task):
        return Refusal(Code.NOT_ENOUGH_PODS, subject=str(task.key))
    return None


def _gone_of(leaving: Leaving, job: Job) -> list[Task]:
    """The running pods of a job that count as gone."""
    return [task for task in leaving.promised.values() if task.job is job and task.status in OCCUPYING]


def _shortage(leaving: Leaving, task: Task, job: Job) -> Shortage | None:
    """What the gang of a task would lack if the task left as well."""
    if not _is_gang(job):
        return None
    gone = [*(other for other in _gone_of(leaving, job) if other is not task), task]

    def left_of(role: str) -> int:
        running = job.role_occupied(role) - job.role_pending_best_effort.get(role, 0)
        return running - sum(other.role == role for other in gone)

    return shortage(
        job.min_available, job.role_minimums, left=job.ready_count - len(gone), left_of=left_of, leaving=[task.role]
    )


def _is_gang(job: Job) -> bool:
    return job.object is not None and not is_generated_group(job.object)


def _over_budget(session: Session, leaving: Leaving, task: Task) -> bool:
    """Whether the eviction of a pod would exceed a budget, if those that are about to leave are gone already."""
    for budget in session.budgets.values():
        if _covers(budget, task):
            spent = sum(_covers(budget, other) for other in leaving.promised.values() if other is not task)
            if spent + 1 > budget.status.disruptions_allowed:
                return True
    return False


def _covers(budget: PodDisruptionBudget, task: Task) -> bool:
    return (
        budget.metadata.namespace == task.namespace
        and task.name not in budget.status.disrupted_pods
        and matches_labels(budget.spec.selector, task.pod.metadata.labels)
    )
