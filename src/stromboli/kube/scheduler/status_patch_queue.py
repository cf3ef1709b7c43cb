"""Sends status patches: only the latest one for each object, once, and after binds. `status_writer` builds them.

Every cycle decides which status groups, pods and queues should have. Most of these statuses are outdated by the next
cycle: a pod that is "waiting for its gang" now is bound a moment later. So a patch has a delay, a newer patch for the
same object replaces it without restarting the delay, and a patch that is no longer true can be cancelled.

Nothing is sent but by the leader: the fence is checked last, because a process that was suspended on its way here would
overwrite what the next leader has written.

A patch equal to the one that was just written is dropped: the cycle that decided it had not seen the write yet.

There are three lanes. What something waits for is sent at once, many at a time. Other statuses are sent few at a time,
or a bind that comes in between would have to wait for all of them in the server. Patches that change only the words and
numbers of a reason are also limited per second: nobody waits for them, and there are many, because with every pod that
starts the numbers change for all that do not. In a lane, namespaces go by turns.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stromboli.api import KObject
from stromboli.api.upstream import plain_name
from stromboli.containment import ObjectRef
from stromboli.kube.client import (
    Client,
    Failure,
    FairQueue,
    Resource,
    TokenBucket,
    is_conflict,
    is_not_found,
    namespace_of,
)
from stromboli.kube.runtime import REQUEST_TIMEOUT, Fence, LimitedLog, Log, in_time

_CONCURRENCY: Final = 16  # patches in flight that something waits for
_ORDINARY_CONCURRENCY: Final = 4  # others
_REWORDED_CONCURRENCY: Final = 2  # those that change only words and numbers
_REWORDED_RATE: Final = 100.0  # of these, per second
_ECHO: Final = 5.0  # seconds in which an equal patch may come from a cycle that had not seen the write
_YIELD_TO_BINDS: Final = 1.0  # seconds that a patch which is not urgent lets binds go first
_RETRY: Final = 2.0  # seconds
_MOVED_AT_ONCE: Final = 1000  # patches that get into line for each that is sent, so that the loop is free for others

_log = Log("status")

Slot = tuple[str, str]  # plural and key of an object


@dataclass(frozen=True, slots=True)
class StatusPatch:
    """The status that an object should have from now on."""

    resource: Resource[Any]
    key: str  # as the scheduler knows it
    uid: str
    status: Mapping[str, Any]
    version: str = ""  # write it only while the object has this resourceVersion
    strategic: bool = False  # merge lists as Kubernetes does for its own kinds
    urgent: bool = False  # something waits for it: do not let binds go first
    reworded: bool = False  # only the words and numbers of a reason change: it may take its time
    on_written: Callable[[], None] | None = None  # called once the server has it

    @property
    def slot(self) -> Slot:
        return self.resource.plural, self.key


class _Lane:
    def __init__(self, concurrency: int, bucket: TokenBucket) -> None:
        self.queue: list[tuple[float, Slot]] = []  # a heap; an item is skipped if the entry of its slot is another one
        self.due: FairQueue[tuple[float, Slot]] = FairQueue()  # those of them whose time has come
        self.changed = asyncio.Event()
        self.places = asyncio.Semaphore(concurrency)
        self.bucket = bucket


@dataclass(slots=True)
class _Entry:
    patch: StatusPatch
    due: float
    lane: _Lane


class StatusPatchQueue:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        bucket: TokenBucket,
        on_object: Callable[[KObject], None],
        contain: Callable[[Exception, ObjectRef], None],
        on_result: Callable[[str, str], None] = lambda kind, result: None,
        busy: Callable[[], bool] = lambda: False,
        timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        """`on_object` gets the object as the server returns it after a write; `on_result` gets the kind and the result
        of each write; `contain` is told of errors in our code; `busy` says whether binds are in flight."""
        self._client = client
        self._fence = fence
        self._urgent_lane = _Lane(_CONCURRENCY, bucket)
        self._ordinary_lane = _Lane(_ORDINARY_CONCURRENCY, bucket)
        self._on_object = on_object
        self._contain = contain
        self._on_result = on_result
        self._busy = busy
        self._timeout = timeout
        self._clock = asyncio.get_running_loop().time
        rate = min(_REWORDED_RATE, bucket.rate)
        self._reworded_lane = _Lane(_REWORDED_CONCURRENCY, TokenBucket(rate, max(1, int(rate)), clock=self._clock))
        self._pending: dict[Slot, _Entry] = {}
        self._writing: set[Slot] = set()
        self._cancelled: set[Slot] = set()  # slots in `_writing` whose patch was cancelled
        self._last: dict[Slot, tuple[StatusPatch, float]] = {}
        self._log = LimitedLog(_log, self._clock)

    def enqueue(self, patch: StatusPatch, *, delay: float = 0.0) -> None:
        now = self._clock()
        last = self._last.get(patch.slot)
        if last is not None and now - last[1] < _ECHO and _same(last[0], patch):
            self._pending.pop(patch.slot, None)
            return
        entry = self._pending.get(patch.slot)
        due, lane = now + delay, self._lane_of(patch)
        # A patch of another lane was not written, and is outdated: what is urgent about it, or not, no longer counts.
        if entry is not None and entry.lane is lane:
            due, entry.patch = min(entry.due, due), patch
            if due == entry.due:
                return
        self._pending[patch.slot] = _Entry(patch, due, lane)
        heapq.heappush(lane.queue, (due, patch.slot))
        lane.changed.set()

    def _lane_of(self, patch: StatusPatch) -> _Lane:
        if patch.urgent:
            return self._urgent_lane
        return self._reworded_lane if patch.reworded else self._ordinary_lane

    def cancel(self, resource: Resource[Any], key: str) -> None:
        slot = resource.plural, key
        self._pending.pop(slot, None)
        if slot in self._writing:
            self._cancelled.add(slot)

    def cancel_all(self) -> None:
        """Another replica leads now and decides which statuses are written."""
        self._pending.clear()
        self._cancelled.update(self._writing)

    async def run(self) -> None:
        """Write every patch when it is due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for lane in (self._urgent_lane, self._ordinary_lane, self._reworded_lane):
                group.create_task(self._run_lane(lane, group))

    async def _run_lane(self, lane: _Lane, group: asyncio.TaskGroup) -> None:
        while True:
            await lane.places.acquire()
            patch = await self._next(lane)
            self._writing.add(patch.slot)
            group.create_task(self._write(patch, lane)).add_done_callback(lambda _: lane.places.release())

    async def flush(self) -> None:
        """Write every patch now, due or not: before an orderly stop."""
        patches = [entry.patch for entry in self._pending.values()]
        self._pending.clear()
        self._busy = lambda: False  # no binds are left to wait for
        while self._writing:  # one write at a time for each object, here as well
            await asyncio.sleep(0.02)
        for start in range(0, len(patches), _CONCURRENCY):
            some = patches[start : start + _CONCURRENCY]
            await asyncio.gather(*(self._write(patch, self._urgent_lane) for patch in some))

    async def _wait_for_binds(self) -> None:
        until = self._clock() + _YIELD_TO_BINDS
        while self._busy() and self._clock() < until:
            await asyncio.sleep(0.02)

    async def _next(self, lane: _Lane) -> StatusPatch:
        while True:
            lane.changed.clear()
            now = self._clock()
            queue = lane.queue
            for _ in range(_MOVED_AT_ONCE):
                if not queue or queue[0][0] > now:
                    break
                moved = heapq.heappop(queue)
                lane.due.push(namespace_of(moved[1][1]), moved)
            while lane.due:
                due, slot = lane.due.pop()
                entry = self._pending.get(slot)
                if entry is None or entry.due != due or entry.lane is not lane:
                    continue
                if slot in self._writing:  # one write at a time for each object, or an older status might win
                    entry.due = now + 0.05
                    heapq.heappush(queue, (entry.due, slot))
                    continue
                del self._pending[slot]
                return entry.patch
            timeout = max(0.0, queue[0][0] - now) if queue else None
            try:
                await asyncio.wait_for(lane.changed.wait(), timeout)
            except TimeoutError:
                continue

    async def _write(self, patch: StatusPatch, lane: _Lane) -> None:
        try:
            await self._send(patch, lane)
        except Exception as error:
            self._contain(error, ObjectRef(patch.resource.type.__name__, patch.key))
        finally:
            self._writing.discard(patch.slot)
            self._cancelled.discard(patch.slot)

    async def _send(self, patch: StatusPatch, lane: _Lane) -> None:
        kind = patch.resource.plural
        metadata = {"uid": patch.uid} | ({"resourceVersion": patch.version} if patch.version else {})
        body = {"metadata": metadata, "status": patch.status}
        try:
            if not patch.urgent:
                await self._wait_for_binds()
            await lane.bucket.take()
            # A process that was suspended does not know yet that another one leads; what it decided is outdated.
            if patch.slot in self._cancelled or not self._fence.is_leader:
                return
            # The status written before is about to be replaced: from here on a patch with it is no echo.
            self._last.pop(patch.slot, None)
            patching = self._client.patch(
                patch.resource, plain_name(patch.key), body, subresource="status", strategic=patch.strategic
            )
            result = await in_time(patching, self._timeout)
        except Failure as failure:
            self._on_result(kind, "failed")
            if is_not_found(failure) or is_conflict(failure):
                return  # the object is deleted or changed, or another object has its name
            self._log.warning(
                "status write failed", namespace_of(patch.key), kind=kind, object=patch.key, failure=failure.message
            )
            if patch.slot not in self._pending and patch.slot not in self._cancelled:
                self.enqueue(patch, delay=_RETRY)
        else:
            self._on_result(kind, "written")
            self._remember(patch)
            pending = self._pending.get(patch.slot)
            if pending is not None and _same(pending.patch, patch):
                del self._pending[patch.slot]
            self._on_object(result)
            if patch.on_written is not None:
                patch.on_written()

    def _remember(self, patch: StatusPatch) -> None:
        now = self._clock()
        self._last.pop(patch.slot, None)
        self._last[patch.slot] = (patch, now)
        while self._last:
            oldest = next(iter(self._last))
            if now - self._last[oldest][1] < _ECHO:
                break
            del self._last[oldest]


def _same(left: StatusPatch, right: StatusPatch) -> bool:
    return left.uid == right.uid and left.status == right.status
