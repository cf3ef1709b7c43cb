"""When a Reservation is given up for somebody else.

What it holds is not work, so in preemption and reclaim it goes before any pod, whole, and waits for a node again. In
preemption it gives way to jobs of higher priority in its queue, unless the order of namespaces forbids it. In reclaim
it does if its queue has more than it deserves of something that the claimant's queue lacks, and keeps what it is
guaranteed. Reservations of migrations never give way: a pod is about to be evicted for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stromboli.api import Reservation
from stromboli.api.reservations import is_migration
from stromboli.cluster import PODS, Holding, Job, Queue, Task, Vector
from stromboli.cluster.object_fields import creation_time
from stromboli.scheduling.callbacks import Concession, EvictionKind, Verdict, VictimVerdict
from stromboli.scheduling.explanation import reasons
from stromboli.scheduling.explanation.display_names import task_name
from stromboli.scheduling.session import Session

from .reservation_operations import give_way


def concessions(session: Session, kind: EvictionKind, task: Task) -> list[Concession]:
    """What Reservations hold that may be taken for a task."""
    job, found = task.job, list[Concession]()
    if job is None:
        return found
    may_take = _in_preemption if kind == "preemptable" else _in_reclaim
    for name in sorted(session.ledger.holdings):
        held = session.ledger.holdings[name]
        reservation = session.snapshot.reservations.get(name)
        if reservation is None or is_migration(reservation) or held.queue is None or not held.remainder.any():
            continue
        if name in session.ledger.drawn:
            continue  # somebody counts on it in this cycle
        if may_take(session, job, task, reservation, held):
            rank = (_priority(session, reservation), -creation_time(reservation), name)
            carry_out = _give_way(name, kind, job)
            found.append(Concession(held.node.row, rank, held.remainder.copy(), carry_out))
    return found


def is_possible(session: Session, kind: EvictionKind) -> bool:
    """Whether a Reservation might give way at all."""
    if kind == "preemptable":
        return bool(session.ledger.holdings)
    queues = {held.queue.name: held.queue for held in session.ledger.holdings.values() if held.queue is not None}
    return any(
        queue.reclaimable and (deserved := session.deserved.get(name)) is not None
        and bool(np.delete(queue.allocated > deserved, PODS).any())
        for name, queue in queues.items()
    )  # fmt: skip


def protect_users(session: Session, kind: EvictionKind) -> VictimVerdict:
    """A Reservation goes with a pod that uses it and is evicted. So such a pod is evicted only for somebody to whom the
    Reservation would give way: the priority of the pod alone does not open what is held with a higher one. If another
    queue is charged for what is left of the Reservation, a preemptor in the pod's queue has no right to that."""

    def verdict(evictor: Task, candidate: Task, whole: bool) -> Verdict:
        name = candidate.uses.partition("/")[0]
        held = session.ledger.holdings.get(name) if name else None
        if held is None or held.id != candidate.uses or held.node is not candidate.node:
            return Verdict.NOTHING
        reservation = session.snapshot.reservations.get(name)
        if reservation is None or held.queue is None:
            return Verdict.NOTHING
        is_own = candidate.job is None or candidate.job.queue is held.queue
        if kind == "preemptable":
            job = evictor.job
            ranks_lower = job is None or _priority(session, reservation) < job.priority
            if not ranks_lower and _by_priority(session):
                return Verdict.NO
            return Verdict.NOTHING if is_own or not np.delete(held.remainder, PODS).any() else Verdict.NO
        leaves = held.remainder + candidate.request if is_own else held.remainder
        return Verdict.NOTHING if _keeps_guarantee(session, held.queue, leaves) else Verdict.NO

    return verdict


def _give_way(name: str, kind: EvictionKind, job: Job) -> Callable[[Any, Task], Any]:
    def carry_out(statement: Any, task: Task) -> Any:
        if kind == "preemptable":
            return give_way(statement, name, task, reason="Preempted", message=reasons.preempted(task_name(task)))
        message = reasons.reclaimed(task.key, job.queue.name)
        return give_way(statement, name, task, reason="Reclaimed", message=message)

    return carry_out


def _in_preemption(session: Session, job: Job, task: Task, reservation: Reservation, held: Holding) -> bool:
    if held.queue is not job.queue or _priority(session, reservation) >= job.priority or not _by_priority(session):
        return False
    return _keeps_namespace_order(session, job, task, held)


def _keeps_namespace_order(session: Session, job: Job, task: Task, held: Holding) -> bool:
    """Where namespaces come before priorities, no priority takes a namespace past another one of its queue, neither by
    pods nor by Reservations: allocate would give the room back to the other."""
    shares, inside = session.namespace_shares, job.queue.by_namespace
    if shares is None or session.namespace_scope != "beforePriority" or held.namespace in ("", job.namespace):
        return True
    mine = inside[job.namespace] + task.request if job.namespace in inside else task.request
    theirs = inside[held.namespace] - held.remainder
    return shares.share(mine) * shares.weight(held.namespace) <= shares.share(theirs) * shares.weight(job.namespace)


def _by_priority(session: Session) -> bool:
    """Whether priorities decide in preemption."""
    return any(hook.plugin == "priority" for hook in session.points.preemptable.permit.hooks)


def _in_reclaim(session: Session, job: Job, task: Task, reservation: Reservation, held: Holding) -> bool:
    mine, theirs = job.queue, held.queue
    if theirs is None or theirs is mine or not theirs.reclaimable:
        return False
    deserved, theirs_deserved = session.deserved.get(mine.name), session.deserved.get(theirs.name)
    if deserved is None or theirs_deserved is None:
        return False
    need = task.request * (np.arange(len(task.request)) != PODS)
    lacking = (need > 0) & (mine.allocated < deserved)
    contended = lacking & (theirs.allocated > theirs_deserved) & (held.remainder > 0)
    if not bool(contended.any()) or bool((contended & (mine.allocated + need > deserved)).any()):
        return False
    return _keeps_guarantee(session, theirs, held.remainder)


def _keeps_guarantee(session: Session, queue: Queue, loss: Vector) -> bool:
    """Whether a queue still has what it is guaranteed after this loss."""
    lost = (loss > 0) & (np.arange(len(loss)) != PODS)
    return not bool((lost & (queue.allocated - loss < session.books.guarantee(queue))).any())


def _priority(session: Session, reservation: Reservation) -> int:
    """That of its template."""
    return session.snapshot.reservation_priority(reservation)
