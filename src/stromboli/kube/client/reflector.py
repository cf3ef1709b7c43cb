"""The objects of one kind, as the API server has them, told as events to whoever keeps them.

A reflector lists, then watches from there, and watches again from where it was when a watch ends. Only when the server
no longer remembers that moment (410), or keeps failing, does it list anew; then it tells what differs from what it has
told before, and nothing else. So the receiver sees every object's latest state, in order, never twice, and never
learns that there was an outage.

What we write ourselves is known before the stream repeats it. `note` takes the server's answer to a write at once, so
that the next decision is not taken on what we have just changed. The rule that keeps the two in order: an answer
counts only if it is newer than everything the stream has shown, for otherwise the stream has included it already, and
perhaps its end, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, TypeVar

import msgspec

from stromboli.api import ApiError, KObject, decode_json
from stromboli.cluster.events import Applied, Deleted

from .client import Client
from .errors import Failure, is_gone
from .rate_limit import Backoff
from .resources import Resource
from .trim import trim
from .wire import Envelope

log = logging.getLogger(__name__)

K = TypeVar("K", bound=KObject)

# Handing over this many objects takes a few milliseconds; then others may use the loop.
CHUNK = 100
# A watch that ended sooner than this was none: without a pause before the next we might never stop asking.
SHORTEST_WATCH = 1.0
# So many failures in a row, and the moment we want to go on from may be what the server cannot do.
FAILURES_BEFORE_LISTING = 3
# Seconds before the same complaint is repeated.
COMPLAIN_EVERY = 60.0


class _Metadata(msgspec.Struct, rename="camel"):
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct):
    """As much as can be read of an object that does not fit our types, and all that a bookmark has."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class Reflector(Generic[K]):
    """Keeps `known` like the server's objects and tells the sink of every difference, in the loop it runs in.

    An object that does not fit our types is as good as none: a warning is logged (once, until it can be read again),
    and if it was known, it is told to be deleted.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[K],
        sink: Callable[[Applied | Deleted], None],
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
        backoff: Backoff | None = None,
        relisted: Callable[[str], None] = lambda plural: None,
    ) -> None:
        """`relisted` is told the resource's plural whenever its objects had to be listed again."""
        self.resource = resource
        self.known: dict[str, K] = {}
        self.synced = asyncio.Event()
        self._client = client
        self._sink = sink
        self._namespace = namespace
        self._field_selector = field_selector
        self._label_selector = label_selector
        self._backoff = backoff or Backoff()
        self._relisted = relisted
        self._failures = 0
        self._complaint = ""
        self._complained_at = 0.0
        self._must_list = True
        # The latest moment that a list, an event or a bookmark has shown; watches go on from here.
        self._newest = ""
        # What of `known` we have from `note` only: the stream has yet to show it.
        self._noted: set[str] = set()
        self._unreadable: set[str] = set()

    async def run(self) -> None:
        """Never returns and never raises, unless it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            begun = clock()
            pause = 0.0
            try:
                if self._must_list:
                    await self._list()
                    self._must_list = False
                    if self.synced.is_set():
                        self._relisted(self.resource.plural)
                    self.synced.set()
                    begun = clock()
                await self._watch()
            except Failure as failure:
                pause = self._after(failure)
            except Exception:
                # A mistake of ours in one place must not leave the whole program blind.
                log.exception("watching %s went wrong; listing them again", self.resource.plural)
                self._must_list = True
            if clock() - begun >= SHORTEST_WATCH:
                self._backoff.reset()
            elif pause == 0.0:
                pause = self._backoff.next()
            await asyncio.sleep(pause)

    def note(self, obj: K) -> None:
        """Take what a write of ours returned. To be called in the loop that `run` runs in."""
        trim(obj)
        key = self.resource.key(obj)
        known = self.known.get(key)
        version = obj.metadata.resource_version
        if not is_newer(version, self._newest) or (
            known is not None and not is_newer(version, known.metadata.resource_version)
        ):
            return
        self._noted.add(key)
        self._apply(key, obj)

    def _after(self, failure: Failure) -> float:
        """What to do about a failure, and for how long to wait first."""
        self._failures += 1
        if is_gone(failure) or self._failures >= FAILURES_BEFORE_LISTING:
            self._must_list = True
        if is_gone(failure):
            log.info("%s: the server has forgotten where we were; listing them again", self.resource.plural)
        else:
            self._complain(failure)
        return max(self._backoff.next(), failure.retry_after or 0.0)

    def _complain(self, failure: Failure) -> None:
        """Once for each thing that goes wrong, and then now and then: a server that is away is one story, not a
        thousand."""
        now = asyncio.get_running_loop().time()
        if failure.message == self._complaint and now - self._complained_at < COMPLAIN_EVERY:
            return
        self._complaint, self._complained_at = failure.message, now
        log.warning("%s cannot be followed: %s; trying again", self.resource.plural, failure.message)

    async def _list(self) -> None:
        present: set[str] = set()
        version = ""
        pages = self._client.pages(
            self.resource,
            namespace=self._namespace,
            field_selector=self._field_selector,
            label_selector=self._label_selector,
        )
        async with aclosing(pages):
            async for page in pages:
                # All pages show the moment of the first; what is noted from now on must be newer than that.
                version = self._newest = version or page.metadata.resource_version
                items = page.items or []
                for start in range(0, len(items), CHUNK):
                    for item in items[start : start + CHUNK]:
                        obj = self._read(item)
                        if obj is not None:
                            present.add(self.resource.key(obj))
                            self._take_listed(obj, version)
                    await asyncio.sleep(0)
        missing = [key for key in self.known if key not in present]
        for start in range(0, len(missing), CHUNK):
            for key in missing[start : start + CHUNK]:
                if key in self.known and not self._is_ahead(key, version):
                    self._remove(key, self.known[key])
            await asyncio.sleep(0)
        self._failures = 0

    async def _watch(self) -> None:
        envelopes = self._client.envelopes(
            self.resource,
            self._newest,
            namespace=self._namespace,
            field_selector=self._field_selector,
            label_selector=self._label_selector,
        )
        async with aclosing(envelopes):
            async for envelope in envelopes:
                self._failures = 0
                self._take_event(envelope)

    def _take_listed(self, obj: K, version: str) -> None:
        key = self.resource.key(obj)
        if self._is_ahead(key, version):
            return
        self._noted.discard(key)
        known = self.known.get(key)
        # Not "newer": after a restore from a backup, what the server has now is older than what we knew.
        if known is None or _identity(known) != _identity(obj):
            self._apply(key, obj)

    def _take_event(self, envelope: Envelope) -> None:
        if envelope.type == "BOOKMARK":
            self._newest = _head(envelope.object).resource_version or self._newest
            return
        obj = self._read(envelope.object)
        if obj is None:
            self._take_unreadable(envelope)
            return
        self._newest = obj.metadata.resource_version
        if envelope.type == "DELETED":
            self._take_deleted(obj)
        else:
            self._take_changed(obj)

    def _take_changed(self, obj: K) -> None:
        key, version = self.resource.key(obj), obj.metadata.resource_version
        known = self.known.get(key)
        if known is None or is_newer(version, known.metadata.resource_version):
            self._noted.discard(key)
            self._apply(key, obj)
        elif version == known.metadata.resource_version:
            self._noted.discard(key)

    def _take_deleted(self, obj: K) -> None:
        key = self.resource.key(obj)
        known = self.known.get(key)
        if known is None:
            return
        same = known.metadata.uid == obj.metadata.uid
        # What was deleted may have a successor that we noted; the stream will come to it.
        if same or not is_newer(known.metadata.resource_version, obj.metadata.resource_version):
            self._remove(key, obj if same else known)

    def _take_unreadable(self, envelope: Envelope) -> None:
        head = _head(envelope.object)
        self._newest = head.resource_version or self._newest
        key = self._key(head)
        if envelope.type == "DELETED":
            self._unreadable.discard(key)
        if key in self.known:
            self._remove(key, self.known[key])

    def _read(self, data: msgspec.Raw) -> K | None:
        try:
            obj = decode_json(bytes(data), self.resource.type)
        except ApiError as error:
            key = self._key(_head(data))
            if key not in self._unreadable:
                log.warning("%s is left out: %s", key, error)
                self._unreadable.add(key)
            return None
        if self._unreadable:
            self._unreadable.discard(self.resource.key(obj))
        trim(obj)
        return obj

    def _key(self, head: _Metadata) -> str:
        return f"{head.namespace}/{head.name}" if self.resource.namespaced else head.name

    def _is_ahead(self, key: str, version: str) -> bool:
        """Whether we know something of the object that a list of this moment cannot show."""
        return key in self._noted and is_newer(self.known[key].metadata.resource_version, version)

    def _apply(self, key: str, obj: K) -> None:
        known = self.known.get(key)
        if known is not None and known.metadata.uid != obj.metadata.uid:
            self._tell(key, Deleted(known))
        self.known[key] = obj
        self._tell(key, Applied(obj))

    def _remove(self, key: str, last: K) -> None:
        del self.known[key]
        self._noted.discard(key)
        self._tell(key, Deleted(last))

    def _tell(self, key: str, event: Applied | Deleted) -> None:
        try:
            self._sink(event)
        except Exception:
            # One object that the receiver cannot cope with must not keep the others from him.
            log.exception("%s could not be taken in", key)


def is_newer(version: str, other: str) -> bool:
    """Whether one resourceVersion comes after another. Those of a real server are numbers; of others, all we can
    tell is whether they differ."""
    if version.isdigit() and other.isdigit():
        return int(version) > int(other)
    return version != other


def _head(data: msgspec.Raw) -> _Metadata:
    try:
        return msgspec.json.decode(data, type=_Head).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Metadata()


def _identity(obj: KObject) -> tuple[str, str]:
    return obj.metadata.uid, obj.metadata.resource_version
