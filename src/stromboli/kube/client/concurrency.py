"""Bounded concurrency for many small requests to one server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

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
    remaining = iter(items)
    finished = 0

    async def work() -> None:
        nonlocal finished
        for item in remaining:
            await do(item)
            finished += 1
            if on_progress is not None:
                on_progress(finished)

    workers = [asyncio.create_task(work()) for _ in range(limit)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
