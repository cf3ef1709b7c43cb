"""Guarantees for which nothing is locked: amounts alone are a quota, and without the plugin nothing is locked at all.

Whoever wrote them may expect nodes, so the queue is told once, in a condition and an event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stromboli.api import Condition, Queue, QueueReservation
from stromboli.cluster.queue_guarantees import LOCKS, is_bare, locks_nodes

from . import messages
from .lock_status import LockNotice, LockStatus, condition_of, moves, of_type, own_conditions

NOT_LOCKED: Final = "NotLocked"
"""The event of a queue with a guarantee for which nothing is locked."""


def release_all(queues: Iterable[Queue], now: float) -> dict[str, LockStatus]:
    """Nothing is locked, because the plugin is not configured. Queues that ask for nodes are told so."""
    released = {}
    for queue in queues:
        asks = locks_nodes(queue.spec.guarantee)
        if asks or queue.status.reservation != QueueReservation() or own_conditions(queue):
            told = _told(queue, "NotConfigured", messages.NOT_CONFIGURED, now, warning=True) if asks else ([], [])
            released[queue.metadata.name] = LockStatus(QueueReservation(), told[0], [*told[1], *moves(queue, [])])
    return released


def tell_quotas(queues: Iterable[Queue], now: float) -> dict[str, LockStatus]:
    """No queue locks nodes. Those with amounts alone are told that these are a quota."""
    statuses = {}
    for queue in queues:
        if is_bare(queue.spec.guarantee):
            statuses[queue.metadata.name] = quota_only(queue, now)
        elif own_conditions(queue):
            statuses[queue.metadata.name] = LockStatus(QueueReservation(), [])
    return statuses


def quota_only(queue: Queue, now: float) -> LockStatus:
    conditions, notices = _told(queue, "QuotaOnly", messages.QUOTA_ONLY, now, warning=False)
    return LockStatus(QueueReservation(), conditions, [*notices, *moves(queue, [])])


def _told(
    queue: Queue, reason: str, message: str, now: float, *, warning: bool
) -> tuple[list[Condition], list[LockNotice]]:
    """The condition that says why nothing is locked, and an event unless the queue has the condition already."""
    condition = condition_of(queue, LOCKS, "False", reason, message, now)
    known = any(one.reason == reason for one in of_type(queue, LOCKS))
    return [condition], [] if known else [LockNotice(NOT_LOCKED, message, warning=warning)]
