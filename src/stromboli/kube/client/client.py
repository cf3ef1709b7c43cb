"""Typed calls to an API server, for everything in this package that reads or writes objects.

Reads are retried when that may help, after delays that grow (`backoff`). Writes are retried only where the server
certainly has not acted: it could not be connected to, or it asked to retry later. After any other failure nobody knows
whether the write happened, and the caller must read the object before it decides again.

Objects come back as our structs, which hold only the fields that we read. Change an object with `patch`, which keeps
all other fields; use `replace` only for kinds of which we know every field.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from stromboli.api import ApiObject
from stromboli.kube.client.auth.client_config import ClientConfig

from .backoff import Backoff
from .errors import (
    UNREADABLE,
    Failure,
    endless_list,
    failure_from_status,
    is_gone,
    is_not_found,
    is_retriable,
    is_too_large,
)
from .resources import POD_GROUPS, PODS, Resource
from .transport import Transport
from .wire import (
    ApiResources,
    Envelope,
    LineSplitter,
    ObjectList,
    Page,
    ServerVersion,
    WatchEvent,
    decode_message,
    decode_object,
)

T = TypeVar("T", bound=ApiObject)

ATTEMPTS = 4
# A server may ask for any pause; ours is bounded, so that the caller gets the failure in time.
MAX_PAUSE = 30.0
# A list with more objects, or so many pages in a row without any, does not end in time.
MOST_OBJECTS = 1_000_000
MOST_EMPTY_PAGES = 100
# The server ends a watch after a while. One that is silent for this much longer has lost its server.
WATCH_GRACE = 15.0

_ENCODER = msgspec.json.Encoder()


class Client:
    def __init__(
        self,
        config: ClientConfig,
        *,
        connections: int = 64,
        page: int = 500,
        timeout: float = 30.0,
        watch_seconds: float = 290.0,
        random: Random | None = None,
    ) -> None:
        self.config = config
        self._page = page
        self._timeout = timeout
        self._watch_seconds = watch_seconds
        self.random = random or Random()
        self._transport = Transport(config, connections=connections)
        self._served: set[str] = set()
        self._eviction_version = ""
        self._groups_have_status: bool | None = None

    async def __aenter__(self) -> Client:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, traceback)

    @property
    def login_problem(self) -> str | None:
        """Why the server does not accept the credentials; None if it does."""
        return self._transport.login.problem

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """The body of the response; raises Failure if the request does not succeed."""
        backoff: Backoff | None = None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._transport.send(
                    method, path, query=query, body=body, content_type=content_type, timeout=self._timeout
                )
            except Failure as failure:
                if attempt == ATTEMPTS or not is_retriable(method, failure):
                    raise
                backoff = backoff or Backoff(random=self.random)
                pause = max(backoff.next(), min(failure.retry_after or 0.0, MAX_PAUSE))
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def get(self, resource: Resource[T], key: str) -> T:
        return decode_object(await self.request("GET", resource.path_of(key)), resource)

    async def list(
        self, resource: Resource[T], *, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> ObjectList[T]:
        """All objects at one moment, which `resource_version` names. A watch can start from there."""
        for attempt in range(1, ATTEMPTS + 1):
            items: builtins.list[T] = []
            version = ""
            try:
                async for page in self.pages(
                    resource, namespace=namespace, field_selector=field_selector, label_selector=label_selector
                ):
                    items += (decode_object(item, resource) for item in page.items or ())
                    version = page.metadata.resource_version
                return ObjectList(items, version)
            except Failure as failure:
                # The list took longer than the server keeps the moment of the first page.
                if attempt == ATTEMPTS or not is_gone(failure):
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def pages(
        self, resource: Resource[T], *, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> AsyncGenerator[Page, None]:
        """A list, page by page. Raises Failure 410 if the server no longer has the moment of the first: start again."""
        limit, objects, empty = self._page, 0, 0
        query = _selectors(field_selector, label_selector)
        while True:
            query["limit"] = str(limit)
            try:
                page = decode_message(await self.request("GET", resource.path(namespace), query=query), Page)
            except Failure as failure:
                # Whoever writes large objects must not keep us from reading the others.
                if limit == 1 or not is_too_large(failure):
                    raise
                limit = max(1, limit // 8)
                continue
            objects += len(page.items or ())
            empty = 0 if page.items else empty + 1
            if objects > MOST_OBJECTS or empty > MOST_EMPTY_PAGES:
                raise endless_list(resource.plural)
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
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """The events after a moment, until the server ends the watch, usually after some minutes."""
        envelopes = self.envelopes(
            resource,
            resource_version,
            namespace=namespace,
            field_selector=field_selector,
            label_selector=label_selector,
        )
        # When the caller stops reading, the connection is closed at once, not when it is garbage-collected.
        async with aclosing(envelopes):
            async for envelope in envelopes:
                yield WatchEvent(envelope.type, decode_object(envelope.object, resource))

    async def envelopes(
        self,
        resource: Resource[T],
        resource_version: str,
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncGenerator[Envelope, None]:
        """A watch whose objects are not decoded yet."""
        # Watches that were opened together must not end together, or all would be reopened at once.
        seconds = max(1, round(self._watch_seconds * self.random.uniform(0.9, 1.1)))
        query = _selectors(field_selector, label_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        async with self._transport.stream(
            resource.path(namespace), query=query, silence=seconds + WATCH_GRACE
        ) as chunks:
            lines = LineSplitter()
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    envelope = decode_message(line, Envelope)
                    if envelope.type == "ERROR":
                        raise failure_from_status(envelope.object)
                    yield envelope
            lines.end()

    async def stream(
        self, path: str, query: Mapping[str, str], *, silence: float = 86400.0
    ) -> AsyncGenerator[bytes, None]:
        """The body of a response as it comes, such as a log; fails if nothing has come for `silence` seconds."""
        async with self._transport.stream(path, query=query, silence=silence) as chunks:
            async for chunk in chunks:
                yield chunk

    async def create(self, resource: Resource[T], obj: T | Mapping[str, Any], *, namespace: str = "") -> T:
        if not namespace and isinstance(obj, ApiObject):
            namespace = obj.metadata.namespace
        elif not namespace and isinstance(obj, Mapping):
            namespace = str(obj.get("metadata", {}).get("namespace", ""))
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource.plural} are created in a namespace")
        return decode_object(await self._write("POST", resource.path(namespace), obj), resource)

    async def patch(
        self,
        resource: Resource[T],
        key: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        strategic: bool = False,
    ) -> T:
        """Change only what the patch mentions. A JSON merge patch, or a strategic one, which merges lists by key."""
        kind = "application/strategic-merge-patch+json" if strategic else "application/merge-patch+json"
        if subresource == "status" and not await self._has_status(resource):
            subresource = ""
        return decode_object(await self._write("PATCH", resource.path_of(key, subresource), patch, kind), resource)

    async def replace(self, resource: Resource[T], obj: T, *, subresource: str = "") -> T:
        """Replace the whole object; fields that our struct does not hold are lost."""
        path = resource.path_of(resource.key(obj), subresource)
        return decode_object(await self._write("PUT", path, obj), resource)

    async def delete(
        self,
        resource: Resource[T],
        key: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
    ) -> None:
        """With `uid`, delete only that object; another object of the same name is a conflict."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions"} | _delete_options(uid, grace_seconds)
        if propagation:
            options["propagationPolicy"] = propagation
        await self._write("DELETE", resource.path_of(key), options)

    async def bind(self, pod_key: str, uid: str, node: str, *, annotations: Mapping[str, str] | None = None) -> None:
        """Bind a pod to a node. The server copies the annotations to the pod in the same write.

        Servers from 1.23 on refuse (409) if the pod has another uid. Older servers, and early patch releases of 1.25
        and 1.26, bind whichever pod has the name.
        """
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
        """Evict a pod. Raises Failure 429 with the cause DisruptionBudget if a budget forbids it."""
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

    async def _has_status(self, resource: Resource[Any]) -> bool:
        """Whether the status is a subresource, which depends on the installed definition. In Volcano's own PodGroup it
        is not."""
        if resource is not POD_GROUPS:
            return resource.has_status
        if self._groups_have_status is None:
            found = decode_message(await self.request("GET", f"/apis/{resource.group_version}"), ApiResources)
            self._groups_have_status = any(one.name == f"{resource.plural}/status" for one in found.resources)
        return self._groups_have_status

    async def _find_eviction_version(self) -> str:
        # Not the same as serving policy/v1: 1.21 has budgets in policy/v1, but evictions in v1beta1 only.
        found = decode_message(await self.request("GET", "/api/v1"), ApiResources)
        versions = [one for one in found.resources if one.name == "pods/eviction"]
        if not versions:
            raise Failure(HTTPStatus.NOT_FOUND, "the server has no eviction API", reason="NotFound")
        return f"{versions[0].group or 'policy'}/{versions[0].version or 'v1'}"

    async def server_version(self) -> tuple[int, int]:
        version = decode_message(await self.request("GET", "/version"), ServerVersion)
        # Some distributions report "20+".
        digits = [text.rstrip("+") for text in (version.major, version.minor)]
        if not all(text.isdigit() for text in digits):
            raise Failure(HTTPStatus.OK, f"unknown server version {version.major}.{version.minor}", reason=UNREADABLE)
        return int(digits[0]), int(digits[1])

    async def serves(self, group_version: str) -> bool:
        """Whether the server serves a group in a version. Only True is cached: a group may be added later."""
        if group_version not in self._served:
            try:
                await self.request("GET", f"/{'api' if group_version == 'v1' else 'apis'}/{group_version}")
            except Failure as failure:
                if is_not_found(failure):
                    return False
                raise
            self._served.add(group_version)
        return True

    async def serves_kind(self, resource: Resource[Any]) -> bool:
        """Whether the server has a kind. Asks for objects, not for a list of kinds, which some servers keep to few."""
        try:
            await self.request("GET", resource.path(), query={"limit": "1"})
        except Failure as failure:
            if is_not_found(failure):
                return False
            if failure.status != HTTPStatus.FORBIDDEN:
                raise
        return True

    async def _write(
        self, method: str, path: str, body: ApiObject | Mapping[str, Any], content_type: str = "application/json"
    ) -> bytes:
        return await self.request(method, path, body=_ENCODER.encode(body), content_type=content_type)


def _selectors(field_selector: str, label_selector: str) -> dict[str, str]:
    selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
    return {name: text for name, text in selectors.items() if text}


def _delete_options(uid: str, grace_seconds: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options
