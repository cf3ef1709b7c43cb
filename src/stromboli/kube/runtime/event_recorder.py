"""Kubernetes events: what people read under `kubectl describe`, and nobody should ever have to wait for.

Telling is free: `tell` puts a line down and returns. A task writes the lines one after the other, never faster than its
own token bucket allows and only while no bind is on its way (for a while; then it goes on regardless). When more is
told than can be written, the oldest lines are dropped and counted.

Three things keep the list short. A line that was written before (same object, reason and message) becomes a higher
count of the first one. What is told over and over, in every cycle perhaps, is counted here and written ever more
rarely. And an object that says many different things for one reason gets a single, combined line for the rest: a
message with changing numbers in it would otherwise fill the server.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from stromboli.api import KINDS, KObject, is_namespaced
from stromboli.api.timestamps import format_timestamp
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_not_found
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.client.resources import EVENTS

from .logs import Log

_MOST_WAITING: Final = 10_000  # lines that nobody had time to write yet
_MOST_REMEMBERED: Final = 20_000  # lines that were written, so that a repetition is known as one
_FORGET_AFTER: Final = 600.0  # seconds; as long as a repetition is counted instead of written again
_MANY: Final = 10  # different messages for one object and reason, before the rest are combined
_OFTEN: Final = 5  # times that a line is told, before its repetitions are saved up
_LONGEST_SILENCE: Final = 60.0  # seconds for which they are
_LONGEST: Final = 1024  # characters in a message; the server refuses longer ones
_AT_A_TIME: Final = 50  # lines that are written before binds are looked for again
_PATIENCE: Final = 5.0  # seconds that lines wait for binds

_VERSIONS: Final = {kind: version for (version, _), kind in KINDS.items()}

_log = Log("events")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom an event is about."""

    api_version: str
    kind: str
    namespace: str  # "" for what is cluster-wide
    name: str
    uid: str = ""

    @classmethod
    def of(cls, kind: type[KObject], key: str, uid: str) -> Subject:
        api_version = _VERSIONS[kind]
        namespace, _, name = key.rpartition("/") if is_namespaced(kind) else ("", "", key)
        return cls(api_version, kind.__name__, namespace, name, uid)


@dataclass(frozen=True, slots=True)
class _Line:
    subject: Subject
    reason: str
    message: str
    warning: bool


@dataclass(slots=True)
class _Written:
    name: str
    count: int
    at: float
    saved_up: int = 0  # repetitions that the server does not know of yet

    def is_fresh(self, now: float) -> bool:
        """Whether the count on the server will do for now: the higher it is, the longer."""
        return self.count >= _OFTEN and now - self.at < min(_LONGEST_SILENCE, self.count)


@dataclass(slots=True)
class _Variety:
    """How many different messages an object had for one reason."""

    messages: set[str] = field(default_factory=set)
    at: float = 0.0


class Recorder:
    def __init__(
        self,
        client: Client,
        component: str,
        *,
        bucket: TokenBucket,
        busy: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`busy`: whether something more important is being written."""
        self.dropped = 0
        self._client = client
        self._component = component
        self._bucket = bucket
        self._busy = busy
        self._clock = clock
        self._waiting: OrderedDict[_Line, int] = OrderedDict()  # how often each was told meanwhile
        self._written: OrderedDict[_Line, _Written] = OrderedDict()
        self._varieties: OrderedDict[tuple[Subject, str], _Variety] = OrderedDict()
        self._told = asyncio.Event()
        self._writing = asyncio.Lock()  # one line after the other, and a flush waits for the one in hand

    def tell(
        self, kind: type[KObject], key: str, uid: str, reason: str, message: str, *, warning: bool = False
    ) -> None:
        self.tell_of(Subject.of(kind, key, uid), reason, message, warning=warning)

    def tell_of(self, subject: Subject, reason: str, message: str, *, warning: bool = False) -> None:
        line = self._combined(_Line(subject, reason, message[:_LONGEST], warning))
        known = self._written.get(line)
        if known is not None and known.is_fresh(self._clock()):
            known.saved_up += 1
            return
        self._waiting[line] = self._waiting.get(line, 0) + 1
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popitem(last=False)
            self.dropped += 1
        self._told.set()

    async def run(self) -> None:
        """Write what is told, for ever."""
        while True:
            await self._told.wait()
            await self._wait_for_binds()
            for _ in range(_AT_A_TIME):
                await self._bucket.take()
                if not await self._write_next():
                    break
            if not self._waiting:
                self._told.clear()

    async def flush(self) -> None:
        """Write what is waiting, then return: before a stop, when binds are over."""
        while await self._write_next():
            pass

    async def _write_next(self) -> bool:
        """Whether there was a line and it could be written."""
        async with self._writing:
            if not self._waiting:
                return False
            line, times = self._waiting.popitem(last=False)
            try:
                await self._write(line, times)
            except Failure as failure:
                _log.warning("an event could not be written", reason=line.reason, failure=failure.message)
                return False
            return True

    async def _wait_for_binds(self) -> None:
        waited = 0.0
        while self._busy() and waited < _PATIENCE:
            await asyncio.sleep(0.02)
            waited += 0.02

    def _combined(self, line: _Line) -> _Line:
        now = self._clock()
        about = (line.subject, line.reason)
        variety = self._varieties.setdefault(about, _Variety(at=now))
        if now - variety.at > _FORGET_AFTER:
            variety.messages.clear()
            variety.at = now
        self._varieties.move_to_end(about)
        if len(self._varieties) > _MOST_REMEMBERED:
            self._varieties.popitem(last=False)
        if line.message in variety.messages or len(variety.messages) < _MANY:
            variety.messages.add(line.message)
            return line
        return _Line(line.subject, line.reason, "Several more messages like those before.", line.warning)

    async def _write(self, line: _Line, times: int) -> None:
        now = self._clock()
        known = self._written.pop(line, None)
        if known is not None and now - known.at <= _FORGET_AFTER and await self._repeat(line, known, times, now):
            self._written[line] = known
            return
        document = _document(line, times, self._component, now)
        await self._client.create(EVENTS, document, namespace=document["metadata"]["namespace"])
        self._written[line] = _Written(document["metadata"]["name"], times, now)
        if len(self._written) > _MOST_REMEMBERED:
            self._written.popitem(last=False)

    async def _repeat(self, line: _Line, known: _Written, times: int, now: float) -> bool:
        """Raise the count of a line that was written before; False if it is gone by now."""
        times += known.saved_up
        patch = {"count": known.count + times, "lastTimestamp": format_timestamp(now)}
        try:
            await self._client.patch(EVENTS, f"{_namespace(line.subject)}/{known.name}", patch)
        except Failure as failure:
            if is_not_found(failure):
                return False
            self._written[line] = known
            raise
        known.count += times
        known.saved_up = 0
        known.at = now
        return True


def _namespace(subject: Subject) -> str:
    """Events live in namespaces; those about cluster-wide objects live in `default`, as everybody's do."""
    return subject.namespace or "default"


def _document(line: _Line, times: int, component: str, now: float) -> dict[str, Any]:
    subject = line.subject
    stamp = format_timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name[:200].rstrip('-.')}.{time.time_ns():x}",
            "namespace": _namespace(subject),
        },
        "involvedObject": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "reason": line.reason,
        "message": line.message,
        "type": "Warning" if line.warning else "Normal",
        "source": {"component": component},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": times,
    }
