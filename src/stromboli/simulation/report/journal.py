"""What happened to whom: the events of a run, and one line per pod that outlives the pod.

The store knows only what is there. A pod that finished, was evicted or deleted stays in the report with all
that was known of it, so its story is written here as it happens. When a name is used again, the later pod has
the line.

A warning that only repeats what was last said of the same object is not written again: a scheduler says every
second what stays wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stromboli.api import Pod, PodGroup, key, names
from stromboli.simulation.virtual_time import Moment, seconds

EVENT_TYPES: Final = frozenset({
    "Submitted", "Bound", "Finished", "Evicted", "Deleted", "Reserved", "Unreserved", "Conditional", "Locked",
    "Unlocked", "ReservationPending", "ReservationAvailable", "ReservationSucceeded", "ReservationExpired",
    "ReservationFailed", "MigrationPlanned", "MigrationStarted", "MigrationSucceeded", "MigrationFailed",
    "Warning",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """As it is printed; the fields stand in the order of the contract."""

    t: float
    type: str
    object: str
    node: str = ""
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class PodRecord:
    """As it is printed, but for the reason of a pod that is still waiting, which the last cycle knows."""

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
        """`listener` is told of every event when it happens."""
        self.events: list[Event] = []
        self.pods: dict[str, PodRecord] = {}
        self.jobs: dict[str, float] = {}  # when each Job was submitted; its pods come later, if at all
        self._listener = listener
        self._queues: dict[str, str] = {}  # by group; kept when the group is gone, its pods' lines need it
        self._last_warning: dict[tuple[str, str], str] = {}

    @property
    def last(self) -> float:
        """When anything last happened."""
        return self.events[-1].t if self.events else 0.0

    def write(
        self, at: Moment, type: str, subject: str, *, node: str = "", reason: str = "", message: str = ""
    ) -> None:
        event = Event(seconds(at), type, subject, node, reason, message)
        self.events.append(event)
        if self._listener is not None:
            self._listener(event)

    def warn(self, at: Moment, subject: str, reason: str, message: str) -> None:
        if self._last_warning.get((subject, reason)) != message:
            self._last_warning[subject, reason] = message
            self.write(at, "Warning", subject, reason=reason, message=message)

    # -- pods -----------------------------------------------------------------------------------------------

    def submitted(self, pod: Pod, at: Moment) -> None:
        self.pods[key(pod)] = PodRecord("Pending", "", "", "", False, seconds(at))
        self.write(at, "Submitted", key(pod))

    def started(self, pod: Pod, at: Moment) -> None:
        record = self.pods[key(pod)]
        record.phase = "Running"
        record.node = pod.spec.node_name
        record.bound = seconds(at)

    def finished(self, pod: Pod, at: Moment, message: str) -> None:
        record = self.pods[key(pod)]
        record.phase = pod.status.phase
        record.finished = seconds(at)
        self.write(at, "Finished", key(pod), node=record.node, reason=record.phase, message=message)

    def evicted(self, pod: Pod, at: Moment, reason: str, message: str) -> None:
        record = self.pods[key(pod)]
        record.phase, record.reason, record.message = "Evicted", reason, message
        self.write(at, "Evicted", key(pod), node=record.node, reason=reason, message=message)

    def deleted(self, pod: Pod, at: Moment, reason: str) -> None:
        self.write(at, "Deleted", key(pod), node=self.pods[key(pod)].node, message=reason)

    def gone(self, pod: Pod, at: Moment) -> None:
        """The object is no more. If it neither finished nor was evicted, whoever deleted it stopped it."""
        record = self.pods[key(pod)]
        if record.phase in ("Pending", "Running"):
            record.phase, record.reason = "Failed", "Deleted"
            record.message = "It was deleted before its end."
        if record.finished is None:
            record.finished = seconds(at)

    # -- what a pod belongs to ----------------------------------------------------------------------------

    def group_seen(self, group: PodGroup) -> None:
        self._queues[key(group)] = group.spec.queue or names.DEFAULT_QUEUE

    def pod_seen(self, pod: Pod) -> None:
        """Note what a pod's annotations say by now; controllers write them after it was created."""
        record = self.pods[key(pod)]
        annotations = pod.metadata.annotations
        group = next((annotations[name] for name in names.GROUP_NAMES if annotations.get(name)), "")
        record.podGroup = f"{pod.metadata.namespace}/{group}" if group else ""
        record.queue = annotations.get(names.QUEUE_NAME, names.DEFAULT_QUEUE)
        record.backfill = any(annotations.get(name, "").lower() == "true" for name in names.BACKFILL_NAMES)

    def queue_of(self, record: PodRecord) -> str:
        return self._queues.get(record.podGroup, record.queue)
