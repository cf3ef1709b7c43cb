"""Records Kubernetes events, which people read with `kubectl describe`, without delaying anything else.

`record` adds an event to a queue and returns. Queued events are written one after the other, no faster than a token
bucket allows, and let binds go first for some seconds. Warnings about pods and groups have a queue of their own and
are written more slowly: hundreds of pods that cannot start would otherwise load the server with several events each,
again and again. In both, namespaces go by turns. When a queue is full, the oldest event of the namespace that has most
is dropped and counted.

Three things keep the number of events small. An event that was written before (same object, reason and message) raises
the count of the first one. An event that is recorded again and again, perhaps in every cycle, is counted here and
written at growing intervals. And an object with many different messages for one reason gets a single combined event for
the rest: a message with changing numbers would otherwise fill the server.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stromboli.api import KINDS, KObject, is_namespaced
from stromboli.api.timestamps import format_timestamp
from stromboli.api.upstream import plain_name, written_type
from stromboli.api.validation.limits import MAX_MESSAGE
from stromboli.kube.client import EVENTS, Client, Failure, FairQueue, TokenBucket, is_not_found

from .logs import Log

_MAX_QUEUED: Final = 10_000  # events that are not written yet
_MAX_REMEMBERED: Final = 20_000  # written events, to recognise a repetition
_EXPIRY: Final = 600.0  # seconds in which a repetition raises the count instead of creating a new event
_MAX_MESSAGES: Final = 10  # different messages for one object and reason; the rest are combined
_FREQUENT: Final = 5  # times that an event is written, before its repetitions are only counted here
_MAX_INTERVAL: Final = 60.0  # seconds between two writes of a frequent event
_NUMEROUS: Final = frozenset({"Pod", "PodGroup"})  # kinds whose warnings are written slowly
_WARNINGS_PER_SECOND: Final = 25.0
_WARNINGS_AT_ONCE: Final = 100
_BATCH: Final = 50  # events that are written before binds may go first again
_YIELD_TO_BINDS: Final = 5.0  # seconds

_KINDS: Final = {struct: (version, kind) for (version, kind), struct in KINDS.items()}

_log = Log("events")


class InvolvedObject(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str  # "" for cluster-scoped objects
    name: str
    uid: str = ""

    @classmethod
    def of(cls, kind: type[KObject], key: str, uid: str) -> InvolvedObject:
        api_version, shown = _KINDS[written_type(key) or kind]
        namespace, _, name = plain_name(key).rpartition("/") if is_namespaced(kind) else ("", "", key)
        return cls(api_version, shown, namespace, name, uid)


class _Event(NamedTuple):
    involved: InvolvedObject
    reason: str
    message: str
    warning: bool


@dataclass(slots=True)
class _Written:
    name: str
    count: int
    at: float
    unwritten: int = 0  # repetitions that the server does not know about yet

    def is_recent(self, now: float) -> bool:
        """Whether the count on the server is recent enough. The higher the count, the longer it is."""
        return self.count >= _FREQUENT and now - self.at < min(_MAX_INTERVAL, self.count)


@dataclass(slots=True)
class _Messages:
    """The different messages of an object for one reason."""

    texts: set[str] = field(default_factory=set)
    since: float = 0.0


class _Queue:
    def __init__(self) -> None:
        self.events: dict[_Event, int] = {}  # with the number of repetitions
        self.turns: FairQueue[_Event] = FairQueue()  # the same events
        self.recorded = asyncio.Event()


class EventRecorder:
    def __init__(
        self,
        client: Client,
        component: str,
        *,
        bucket: TokenBucket,
        busy: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`busy` says whether more important writes are in flight."""
        self.dropped = 0
        self._client = client
        self._component = component
        self._busy = busy
        self._clock = clock
        self._bucket = bucket
        self._news = _Queue()
        self._warnings = _Queue()
        self._written: OrderedDict[_Event, _Written] = OrderedDict()
        self._messages: OrderedDict[tuple[InvolvedObject, str], _Messages] = OrderedDict()
        self._last_name = 0
        self._writing = asyncio.Lock()  # one event after the other; a flush waits for the one in flight

    def record(
        self, kind: type[KObject], key: str, uid: str, reason: str, message: str, *, warning: bool = False
    ) -> None:
        self.record_for(InvolvedObject.of(kind, key, uid), reason, message, warning=warning)

    def record_for(self, involved: InvolvedObject, reason: str, message: str, *, warning: bool = False) -> None:
        event = self._combined(_Event(involved, reason, message[:MAX_MESSAGE], warning))
        known = self._written.get(event)
        if known is not None and known.is_recent(self._clock()):
            known.unwritten += 1
            return
        queue = self._warnings if event.warning and event.involved.kind in _NUMEROUS else self._news
        if event not in queue.events:
            queue.turns.push(event.involved.namespace, event)
        queue.events[event] = queue.events.get(event, 0) + 1
        if len(queue.events) > _MAX_QUEUED:
            del queue.events[queue.turns.drop()]
            self.dropped += 1
        queue.recorded.set()

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        rate, clock = min(self._bucket.rate, _WARNINGS_PER_SECOND), asyncio.get_running_loop().time
        slow = TokenBucket(rate, _WARNINGS_AT_ONCE, clock=clock)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_from(self._news, self._bucket))
            group.create_task(self._write_from(self._warnings, slow))

    async def flush(self) -> None:
        """Write what is queued, but not hundreds of warnings, then return: before a stop, when no binds are left."""
        while await self._write_next(self._news):
            pass
        for _ in range(_WARNINGS_AT_ONCE):
            if not await self._write_next(self._warnings):
                break

    async def _write_from(self, queue: _Queue, bucket: TokenBucket) -> None:
        while True:
            await queue.recorded.wait()
            await self._wait_for_binds()
            for _ in range(_BATCH):
                await bucket.take()
                if not await self._write_next(queue):
                    break
            if not queue.events:
                queue.recorded.clear()

    async def _write_next(self, queue: _Queue) -> bool:
        """Whether there was an event and it could be written."""
        async with self._writing:
            if not queue.events:
                return False
            event = queue.turns.pop()
            times = queue.events.pop(event)
            try:
                await self._write(event, times)
            except Failure as failure:
                _log.warning("cannot write an event", reason=event.reason, failure=failure.message)
                return False
            return True

    async def _wait_for_binds(self) -> None:
        waited = 0.0
        while self._busy() and waited < _YIELD_TO_BINDS:
            await asyncio.sleep(0.02)
            waited += 0.02

    def _combined(self, event: _Event) -> _Event:
        now = self._clock()
        about = (event.involved, event.reason)
        known = self._messages.setdefault(about, _Messages(since=now))
        if now - known.since > _EXPIRY:
            known.texts.clear()
            known.since = now
        self._messages.move_to_end(about)
        if len(self._messages) > _MAX_REMEMBERED:
            self._messages.popitem(last=False)
        if event.message in known.texts or len(known.texts) < _MAX_MESSAGES:
            known.texts.add(event.message)
            return event
        return _Event(event.involved, event.reason, "Several more messages like those before.", event.warning)

    async def _write(self, event: _Event, times: int) -> None:
        now = self._clock()
        known = self._written.pop(event, None)
        if known is not None and now - known.at <= _EXPIRY and await self._repeat(event, known, times, now):
            self._written[event] = known
            return
        document = _document(event, times, self._component, now, self._new_name(event, now))
        await self._client.create(EVENTS, document, namespace=document["metadata"]["namespace"])
        self._written[event] = _Written(document["metadata"]["name"], times, now)
        if len(self._written) > _MAX_REMEMBERED:
            self._written.popitem(last=False)

    async def _repeat(self, event: _Event, known: _Written, times: int, now: float) -> bool:
        """Raise the count of an event that was written before; False if the server has deleted it."""
        times += known.unwritten
        patch = {"count": known.count + times, "lastTimestamp": format_timestamp(now)}
        try:
            await self._client.patch(EVENTS, f"{_namespace(event.involved)}/{known.name}", patch)
        except Failure as failure:
            if is_not_found(failure):
                return False
            self._written[event] = known
            raise
        known.count += times
        known.unwritten = 0
        known.at = now
        return True

    def _new_name(self, event: _Event, now: float) -> str:
        """Named by the time, as in all of Kubernetes. The clock may show one time for several events."""
        self._last_name = max(self._last_name + 1, int(now * 1e9))
        return f"{event.involved.name[:200].rstrip('-.')}.{self._last_name:x}"


def _namespace(involved: InvolvedObject) -> str:
    """Events are namespaced; those about cluster-scoped objects are in `default`, as in all of Kubernetes."""
    return involved.namespace or "default"


def _document(event: _Event, times: int, component: str, now: float, name: str) -> dict[str, Any]:
    involved = event.involved
    stamp = format_timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": _namespace(involved),
        },
        "involvedObject": {
            "apiVersion": involved.api_version,
            "kind": involved.kind,
            "namespace": involved.namespace,
            "name": involved.name,
            "uid": involved.uid,
        },
        "reason": event.reason,
        "message": event.message,
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": component},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": times,
    }
