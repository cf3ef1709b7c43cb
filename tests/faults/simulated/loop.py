"""An event loop in virtual time: when nothing is ready, the time jumps to the next timer.

All processes of a world share the loop. Whose a callback is stands in its context (`OWNER`), which tasks inherit. So a
process can be frozen (its callbacks are kept) or killed (they never run again) at any await, as a signal would do it.
What a killed process had open stays as it was: no `finally` runs before the world ends.

The order is that of asyncio: first in, first out among what is ready, timers by time. A real loop handles sockets
before timers, and that matters after a freeze: a process that wakes up reads its answers before its deadlines.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

LATE: Final = 1e-6  # seconds that timers come late, as real ones do: who works out what is left finds nothing
MOST_CALLBACKS: Final = 3_000_000  # in one run; more is a loop without an end


class _Handle(asyncio.Handle):
    """One that does not ask the loop whether it debugs, fifty thousand times in each world."""

    __slots__ = ()

    def __init__(self, callback: Any, args: tuple[Any, ...], loop: VirtualLoop, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ()

    def __init__(
        self, when: float, callback: Any, args: tuple[Any, ...], loop: VirtualLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        """It is skipped when its time comes."""
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]


class Owner:
    """A process, as the loop sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_frozen = False
        self.is_dead = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.kept: list[asyncio.Handle] = []
        """What would have run if it were not frozen or dead."""
        self.thinks: Callable[[], float] = lambda: 0.0
        """How long a call in a thread takes."""
        self._trap: Callable[[], None] | None = None
        self._countdown = 0
        self._thinking = False

    def set_trap(self, countdown: int, trap: Callable[[], None], *, thinking: bool = False) -> None:
        """Call a function when it has sent or received something, or heard from a thread, so many times from now on.
        `thinking`: count only what it does in threads.

        Callbacks are not counted: versions of Python need different numbers of them for the same wait."""
        self._countdown, self._trap, self._thinking = countdown, trap, thinking

    def disarm(self) -> None:
        self._trap = None

    def steps(self, *, thinks: bool = False) -> None:
        """It sends or receives something, or does something in a thread."""
        if self._trap is not None and (thinks or not self._thinking):
            self._countdown -= 1
            if self._countdown <= 0:
                trap, self._trap = self._trap, None
                trap()


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


class Stuck(Exception):
    """Nothing is left that could ever happen, or too much happens."""


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(self) -> None:
        self._now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._stopping = False
        self._running = False
        self._closed = False
        self.network: Any = None
        self.callbacks = 0
        self.problems: list[str] = []
        """What was reported to the exception handler."""

    # -- time ---------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return await self.network.connect(protocol_factory)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(delay, 0.0), callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        handle = _TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is skipped when its time comes."""

    # -- running ------------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(lambda _: self.stop())
        self.run_forever()
        if not task.done():
            raise Stuck("nothing is left that could happen")
        return task.result()

    def run_forever(self) -> None:
        before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._finalize)
        events._set_running_loop(self)
        self._running, self._stopping = True, False
        try:
            self._run_all()
        finally:
            self._running = False
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*before)

    def _finalize(self, generator: Any) -> None:
        self.call_soon(self.create_task, generator.aclose())

    def _run_all(self) -> None:
        """Run what is ready, and jump to the next timer when nothing is. One function, because that is cheapest."""
        ready, timers, pop = self._ready, self._timers, heapq.heappop
        while not self._stopping:
            if not ready:
                while timers and timers[0][2]._cancelled:
                    pop(timers)
                if not timers:
                    return
                self._now = max(self._now, timers[0][0] + LATE)
            now = self._now
            while timers and timers[0][0] <= now:
                timer = pop(timers)[2]
                if not timer._cancelled:
                    ready.append(timer)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context
                owner = context.get(OWNER)
                if owner is not None and (owner.is_dead or owner.is_frozen):
                    owner.kept.append(handle)
                    continue
                self.callbacks += 1
                try:
                    context.run(handle._callback, *handle._args)
                except Exception as error:
                    self.problems.append(f"a callback failed: {error!r}")
                if self._stopping:
                    break
            if self.callbacks > MOST_CALLBACKS:
                raise Stuck(f"more than {MOST_CALLBACKS} callbacks in {self._now:.0f} virtual seconds")

    def keep(self, owner: Owner, callback: Any, *args: Any, context: Context) -> None:
        """For a process that is frozen: it is what it does next when it goes on."""
        owner.kept.append(_Handle(callback, args, self, context))

    def thaw(self, owner: Owner) -> None:
        """Let a frozen process go on: first with what was ready or arrived, then with its timers."""
        owner.is_frozen = False
        kept, owner.kept = owner.kept, []
        timers = [handle for handle in kept if isinstance(handle, asyncio.TimerHandle)]
        first = [handle for handle in kept if not isinstance(handle, asyncio.TimerHandle)]
        self._ready.extendleft(reversed(first))  # before what has just arrived
        self._ready.extend(sorted(timers, key=lambda timer: timer.when()))

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        return

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return

    # -- futures and tasks --------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        owner = (options.get("context") or copy_context()).get(OWNER)
        if owner is not None:
            if len(owner.tasks) > 200:
                owner.tasks = [one for one in owner.tasks if not one.done()]
            owner.tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """At once and in this thread; the result comes as long after as the process thinks."""
        future = self.create_future()
        owner = OWNER.get()
        seconds = owner.thinks() if owner is not None else 0.0
        try:
            result = func(*args)
        except BaseException as error:
            if isinstance(error, StopIteration | KeyboardInterrupt):
                raise
            self.call_later(seconds, _set, future, None, error)
        else:
            self.call_later(seconds, _set, future, result, None)
        if owner is not None:
            owner.steps(thinks=True)
        return future

    # -- errors -------------------------------------------------------------------------------------------------

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        return

    def get_exception_handler(self) -> None:
        return None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.problems.append(f"{context.get('message')}: {error!r}")


def _set(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
