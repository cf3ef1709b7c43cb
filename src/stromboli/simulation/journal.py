"""The journal of a run: its events, and a record of every pod.

The store holds only objects that exist. The report also shows pods that were evicted or deleted, so their history is
recorded here. When a name is used again, the record shows the later pod.

A warning that repeats the last one about the same object is not recorded: a scheduler repeats it every second while the
problem lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stromboli.api import Pod, PodGroup, Reservation, group_name_of, is_backfill, key, names

from .group_history import GroupHistory
from .virtual_time import Microseconds, to_seconds

EVENT_TYPES: Final = frozenset({
    "Submitted", "Bound", "Restarted", "Finished", "Evicted", "Deleted", "Reserved", "Unreserved", "Conditional",
    "Ungated", "Locked", "Unlocked", "NotLocked", "ReservationPending", "ReservationAvailable", "ReservationSucceeded",
    "ReservationExpired", "ReservationFailed", "MigrationPlanned", "MigrationStarted", "MigrationSucceeded",
    "MigrationFailed", "Warning",
})  # fmt: skip

REFUSED: Final = "Refused"
"""The reason of a warning about an object that was not accepted."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it is printed; the order of the fields is part of the output format."""

    t: float
    type: str
    object: str
    node: str = ""
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class PodRecord:
    """A pod as it is printed, except for the reason of a pending pod, which the last cycle has."""

    phase: str
    node: str
    queue: str
    podGroup: str
    backfill: bool
    submitted: float
    bound: float | None = None
    finished: float | None = None
    reason: str = ""
    message: str = ""


class Journal:
    def __init__(self, listener: Callable[[Event], None] | None = None) -> None:
        """`listener` is called for every event."""
        self.events: list[Event] = []
        self.pods: dict[str, PodRecord] = {}
        self.groups = GroupHistory()
        self.jobs: dict[str, float] = {}  # when each Job was submitted; its pods come later, if at all
        self.owners: dict[str, str] = {}  # by pod: kind and name of its controlling owner
        self.ended_reservations: dict[str, Reservation] = {}  # those that were deleted since, as they were last
        self._listener = listener
        self._last_warning: dict[tuple[str, str], str] = {}

    @property
    def last(self) -> float:
        """The time of the last event."""
        return self.events[-1].t if self.events else 0.0

    def write(
        self, at: Microseconds, type: str, subject: str, *, node: str = "", reason: str = "", message: str = ""
    ) -> None:
        event = Event(to_seconds(at), type, subject, node, reason, message)
        self.events.append(event)
        if self._listener is not None:
            self._listener(event)

    def warn(self, at: Microseconds, subject: str, reason: str, message: str) -> None:
        if self._last_warning.get((subject, reason)) != message:
            self._last_warning[subject, reason] = message
            self.write(at, "Warning", subject, reason=reason, message=message)

    # -- pods -----------------------------------------------------------------------------------------------

    def submitted(self, pod: Pod, at: Microseconds) -> None:
        self.pods[key(pod)] = PodRecord("Pending", "", "", "", False, to_seconds(at))
        owner = next((o for o in pod.metadata.owner_references if o.controller), None)
        self.owners[key(pod)] = "" if owner is None else f"{owner.kind} {owner.name}"
        self.write(at, "Submitted", key(pod))

    def started(self, pod: Pod, at: Microseconds) -> None:
        record = self.pods[key(pod)]
        record.phase = "Running"
        record.node = pod.spec.node_name
        record.bound = to_seconds(at)
        self._tell_group(pod, record, at)

    def finished(self, pod: Pod, at: Microseconds, message: str) -> None:
        record = self.pods[key(pod)]
        record.phase = pod.status.phase
        record.finished = to_seconds(at)
        self._tell_group(pod, record, at)
        self.write(at, "Finished", key(pod), node=record.node, reason=record.phase, message=message)

    def evicted(self, pod: Pod, at: Microseconds, reason: str, message: str) -> None:
        record = self.pods[key(pod)]
        record.phase, record.reason, record.message = "Evicted", reason, message
        self._tell_group(pod, record, at)
        self.write(at, "Evicted", key(pod), node=record.node, reason=reason, message=message)

    def deleted(self, pod: Pod, at: Microseconds, reason: str) -> None:
        self.write(at, "Deleted", key(pod), node=self.pods[key(pod)].node, message=reason)

    def gone(self, pod: Pod, at: Microseconds) -> None:
        """The object is deleted. If the pod neither finished nor was evicted, the deletion stopped it."""
        record = self.pods[key(pod)]
        if record.phase in ("Pending", "Running"):
            record.phase, record.reason = "Failed", "Deleted"
            record.message = "It was deleted before it finished."
        if record.finished is None:
            record.finished = to_seconds(at)
        self._tell_group(pod, record, at)

    def _tell_group(self, pod: Pod, record: PodRecord, at: Microseconds) -> None:
        if record.podGroup:
            self.groups.pod_seen(record.podGroup, key(pod), record.phase, to_seconds(at))

    # -- reservations ---------------------------------------------------------------------------------------

    def note_reservation(self, before: Reservation, after: Reservation, at: Microseconds) -> None:
        """A phase of a Reservation is an event. Waiting ones are `Reserved`."""
        phase, event = after.status.phase, f"Reservation{after.status.phase}"
        if phase != before.status.phase and event in EVENT_TYPES:
            said = [c for c in after.status.conditions if c.type == "Ready" and c not in before.status.conditions]
            said += [c for c in after.status.conditions if c not in before.status.conditions]
            reason, message = (said[0].reason, said[0].message) if said else ("", "")
            node = after.status.node_name or before.status.node_name
            self.write(at, event, key(after), node=node, reason=reason, message=message)

    # -- groups and queues ----------------------------------------------------------------------------------

    def note_group(self, group: PodGroup, at: Microseconds) -> None:
        self.groups.noted(group, to_seconds(at))

    def note_pod(self, pod: Pod, at: Microseconds) -> None:
        """Record the pod's present annotations; controllers add some after the pod was created."""
        record = self.pods[key(pod)]
        record.backfill = is_backfill(pod)
        annotations = pod.metadata.annotations
        if pod.spec.scheduler_name != names.DEFAULT_SCHEDULER or names.MIRROR in annotations:
            return  # it is in no group and no queue, whatever it says
        group = group_name_of(pod)
        record.podGroup = f"{pod.metadata.namespace}/{group}" if group else ""
        record.queue = annotations.get(names.QUEUE_NAME, names.DEFAULT_QUEUE)
        self._tell_group(pod, record, at)

    def queue_of(self, record: PodRecord) -> str:
        """The queue of the pod's group, also if the group has been deleted."""
        group = self.groups.groups.get(record.podGroup)
        return record.queue if group is None else group.queue
