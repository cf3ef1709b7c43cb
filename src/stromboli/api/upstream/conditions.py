"""What is decided about a group, as the conditions that its kind has (see `reading`)."""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api.kinds.batch import PodGroupCondition, PodGroupStatus
from stromboli.api.kinds.metadata import Condition

from .groups import UpstreamGroup
from .reading import (
    ADMITTED,
    NO_REASON,
    OF_KUBERNETES,
    PREFIX,
    queue_in_force,
    read_status,
    said_with_id,
)

STOPPED = "NotCounted"

_SAID = {
    "Pending": "The queue has not admitted the group yet.",
    "Inqueue": "The queue has admitted the group. Its pods start when there is room for all that must start together.",
    "Running": "The pods that must start together have a node.",
    "Completed": "All pods have ended.",
    "Unknown": "Some of the pods that must run together are gone.",
}


def conditions_to_write(group: UpstreamGroup, status: PodGroupStatus, now: str) -> tuple[list[Condition], list[str]]:
    """The conditions that such a status is, and the types of those that are gone. Those of others are in neither."""
    known = {condition.type: condition for condition in group.original.status.conditions}
    admitted = Condition(
        type=ADMITTED, status="False" if status.phase == "Pending" else "True", reason=status.phase,
        message=_SAID.get(status.phase, ""), last_transition_time=now,
    )  # fmt: skip
    written = [_since(admitted, known), *(_written(one, now) for one in status.conditions)]
    gone = {type for type in known if type.startswith(PREFIX)} - {one.type for one in written}
    return written, sorted(gone)


def with_status(group: UpstreamGroup, status: PodGroupStatus, now: str) -> UpstreamGroup:
    """The group when this is written."""
    written, gone = conditions_to_write(group, status, now)
    types = {one.type for one in written}
    kept = [one for one in group.original.status.conditions if one.type not in types and one.type not in gone]
    conditions = [*kept, *written]
    original = replace(group.original, status=replace(group.original.status, conditions=conditions))
    spec = replace(group.spec, queue=queue_in_force(original))
    return replace(group, spec=spec, status=read_status(conditions), written=original)


def _since(condition: Condition, known: dict[str, Condition]) -> Condition:
    before = known.get(condition.type)
    same = before is not None and (before.status, before.reason) == (condition.status, condition.reason)
    return replace(condition, last_transition_time=before.last_transition_time) if before and same else condition


def _written(condition: PodGroupCondition, now: str) -> Condition:
    message = condition.message
    # The only one whose transitionID says something: while a clock is stopped it is since when the group had waited.
    if condition.reason == STOPPED and condition.transition_id not in ("", condition.last_transition_time):
        message = said_with_id(message, condition.transition_id)
    return Condition(
        type=condition.type if condition.type in OF_KUBERNETES else PREFIX + condition.type,
        status=condition.status,
        reason=condition.reason or NO_REASON,
        message=message,
        last_transition_time=condition.last_transition_time or now,
    )
