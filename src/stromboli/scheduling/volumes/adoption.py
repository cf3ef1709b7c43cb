"""Binds that waited for volumes when the scheduler was restarted.

The status of a pod says that it is held, on which node, and whether the room there is lent or of a Reservation. A
scheduler that has just started holds these pods again, exactly as the last one did, before anything else is decided:
otherwise plugins and the first actions of the cycle would see pending pods where the last scheduler saw binds, and
decide differently. What has become impossible meanwhile (a node or a volume is lost, a provisioner gave up) is then
found out as it is for any pod that is held.

If the last scheduler was killed before it had written what it chose for all claims of a gang, the gang is not held. Its
pods are nominated, so it gets its places in this cycle, before others, and what is missing is written.

Pods are nominated also while others leave for them. Their status says so, and they are left to the promises of
evictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stromboli.api import is_backfill
from stromboli.api.volumes.claims import is_bound, is_for, selected_at
from stromboli.cluster import HeldBind, Job, JobKey, Status, Task, TaskKey
from stromboli.cluster.volumes import FormerHold
from stromboli.scheduling.gang import complete
from stromboli.scheduling.session import Session

_WAITS = frozenset({Status.PENDING, Status.RESERVED})


def hold_again(session: Session) -> None:
    ledger = session.ledger
    former, ledger.formerly_held = ledger.formerly_held, {}
    jobs: dict[JobKey, list[Task]] = {}
    for task_key in sorted(former):
        task = ledger.nominated.get(task_key)
        if task is not None and task.job is not None:
            jobs.setdefault(task.job.key, []).append(task)
    if jobs:
        for job in session.jobs:
            _hold_job(session, job, jobs.pop(job.key, []), former)
        _forget_uses(session, [task for tasks in jobs.values() for task in tasks])
        # Reservations hold what these pods leave of their nodes.
        session.snapshot.hold_reservations([one.node for one in ledger.held.values()])
        session.list_waiting()


def forget_former_holds(session: Session) -> None:
    """Claims are not awaited any more, so nobody is held."""
    ledger = session.ledger
    _forget_uses(session, [ledger.nominated[key] for key in sorted(ledger.formerly_held) if key in ledger.nominated])
    ledger.formerly_held = {}


def _forget_uses(session: Session, tasks: Iterable[Task]) -> None:
    for task in tasks:
        session.ledger.set_use(task, "")


def _hold_job(session: Session, job: Job, tasks: list[Task], former: Mapping[TaskKey, FormerHold]) -> None:
    ledger = session.ledger
    held = [task for task in tasks if _is_to_be_held(session, task)]
    before = [(task.status, task.node) for task in held]  # somebody may have reserved a node for it
    for task in held:
        _lend(session, task, lent=former[task.key].lent or is_backfill(task.pod))
        ledger.settle(task, Status.BINDING, session.nodes.by_name.get(task.nominated))
    if len(held) < len(tasks) and not complete(job):
        for task, (status, node) in zip(held, before, strict=True):
            _lend(session, task, lent=is_backfill(task.pod))
            ledger.settle(task, status, node)
        held = []
    _forget_uses(session, [task for task in tasks if task not in held])
    if held:
        ledger.hold(job, held, [_held(session, task) for task in held])


def _is_to_be_held(session: Session, task: Task) -> bool:
    """Whether all its claims have a volume, or one is made, or was to be made until a provisioner gave up."""
    index = session.snapshot.volumes
    if task.status not in _WAITS or task.gated:
        return False
    claims = {key: index.claims.get(key) for key in task.volumes.claims}
    return all(
        claim is None or is_bound(claim) or key in index.selected or bool(_named(session, key))
        for key, claim in claims.items()
    )


def _named(session: Session, key: str) -> str:
    """The volume that names an open claim; "" if there is none."""
    index = session.snapshot.volumes
    claim = index.claims[key]
    return min((name for name, one in index.naming.get(key, {}).items() if is_for(one, claim)), default="")


def _lend(session: Session, task: Task, *, lent: bool) -> None:
    if task.backfill != lent:
        session.ledger.leave(task)
        task.backfill = lent
        session.ledger.enter(task)


def _held(session: Session, task: Task) -> HeldBind:
    """As it was before the restart."""
    index = session.snapshot.volumes
    since, waits, volumes = session.now, [], {}
    for key in task.volumes.claims:
        claim = index.claims.get(key)
        if claim is None or is_bound(claim):
            continue
        waits.append(key)
        chosen = selected_at(claim)
        since = since if chosen is None else min(since, chosen)
        if volume := _named(session, key):
            volumes[key] = volume
    return HeldBind(task.nominated, since, tuple(waits), volumes, standing=True)
