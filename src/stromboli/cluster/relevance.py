"""Which new versions of an object could change a decision.

Schedulers and controllers write statuses, and every write comes back as an event: why a pod waits, how much of a queue
is allocated. Kubelets repeat the conditions of their nodes. Without these, a cluster in which nothing happens is
unchanged, and what failed in one cycle need not be tried again in the next (`Ledger.changes`).

Everything is relevant that is not named here.
"""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api import KObject, Node, ObjectMeta, Pod, PodGroup, PodGroupCondition, Queue, Reservation
from stromboli.api.timestamps import parse_timestamp

from .object_fields import creation_time, is_ready


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
            remembers = _remembered(before) != _remembered(after)
            return remembers or group_status != counted or before.spec != after.spec
        case Queue(), Queue():
            state, reservation = after.status.state, after.status.reservation
            return (before.status.state, before.status.reservation) != (state, reservation) or before.spec != after.spec
        case Node(), Node():
            seen = after.status
            node_status = replace(before.status, conditions=seen.conditions)
            return node_status != seen or is_ready(before) != is_ready(after) or before.spec != after.spec
        case Reservation(), Reservation():
            used = after.status
            reservation_status = replace(
                before.status, conditions=used.conditions, allocated=used.allocated, current_owners=used.current_owners
            )
            return reservation_status != used or before.spec != after.spec
        case _:
            return True


def is_same_but_status(before: PodGroup, after: PodGroup) -> bool:
    return before.spec == after.spec and _same_metadata(before.metadata, after.metadata)


def _remembered(group: PodGroup) -> tuple[float | None, list[PodGroupCondition]]:
    """What the conditions of a group tell the next cycle: since when the job waits (None: since it was last ready),
    and what features did about it. Why it waits is for people only."""
    conditions = group.status.conditions
    waits = [c.last_transition_time for c in conditions if c.type == "Waiting"]
    if waits and waits[0] is not None:
        since: float | None = parse_timestamp(waits[0])
    else:
        since = None if any(c.type == "Scheduled" for c in conditions) else creation_time(group)
    return since, [c for c in conditions if c.type not in ("Unschedulable", "Waiting", "Scheduled")]


def _same_metadata(before: ObjectMeta, after: ObjectMeta) -> bool:
    return replace(before, resource_version=after.resource_version) == after
