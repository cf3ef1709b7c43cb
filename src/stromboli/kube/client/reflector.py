"""Keeps the objects of one kind as the API server has them, and sends each difference to a sink as an event.

A reflector lists, then watches from there, and resumes when a watch ends. Only when the server no longer has that
resourceVersion (410), or keeps failing, does it list again; then it sends only what differs from what it sent before.
So the sink sees the latest state of every object, in order, never twice, and is not affected by an outage.

Our own writes are known before the watch repeats them. `observe_write` takes the object that the server returned for a
write, so that the next decision is not based on the state before it. To keep both sources in order, such an object
counts only if it is newer than everything the watch has shown. Otherwise the watch has shown it already, and perhaps
its deletion, too.

An object that our own code fails on, here or in the sink, must not keep anybody from seeing the others. It counts as
deleted until it changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, TypeVar

import msgspec

from stromboli import plain_json
from stromboli.api import ApiError, KObject, ObjectMeta, decode_json
from stromboli.cluster.events import Applied, Deleted
from stromboli.containment import ObjectRef

from .backoff import Backoff
from .client import Client
from .errors import Failure, is_gone
from .resources import Resource
from .transform import strip_unused_fields
from .wire import Envelope

log = logging.getLogger(__name__)

K = TypeVar("K", bound=KObject)

# So many objects take a few milliseconds; then other tasks may use the event loop.
CHUNK = 100
# After a watch that ended sooner than this comes a pause, or we might flood the server with requests.
MIN_WATCH_SECONDS = 1.0
# After so many failures in a row, the resourceVersion itself may be what the server cannot handle.
FAILURES_BEFORE_RELIST = 3
# Seconds until the same warning is repeated.
WARN_EVERY = 60.0

Contain = Callable[[Exception, ObjectRef], None]
"""Says that an error happened while this object was handled, and that it is put aside."""


def _log_error(error: Exception, ref: ObjectRef) -> None:
    log.error("ignoring %s until it changes, after an error", ref, exc_info=error)


class _Metadata(msgspec.Struct, rename="camel"):
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class _PartialObject(msgspec.Struct):
    """What can be read of an object that does not fit our types, and all that a bookmark has."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class Reflector(Generic[K]):
    """Keeps `objects` like those of the server and sends every difference to the sink, in its event loop.

    An object that does not fit our types counts as deleted. A warning is logged once, until it can be decoded again.
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
        on_relist: Callable[[str], None] = lambda plural: None,
        contain: Contain = _log_error,
    ) -> None:
        """`on_relist` is called with the plural of the resource whenever its objects had to be listed again. `contain`
        is told of errors that were charged to an object."""
        self.resource = resource
        self.objects: dict[str, K] = {}
        self.remaining = 0  # objects that a list in progress has still to come, if the server says so
        self.synced = asyncio.Event()
        self._client = client
        self._sink = sink
        self._namespace = namespace
        self._field_selector = field_selector
        self._label_selector = label_selector
        self._backoff = backoff or Backoff(random=client.random)
        self._relisted = on_relist
        self._contain = contain
        self._failures = 0
        self._warning = ""
        self._warned_at = 0.0
        self._must_list = True
        # The latest resourceVersion of a list, an event or a bookmark; watches resume from here.
        self._last_version = ""
        # Keys of objects that only `observe_write` has delivered; the watch has not shown them yet.
        self._written: set[str] = set()
        self._undecodable: set[str] = set()

    async def run(self) -> None:
        """Run until cancelled; never raises."""
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            pause = 0.0
            try:
                if self._must_list:
                    await self._list()
                    self._must_list = False
                    if self.synced.is_set():
                        self._relisted(self.resource.plural)
                    self.synced.set()
                    started = clock()
                await self._watch()
            except Failure as failure:
                pause = self._handle_failure(failure)
            except Exception:
                # One bug must not stop the whole program from seeing the cluster.
                log.exception("watching %s failed unexpectedly; listing again", self.resource.plural)
                self._must_list = True
            if clock() - started >= MIN_WATCH_SECONDS:
                self._backoff.reset()
            elif pause == 0.0:
                pause = self._backoff.next()
            await asyncio.sleep(pause)

    def observe_write(self, obj: K) -> None:
        """Take the object that a write returned. Call it in the event loop that `run` uses."""
        try:
            self._take_written(obj)
        except Exception as error:
            self._contain(error, self._ref(obj.metadata))  # the watch will show it

    def _take_written(self, obj: K) -> None:
        strip_unused_fields(obj)
        key = self.resource.key(obj)
        known = self.objects.get(key)
        version = obj.metadata.resource_version
        if not is_newer(version, self._last_version) or (
            known is not None and not is_newer(version, known.metadata.resource_version)
        ):
            return
        self._written.add(key)
        self._apply(key, obj)

    def _handle_failure(self, failure: Failure) -> float:
        """React to a failure; returns how long to wait first."""
        self._failures += 1
        if is_gone(failure) or self._failures >= FAILURES_BEFORE_RELIST:
            self._must_list = True
        if is_gone(failure):
            log.info("%s: the resourceVersion has expired; listing again", self.resource.plural)
        else:
            self._warn(failure)
        return max(self._backoff.next(), failure.retry_after or 0.0)

    def _warn(self, failure: Failure) -> None:
        """Log each kind of failure once, and again from time to time: an outage is one problem, not a thousand."""
        now = asyncio.get_running_loop().time()
        if failure.message == self._warning and now - self._warned_at < WARN_EVERY:
            return
        self._warning, self._warned_at = failure.message, now
        log.warning("cannot watch %s: %s; retrying", self.resource.plural, failure.message)

    async def _list(self) -> None:
        listed: set[str] = set()
        version = ""
        pages = self._client.pages(
            self.resource,
            namespace=self._namespace,
            field_selector=self._field_selector,
            label_selector=self._label_selector,
        )
        async with aclosing(pages):
            async for page in pages:
                # All pages show the moment of the first; writes observed from now on must be newer than that.
                version = self._last_version = version or page.metadata.resource_version
                items = page.items or []
                self.remaining = page.metadata.remaining_item_count or 0
                for start in range(0, len(items), CHUNK):
                    for item in items[start : start + CHUNK]:
                        listed.add(self._take_listed(item, version))
                    await asyncio.sleep(0)
        missing = [key for key in self.objects if key not in listed]
        for start in range(0, len(missing), CHUNK):
            for key in missing[start : start + CHUNK]:
                if key in self.objects and not self._has_newer(key, version):
                    self._remove(key, self.objects[key])
            await asyncio.sleep(0)
        self._failures = 0

    async def _watch(self) -> None:
        envelopes = self._client.envelopes(
            self.resource,
            self._last_version,
            namespace=self._namespace,
            field_selector=self._field_selector,
            label_selector=self._label_selector,
        )
        async with aclosing(envelopes):
            async for envelope in envelopes:
                self._failures = 0
                try:
                    self._handle_event(envelope)
                except Exception as error:
                    self._contain(error, self._ref(_metadata(envelope.object)))
                    self._handle_unreadable(envelope)

    def _take_listed(self, item: msgspec.Raw, version: str) -> str:
        """The key of the object; nobody's if it cannot be read, so that it counts as deleted."""
        try:
            obj = self._decode(item)
            if obj is None:
                return ""
            key = self.resource.key(obj)
            self._handle_listed(key, obj, version)
        except Exception as error:
            self._contain(error, self._ref(_metadata(item)))
            return ""
        return key

    def _handle_listed(self, key: str, obj: K, version: str) -> None:
        if self._has_newer(key, version):
            return
        self._written.discard(key)
        known = self.objects.get(key)
        # Not "newer": after a restore from a backup, the server's objects are older than ours.
        if known is None or _identity(known) != _identity(obj):
            self._apply(key, obj)

    def _handle_event(self, envelope: Envelope) -> None:
        if envelope.type == "BOOKMARK":
            self._last_version = _metadata(envelope.object).resource_version or self._last_version
            return
        obj = self._decode(envelope.object)
        if obj is None:
            self._handle_unreadable(envelope)
            return
        self._last_version = obj.metadata.resource_version
        if envelope.type == "DELETED":
            self._handle_deleted(obj)
        else:
            self._handle_changed(obj)

    def _handle_changed(self, obj: K) -> None:
        key, version = self.resource.key(obj), obj.metadata.resource_version
        known = self.objects.get(key)
        if known is None or is_newer(version, known.metadata.resource_version):
            self._written.discard(key)
            self._apply(key, obj)
        elif version == known.metadata.resource_version:
            self._written.discard(key)

    def _handle_deleted(self, obj: K) -> None:
        key = self.resource.key(obj)
        known = self.objects.get(key)
        if known is None:
            return
        same = known.metadata.uid == obj.metadata.uid
        # The deleted object may have a successor that we have written; the watch will show it later.
        if same or not is_newer(known.metadata.resource_version, obj.metadata.resource_version):
            self._remove(key, obj if same else known)

    def _handle_unreadable(self, envelope: Envelope) -> None:
        head = _metadata(envelope.object)
        self._last_version = head.resource_version or self._last_version
        key = self._key(head)
        if envelope.type == "DELETED":
            self._undecodable.discard(key)
        if key in self.objects:
            self._remove(key, self.objects[key])

    def _decode(self, data: msgspec.Raw) -> K | None:
        try:
            obj = decode_json(bytes(data), self.resource.type)
        except ApiError as error:
            key = self._key(_metadata(data))
            if key not in self._undecodable:
                log.warning("ignoring %s, which cannot be decoded: %s", key, error)
                self._undecodable.add(key)
            return None
        if self._undecodable:
            self._undecodable.discard(self.resource.key(obj))
        strip_unused_fields(obj)
        return obj

    def _key(self, head: _Metadata | ObjectMeta) -> str:
        return f"{head.namespace}/{head.name}" if self.resource.namespaced else head.name

    def _ref(self, head: _Metadata | ObjectMeta) -> ObjectRef:
        return ObjectRef(self.resource.type.__name__, self._key(head))

    def _has_newer(self, key: str, version: str) -> bool:
        """Whether we have a newer version of the object than a list of this moment can show."""
        return key in self._written and is_newer(self.objects[key].metadata.resource_version, version)

    def _apply(self, key: str, obj: K) -> None:
        known = self.objects.get(key)
        if known is not None and known.metadata.uid != obj.metadata.uid:
            self._send(key, Deleted(known))
        self.objects[key] = obj
        if not self._send(key, Applied(obj)):
            self._remove(key, obj if known is None or known.metadata.uid != obj.metadata.uid else known)

    def _remove(self, key: str, last: K) -> None:
        known = self.objects.pop(key)
        self._written.discard(key)
        if not self._send(key, Deleted(last)) and last is not known:
            self._send(key, Deleted(known))  # it can do with this one, or it would not know of it

    def _send(self, key: str, event: Applied | Deleted) -> bool:
        """Whether the sink has taken it."""
        try:
            self._sink(event)
        except Exception as error:
            self._contain(error, ObjectRef(self.resource.type.__name__, key))
            return False
        return True


def is_newer(version: str, other: str) -> bool:
    """Whether one resourceVersion comes after another. Real servers use numbers; otherwise we can only tell whether the
    two differ."""
    if version.isdigit() and other.isdigit():
        return int(version) > int(other)
    return version != other


def _metadata(data: msgspec.Raw) -> _Metadata:
    try:
        return plain_json.decode_shallow(bytes(data), _PartialObject).metadata
    except msgspec.DecodeError:
        return _Metadata()


def _identity(obj: KObject) -> tuple[str, str]:
    return obj.metadata.uid, obj.metadata.resource_version
