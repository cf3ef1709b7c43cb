"""Which new versions of an object could change a decision.

Schedulers and controllers write statuses, and every write comes back as an event: why a pod waits, how much of a queue
is allocated. Kubelets repeat the conditions of their nodes. Without these, a cluster in which nothing happens is
unchanged, and what failed in one cycle need not be tried again in the next (`Ledger.changes`).

Everything is relevant that is not named here.
"""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api import HyperNode, KObject, Node, ObjectMeta, Pod, PodGroup, PodGroupCondition, Queue, Reservation
from stromboli.api.upstream import OF_KUBERNETES

from .object_fields import WAITING_CONDITION, WaitingRecord, is_ready, waiting_record


def is_relevant(before: KObject | None, after: KObject) -> bool:
    """Whether this version of an object could lead to other decisions than the one before."""
    if before is None or not _same_metadata(before.metadata, after.metadata):
        return True
    match before, after:
        case Pod(), Pod():
            written = after.status
            status = replace(
                before.status, conditions=written.conditions, nominated_node_name=written.nominated_node_name
            )
            return status != written or before.spec != after.spec
        case PodGroup(), PodGroup():
            counted = after.status
            group_status = replace(
                before.status, conditions=counted.conditions, running=counted.running, succeeded=counted.succeeded,
                failed=counted.failed,
            )  # fmt: skip
            return _remembers_otherwise(before, after) or group_status != counted or before.spec != after.spec
        case Queue(), Queue():
            state, reservation = after.status.state, after.status.reservation
            return (before.status.state, before.status.reservation) != (state, reservation) or before.spec != after.spec
        case Node(), Node():
            seen = after.status
            node_status = replace(before.status, conditions=seen.conditions)
            return node_status != seen or is_ready(before) != is_ready(after) or before.spec != after.spec
        case Reservation(), Reservation():
            used = after.status
            reservation_status = replace(before.status, conditions=used.conditions, allocated=used.allocated)
            return reservation_status != used or before.spec != after.spec
        case HyperNode(), HyperNode():
            return before.spec != after.spec
        case _:
            return True


def is_same_but_status(before: PodGroup, after: PodGroup) -> bool:
    return before.spec == after.spec and _same_metadata(before.metadata, after.metadata)


def _remembers_otherwise(before: PodGroup, after: PodGroup) -> bool:
    """Whether the conditions of a group tell the next cycle something else: since when the job waits, and what features
    did about it. Why it waits is for people only. The first record of a clock says what follows from the objects."""
    clock = _clock(before)
    other_time = clock is not _NEW and clock != _clock(after)
    return other_time or _of_features(before) != _of_features(after)


_NEW = "never waited or ran"


def _clock(group: PodGroup) -> WaitingRecord | str:
    record = waiting_record(group)
    if record is not None:
        return record
    return "had a place" if any(c.type == "Scheduled" for c in group.status.conditions) else _NEW


_FOR_PEOPLE = frozenset({"Unschedulable", WAITING_CONDITION, "Scheduled", *OF_KUBERNETES})


def _of_features(group: PodGroup) -> list[PodGroupCondition]:
    return [c for c in group.status.conditions if c.type not in _FOR_PEOPLE]


def _same_metadata(before: ObjectMeta, after: ObjectMeta) -> bool:
    return replace(before, resource_version=after.resource_version) == after
