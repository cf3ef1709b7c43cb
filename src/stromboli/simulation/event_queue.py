"""What is due, in the order in which it happens.

Things happen by time. At one moment, pods finish first, then objects are deleted, then created, then patched,
and components restart last; things of one sort go by namespace, name and kind. Nothing else decides, least of
all the order in which they were put down, so no order of files or documents can be seen in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush

from .virtual_time import Moment


class Rank(IntEnum):
    """The order of things that are due at one moment."""

    FINISH = 0
    DELETE = 1
    CREATE = 2
    PATCH = 3
    RESTART = 4


@dataclass(order=True, slots=True, frozen=True)
class Due:
    at: Moment
    rank: Rank
    namespace: str
    name: str
    kind: str
    detail: bytes
    act: Callable[[Moment], None] = field(compare=False)
    # Whether it will still mean anything: the end of a pod that was evicted since does not.
    holds: Callable[[], bool] = field(compare=False)


class Agenda:
    def __init__(self) -> None:
        self._heap: list[Due] = []

    def put(
        self,
        at: Moment,
        rank: Rank,
        act: Callable[[Moment], None],
        *,
        namespace: str = "",
        name: str = "",
        kind: str = "",
        detail: bytes = b"",
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        heappush(self._heap, Due(at, rank, namespace, name, kind, detail, act, holds))

    def next(self) -> Moment | None:
        """When the next thing is due that still holds."""
        while self._heap and not self._heap[0].holds():
            heappop(self._heap)
        return self._heap[0].at if self._heap else None

    def take(self, until: Moment) -> Iterator[Due]:
        """Everything due at or before a moment; what one thing puts down may come next."""
        while (at := self.next()) is not None and at <= until:
            yield heappop(self._heap)
