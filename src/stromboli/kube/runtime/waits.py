"""Waiting for whichever comes first: most waits of a process also end when it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Final, TypeVar

from stromboli.kube.client import NO_RESPONSE, Failure

T = TypeVar("T")

REQUEST_TIMEOUT: Final = 5.0  # seconds; the default lease outlives the fence by as much


async def first_of(*waits: Coroutine[Any, Any, Any] | asyncio.Future[Any], timeout: float | None = None) -> None:
    """Wait until one of them is done or the timeout is over; cancel the rest."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def in_time(call: Awaitable[T], seconds: float) -> T:
    """The result of a request that only the leader may send. Raises Failure.

    The fence is checked before. But the client repeats requests that the server puts off, and a process may be
    suspended while it connects. So what has not left before the lease can be another's does not leave at all.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise Failure(NO_RESPONSE, "the server did not answer in time", reason="Timeout") from None
