"""Trials of what would start a job, told step by step to whoever waits for them.

On a large cluster all of them take a minute. So the first answer comes at once, results follow as they are found, and
the trials end when nobody reads them any more. They run in a thread of their own, one request after the other: a
forecast for the whole page must not delay them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

Answer = dict[str, Any]
Tell = Callable[[Answer], None]


class Stopped(Exception):
    """Nobody reads the answers any more."""


class Trials:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="page-trials")

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def answers(self, work: Callable[[Tell], Answer | None]) -> AsyncGenerator[Answer | None, None]:
        """What `work` tells and then what it returns. Close the generator to stop it."""
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Answer | None] = asyncio.Queue()
        stopped = Event()

        def tell(answer: Answer) -> None:
            if stopped.is_set():
                raise Stopped
            loop.call_soon_threadsafe(told.put_nowait, answer)

        working = loop.run_in_executor(self._thread, lambda: work(tell))
        working.add_done_callback(lambda _: told.put_nowait(None))
        try:
            last: Answer | None = None
            while (answer := await told.get()) is not None:
                if answer != last:  # it is told in every cycle, to have a moment to stop
                    yield answer
                last = answer
            yield await working
        finally:
            stopped.set()
            working.cancel()
