"""Typed calls to an API server: what every other module of this world reads and writes with.

Reading is tried again when that may help. Writing is tried again only where it is certain that the server has not
acted: it could not be connected to, or it said "later" and when. After any other failure nobody knows, and the one who
decided on the write must look before deciding again.

Objects come back as our structs, which hold the fields we read and no others. Change an object with `patch`, which
leaves the rest alone; `replace` is for kinds whose every field we know.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Any, Generic, TypeVar

import msgspec

from stromboli.api import ApiError, ApiObject, decode_json

from .access import Access
from .failures import NOT_REACHED, TOO_MANY_REQUESTS, Failure, is_gone, is_not_found, told
from .limits import Backoff
from .resources import PODS, Resource
from .transport import Transport

T = TypeVar("T", bound=ApiObject)

# The reason of a Failure about an answer that came and did not make sense. A write has happened then.
UNREADABLE = "Unreadable"

ATTEMPTS = 4
# A server may ask for any pause; ours are bounded, so that a caller hears of it within his patience.
LONGEST_PAUSE = 30.0
# The server ends a watch in time. One that is silent for this much longer has lost its server.
WATCH_GRACE = 15.0


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: builtins.list[T]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    type: str
    """ADDED, MODIFIED, DELETED or BOOKMARK; of a bookmark's object only the resourceVersion means anything."""
    object: T


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """Part of a list, its objects not decoded yet."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: builtins.list[msgspec.Raw] | None = None


class Envelope(msgspec.Struct):
    """What a line of a watch holds, its object not decoded yet."""

    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct):
    major: str = ""
    minor: str = ""


class _ApiResource(msgspec.Struct):
    name: str = ""
    group: str = ""
    version: str = ""


class _ApiResources(msgspec.Struct):
    resources: builtins.list[_ApiResource] = msgspec.field(default_factory=builtins.list)


class Client:
    def __init__(
        self,
        access: Access,
        *,
        connections: int = 64,
        page: int = 500,
        timeout: float = 30.0,
        watch_seconds: float = 290.0,
        random: Random | None = None,
    ) -> None:
        self.access = access
        self._page = page
        self._timeout = timeout
        self._watch_seconds = watch_seconds
        self._random = random or Random()
        self._transport = Transport(access, connections=connections)
        self._served: set[str] = set()
        self._eviction_version = ""

    async def __aenter__(self) -> Client:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, traceback)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """The body of the answer; a Failure for every answer that is no success."""
        backoff = Backoff(random=self._random)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._transport.send(
                    method, path, query=query, body=body, content_type=content_type, timeout=self._timeout
                )
            except Failure as failure:
                if attempt == ATTEMPTS or not _may_try_again(method, failure):
                    raise
                pause = max(backoff.next(), min(failure.retry_after or 0.0, LONGEST_PAUSE))
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def get(self, resource: Resource[T], key: str) -> T:
        return _decoded(await self.request("GET", resource.path_of(key)), resource)

    async def list(
        self, resource: Resource[T], *, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> Listing[T]:
        """All of them at one moment, which is what `resource_version` names and a watch can start from."""
        while True:
            items: builtins.list[T] = []
            try:
                async for page in self.pages(
                    resource, namespace=namespace, field_selector=field_selector, label_selector=label_selector
                ):
                    items += (_decoded(item, resource) for item in page.items or ())
                    version = page.metadata.resource_version
                return Listing(items, version)
            except Failure as failure:
                # The moment we were reading is forgotten; with nothing read yet it would be for good.
                if not is_gone(failure) or not items:
                    raise

    async def pages(
        self, resource: Resource[T], *, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> AsyncIterator[Page]:
        """A list as it arrives. Raises Failure 410 if it takes longer than the server remembers: begin again."""
        query = _selected(field_selector, label_selector) | {"limit": str(self._page)}
        while True:
            page = _parsed(await self.request("GET", resource.path(namespace), query=query), Page)
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        """What happened after a moment, until the server ends the watch (after some minutes, or when it wants to)."""
        async for envelope in self.envelopes(
            resource,
            resource_version,
            namespace=namespace,
            field_selector=field_selector,
            label_selector=label_selector,
        ):
            yield WatchEvent(envelope.type, _decoded(envelope.object, resource))

    async def envelopes(
        self,
        resource: Resource[T],
        resource_version: str,
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncIterator[Envelope]:
        """A watch whose objects are not decoded yet."""
        # Watches that were opened together must not end together: the server would have to open all anew at once.
        seconds = max(1, round(self._watch_seconds * self._random.uniform(0.9, 1.1)))
        query = _selected(field_selector, label_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        async with self._transport.stream(
            resource.path(namespace), query=query, silence=seconds + WATCH_GRACE
        ) as chunks:
            async for line in _lines(chunks):
                envelope = _parsed(line, Envelope)
                if envelope.type == "ERROR":
                    raise told(envelope.object)
                yield envelope

    async def create(self, resource: Resource[T], obj: T | Mapping[str, Any], *, namespace: str = "") -> T:
        if not namespace and isinstance(obj, ApiObject):
            namespace = obj.metadata.namespace
        elif not namespace and isinstance(obj, Mapping):
            namespace = str(obj.get("metadata", {}).get("namespace", ""))
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource.plural} are created in a namespace")
        return _decoded(await self._write("POST", resource.path(namespace), obj), resource)

    async def patch(
        self,
        resource: Resource[T],
        key: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        strategic: bool = False,
    ) -> T:
        """Changes what the patch mentions (a JSON merge patch, or Kubernetes' own kind that merges lists by key)."""
        kind = "application/strategic-merge-patch+json" if strategic else "application/merge-patch+json"
        return _decoded(await self._write("PATCH", resource.path_of(key, subresource), patch, kind), resource)

    async def replace(self, resource: Resource[T], obj: T, *, subresource: str = "") -> T:
        """Puts the object in the place of the one there; what our struct does not hold is lost."""
        path = resource.path_of(resource.key(obj), subresource)
        return _decoded(await self._write("PUT", path, obj), resource)

    async def delete(
        self,
        resource: Resource[T],
        key: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
    ) -> None:
        """With `uid`, only that very object; another of the same name is a conflict."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions"} | _delete_options(uid, grace_seconds)
        if propagation:
            options["propagationPolicy"] = propagation
        await self._write("DELETE", resource.path_of(key), options)

    async def bind(self, pod_key: str, uid: str, node: str, *, annotations: Mapping[str, str] | None = None) -> None:
        """Gives a pod its node, once and for all. The server copies the annotations to the pod in the same write."""
        namespace, _, name = pod_key.partition("/")
        metadata: dict[str, Any] = {"namespace": namespace, "name": name, "uid": uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._write("POST", PODS.path_of(pod_key, "binding"), binding)

    async def evict(self, pod_key: str, uid: str, *, grace_seconds: int | None = None) -> None:
        """Asks for the pod's removal. A budget in the way is a Failure 429 with the cause DisruptionBudget."""
        if not self._eviction_version:
            self._eviction_version = await self._find_eviction_version()
        namespace, _, name = pod_key.partition("/")
        eviction = {
            "apiVersion": self._eviction_version,
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": _delete_options(uid, grace_seconds),
        }
        await self._write("POST", PODS.path_of(pod_key, "eviction"), eviction)

    async def _find_eviction_version(self) -> str:
        # Not the same as whether policy/v1 is served: 1.21 has budgets in policy/v1, and evictions in v1beta1 only.
        found = _parsed(await self.request("GET", "/api/v1"), _ApiResources)
        versions = [one for one in found.resources if one.name == "pods/eviction"]
        if not versions:
            raise Failure(HTTPStatus.NOT_FOUND, "the server offers no evictions", reason="NotFound")
        return f"{versions[0].group or 'policy'}/{versions[0].version or 'v1'}"

    async def server_version(self) -> tuple[int, int]:
        version = _parsed(await self.request("GET", "/version"), _Version)
        # Some distributions say "20+".
        digits = [text.rstrip("+") for text in (version.major, version.minor)]
        if not all(text.isdigit() for text in digits):
            raise Failure(HTTPStatus.OK, f"the server says it is {version.major}.{version.minor}", reason=UNREADABLE)
        return int(digits[0]), int(digits[1])

    async def serves(self, group_version: str) -> bool:
        """Whether the server knows a group in a version. What it does not know, it may learn: asked anew each time."""
        if group_version not in self._served:
            try:
                await self.request("GET", f"/{'api' if group_version == 'v1' else 'apis'}/{group_version}")
            except Failure as failure:
                if is_not_found(failure):
                    return False
                raise
            self._served.add(group_version)
        return True

    async def _write(
        self, method: str, path: str, body: ApiObject | Mapping[str, Any], content_type: str = "application/json"
    ) -> bytes:
        return await self.request(method, path, body=msgspec.json.encode(body), content_type=content_type)


def _may_try_again(method: str, failure: Failure) -> bool:
    if failure.status == NOT_REACHED:
        return failure.reason == "Unreachable" or (method == "GET" and failure.reason == "")
    if failure.cause == "DisruptionBudget":
        return False
    if method == "GET":
        return failure.status == TOO_MANY_REQUESTS or failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    refused = failure.status in (TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
    return refused and failure.retry_after is not None


def _selected(field_selector: str, label_selector: str) -> dict[str, str]:
    selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
    return {name: text for name, text in selectors.items() if text}


def _delete_options(uid: str, grace_seconds: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


P = TypeVar("P")


def _parsed(body: bytes, type: type[P]) -> P:
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Failure(HTTPStatus.OK, "the answer is no Kubernetes object", reason=UNREADABLE) from None


def _decoded(data: msgspec.Raw | bytes, resource: Resource[T]) -> T:
    try:
        return decode_json(bytes(data), resource.type)
    except ApiError as error:
        raise Failure(HTTPStatus.OK, f"the answer cannot be read: {error}", reason=UNREADABLE) from None


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream, however long: aiohttp's own readline gives up on objects larger than its buffer."""
    parts: builtins.list[bytes] = []
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            parts.append(line)
            yield b"".join(parts)
            parts.clear()
        parts.append(rest)
    if any(parts):
        raise Failure(NOT_REACHED, "the watch was cut off in the middle of an object")
