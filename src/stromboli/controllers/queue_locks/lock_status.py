"""What the status of a queue says about its locks, and the events about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from stromboli.api import Condition, Queue, QueueReservation
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster.queue_guarantees import ACCEPTED, LOCKS, SATISFIED

from . import messages


@dataclass(frozen=True, slots=True)
class LockNotice:
    reason: str
    message: str
    nodes: tuple[str, ...] = ()
    warning: bool = False


@dataclass(slots=True)
class LockStatus:
    """What the status of a queue says about its locks."""

    reservation: QueueReservation
    conditions: list[Condition]
    notices: list[LockNotice] = field(default_factory=list)

    def is_said_by(self, queue: Queue) -> bool:
        """Whether the queue's status says so already."""
        return self.reservation == queue.status.reservation and self.conditions == own_conditions(queue)


CONDITIONS = (ACCEPTED, SATISFIED, LOCKS)


def moves(queue: Queue, nodes: Sequence[str]) -> list[LockNotice]:
    before = list(queue.status.reservation.nodes)
    gone = tuple(sorted(set(before) - set(nodes)))
    new = tuple(sorted(set(nodes) - set(before)))
    notices: list[LockNotice] = []
    for names, reason, sentence in ((gone, "Unlocked", messages.unlocked), (new, "Locked", messages.locked)):
        say: Callable[[Sequence[str]], str] = sentence
        if names:
            notices.append(LockNotice(reason, say(names), names))
    return notices


def of_type(queue: Queue, kind: str) -> list[Condition]:
    return [condition for condition in queue.status.conditions if condition.type == kind]


def own_conditions(queue: Queue) -> list[Condition]:
    return [condition for condition in queue.status.conditions if condition.type in CONDITIONS]


def condition_of(
    queue: Queue, kind: str, status: str, reason: str, message: str, now: float, *, anew: bool = False
) -> Condition:
    """The old condition if it says the same, so that its time is when that began. `anew`: it begins now."""
    new = Condition(type=kind, status=status, reason=reason, message=message)
    for known in of_type(queue, kind):
        if replace(known, last_transition_time=None) == new and not anew:
            return known
    return replace(new, last_transition_time=format_timestamp(now))
