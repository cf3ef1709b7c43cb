"""Many small requests to one server: a few at a time, and together they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


async def side_by_side(
    items: Iterable[Item],
    do: Callable[[Item], Awaitable[object]],
    *,
    width: int,
    done: Callable[[int], None] | None = None,
) -> None:
    """Do it for every item, `width` at a time, in their order. The first failure ends all of it.

    `done` hears how many are finished.
    """
    left = iter(items)
    finished = 0

    async def work() -> None:
        nonlocal finished
        for item in left:
            await do(item)
            finished += 1
            if done is not None:
                done(finished)

    workers = [asyncio.create_task(work()) for _ in range(width)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
