"""Status patches: the latest wish counts, each is written once, and none of them is in a hurry.

The scheduler says in every cycle what should be read on groups, pods and queues. Most of that is overtaken by the next
cycle: a pod that is "waiting for its gang" now is bound a moment later. So a wish has a delay, a newer one for the same
object takes its place without waiting any longer, and one that is not true any more can be withdrawn.

A wish that equals what was just written is no wish: the cycle that uttered it had not seen the answer yet.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stromboli.api import KObject
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_conflict, is_not_found
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.client.resources import Resource
from stromboli.kube.runtime.logs import Log

_AT_ONCE: Final = 16  # patches on their way at a time
_ECHO: Final = 5.0  # seconds in which a repeated wish may still be one from before the answer
_PATIENCE: Final = 1.0  # seconds that a wish nobody waits for lets binds go first
_RETRY: Final = 2.0  # seconds

_log = Log("status")

Slot = tuple[str, str]  # plural and key of an object


@dataclass(frozen=True, slots=True)
class Wish:
    """What should be read in an object's status from now on."""

    resource: Resource[Any]
    key: str
    uid: str
    status: Mapping[str, Any]
    version: str = ""  # only while the object is in this version; a wish about a changed object is worth nothing
    strategic: bool = False  # merge lists as Kubernetes does for its own kinds
    urgent: bool = False  # somebody waits for it: it does not let binds go first
    written: Callable[[], None] | None = None  # called once it is true

    @property
    def slot(self) -> Slot:
        return self.resource.plural, self.key


@dataclass(slots=True)
class _Entry:
    wish: Wish
    due: float


class Posting:
    def __init__(
        self,
        client: Client,
        *,
        bucket: TokenBucket,
        note: Callable[[KObject], None],
        outcome: Callable[[str, str], None] = lambda kind, result: None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`note` is told the object as the server has it after a write; `outcome` is told how each write ended; `busy`
        says whether binds are on their way."""
        self._client = client
        self._bucket = bucket
        self._note = note
        self._outcome = outcome
        self._busy = busy
        self._clock = asyncio.get_running_loop().time
        self._wishes: dict[Slot, _Entry] = {}
        self._order: list[tuple[float, Slot]] = []  # a heap; an entry whose wish moved on is skipped
        self._writing: set[Slot] = set()
        self._withdrawn: set[Slot] = set()  # those of them that nobody wishes any more
        self._last: dict[Slot, tuple[Wish, float]] = {}
        self._changed = asyncio.Event()

    def want(self, wish: Wish, *, delay: float = 0.0) -> None:
        now = self._clock()
        last = self._last.get(wish.slot)
        if last is not None and now - last[1] < _ECHO and _same(last[0], wish):
            self._wishes.pop(wish.slot, None)
            return
        known = self._wishes.get(wish.slot)
        due = now + delay if known is None else min(known.due, now + delay)
        self._wishes[wish.slot] = _Entry(wish, due)
        if known is None or due != known.due:
            heapq.heappush(self._order, (due, wish.slot))
            self._changed.set()

    def withdraw(self, resource: Resource[Any], key: str) -> None:
        slot = resource.plural, key
        self._wishes.pop(slot, None)
        if slot in self._writing:
            self._withdrawn.add(slot)

    def forget(self) -> None:
        """Nothing is wished any more: somebody else says from now on what is so."""
        self._wishes.clear()
        self._withdrawn.update(self._writing)

    async def run(self) -> None:
        """Write every wish when it is due, for ever."""
        places = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                await places.acquire()
                wish = await self._next()
                self._writing.add(wish.slot)
                group.create_task(self._write(wish)).add_done_callback(lambda _: places.release())

    async def flush(self) -> None:
        """Write every wish now, due or not: before an orderly stop."""
        wishes = [entry.wish for entry in self._wishes.values()]
        self._wishes.clear()
        self._busy = lambda: False  # nothing is left to go first
        while self._writing:  # one at a time for an object, here as well
            await asyncio.sleep(0.02)
        for start in range(0, len(wishes), _AT_ONCE):
            await asyncio.gather(*(self._write(wish) for wish in wishes[start : start + _AT_ONCE]))

    async def _wait_for_binds(self) -> None:
        until = self._clock() + _PATIENCE
        while self._busy() and self._clock() < until:
            await asyncio.sleep(0.02)

    async def _next(self) -> Wish:
        while True:
            self._changed.clear()
            now = self._clock()
            while self._order and self._order[0][0] <= now:
                due, slot = heapq.heappop(self._order)
                entry = self._wishes.get(slot)
                if entry is None or entry.due != due:
                    continue
                if slot in self._writing:  # one at a time for an object, or an older wish might win
                    entry.due = now + 0.05
                    heapq.heappush(self._order, (entry.due, slot))
                    continue
                del self._wishes[slot]
                return entry.wish
            patience = self._order[0][0] - now if self._order else None
            try:
                await asyncio.wait_for(self._changed.wait(), patience)
            except TimeoutError:
                continue

    async def _write(self, wish: Wish) -> None:
        kind = wish.resource.plural
        metadata = {"uid": wish.uid} | ({"resourceVersion": wish.version} if wish.version else {})
        patch = {"metadata": metadata, "status": wish.status}
        try:
            if not wish.urgent:
                await self._wait_for_binds()
            await self._bucket.take()
            if wish.slot in self._withdrawn:
                return
            # What was written last is not there for long: to wish it again is a wish, from here on.
            self._last.pop(wish.slot, None)
            result = await self._client.patch(
                wish.resource, wish.key, patch, subresource="status", strategic=wish.strategic
            )
        except Failure as failure:
            self._outcome(kind, "failed")
            if is_not_found(failure) or is_conflict(failure):
                return  # it is gone, or has changed, or another one has its name
            _log.warning("a status could not be written", kind=kind, object=wish.key, failure=failure.message)
            if wish.slot not in self._wishes and wish.slot not in self._withdrawn:
                self.want(wish, delay=_RETRY)
        else:
            self._outcome(kind, "written")
            self._remember(wish)
            waiting = self._wishes.get(wish.slot)
            if waiting is not None and _same(waiting.wish, wish):
                del self._wishes[wish.slot]
            self._note(result)
            if wish.written is not None:
                wish.written()
        finally:
            self._writing.discard(wish.slot)
            self._withdrawn.discard(wish.slot)

    def _remember(self, wish: Wish) -> None:
        now = self._clock()
        self._last.pop(wish.slot, None)
        self._last[wish.slot] = (wish, now)
        while self._last:
            oldest = next(iter(self._last))
            if now - self._last[oldest][1] < _ECHO:
                break
            del self._last[oldest]


def _same(left: Wish, right: Wish) -> bool:
    return left.uid == right.uid and left.status == right.status
