"""The events of a run that are still to come, in the order in which they happen.

Events are ordered by time. At the same time, pods finish first, then objects are deleted, created and patched, and
components restart last. Events of the same type are ordered by namespace, name and kind. The order in which events were
scheduled has no influence, so the order of files and documents has none either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush

from .virtual_time import Microseconds


class Rank(IntEnum):
    """The order of events at the same time."""

    FINISH = 0
    DELETE = 1
    CREATE = 2
    PATCH = 3
    RESTART = 4


@dataclass(order=True, slots=True, frozen=True)
class ScheduledEvent:
    at: Microseconds
    rank: Rank
    namespace: str
    name: str
    kind: str
    detail: bytes
    action: Callable[[Microseconds], None] = field(compare=False)
    # Whether it still applies: the end of a pod that has been evicted since does not.
    is_valid: Callable[[], bool] = field(compare=False)


CHANGES_OF_USERS = (Rank.DELETE, Rank.CREATE, Rank.PATCH)
_OF_USERS = (Rank.CREATE, Rank.PATCH, Rank.RESTART)


class EventQueue:
    def __init__(self) -> None:
        self.latest_user_event: Microseconds | None = None  # the last time at which the scenario itself does something
        self._heap: list[ScheduledEvent] = []

    def put(
        self,
        at: Microseconds,
        rank: Rank,
        action: Callable[[Microseconds], None],
        *,
        namespace: str = "",
        name: str = "",
        kind: str = "",
        detail: bytes = b"",
        is_valid: Callable[[], bool] = lambda: True,
    ) -> None:
        if rank in _OF_USERS:
            self.latest_user_event = max(at, self.latest_user_event or at)
        heappush(self._heap, ScheduledEvent(at, rank, namespace, name, kind, detail, action, is_valid))

    def next_time(self) -> Microseconds | None:
        """The time of the next valid event."""
        while self._heap and not self._heap[0].is_valid():
            heappop(self._heap)
        return self._heap[0].at if self._heap else None

    def valid_events(self) -> list[ScheduledEvent]:
        """All valid events, in no particular order."""
        return [event for event in self._heap if event.is_valid()]

    def pop_due(self, until: Microseconds) -> Iterator[ScheduledEvent]:
        """All events up to a time, including those that are added by the actions of earlier ones."""
        while (at := self.next_time()) is not None and at <= until:
            yield heappop(self._heap)
