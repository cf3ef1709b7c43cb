"""Many small requests to one server: how many at a time, and whose is next.

Whatever is written for objects of tenants waits in a queue in which namespaces go by turns. In a plain one, the first
event of a team would wait behind a hundred thousand of another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


async def for_each_concurrently(
    items: Iterable[Item],
    do: Callable[[Item], Awaitable[object]],
    *,
    limit: int,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Call `do` for every item, in order, with at most `limit` calls in flight. The first failure cancels the rest.

    `on_progress` is called with the number of finished items.
    """
    items = list(items)
    remaining = iter(items)
    finished = 0

    async def work() -> None:
        nonlocal finished
        for item in remaining:
            await do(item)
            finished += 1
            if on_progress is not None:
                on_progress(finished)

    workers = [asyncio.create_task(work()) for _ in range(min(limit, len(items)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


class FairQueue(Generic[Item]):
    """One item of each namespace, then the next of each."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Item]] = {}  # by namespace, the next one first
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return (item for line in self._lines.values() for item in line)

    def push(self, namespace: str, item: Item) -> None:
        self._lines.setdefault(namespace, deque()).append(item)
        self._length += 1

    def pop(self) -> Item:
        """The oldest item of the namespace whose turn it is."""
        namespace = next(iter(self._lines))
        line = self._lines.pop(namespace)
        item = line.popleft()
        if line:
            self._lines[namespace] = line
        self._length -= 1
        return item

    def drop(self) -> Item:
        """Remove the oldest item of the namespace that has most: who fills the queue loses what no longer fits."""
        namespace = max(self._lines, key=lambda name: len(self._lines[name]))
        line = self._lines[namespace]
        item = line.popleft()
        if not line:
            del self._lines[namespace]
        self._length -= 1
        return item


def namespace_of(key: str) -> str:
    """Of the key of an object; that of a cluster-scoped one is its name."""
    return key.partition("/")[0]
