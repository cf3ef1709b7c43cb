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
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from stromboli.api import ApiObject
from stromboli.kube.client.auth.access import Access

from .errors import UNREADABLE, Failure, is_gone, is_not_found, may_try_again, told
from .rate_limit import Backoff
from .resources import POD_GROUPS, PODS, Resource
from .transport import Transport
from .wire import ApiResources, Envelope, Lines, Listing, Page, ServerVersion, WatchEvent, decoded, parsed

__all__ = ["Client", "Listing", "WatchEvent"]

T = TypeVar("T", bound=ApiObject)

ATTEMPTS = 4
# A server may ask for any pause; ours are bounded, so that a caller hears of it within his patience.
LONGEST_PAUSE = 30.0
# The server ends a watch in time. One that is silent for this much longer has lost its server.
WATCH_GRACE = 15.0


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
        self._groups_have_status: bool | None = None

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
                if attempt == ATTEMPTS or not may_try_again(method, failure):
                    raise
                pause = max(backoff.next(), min(failure.retry_after or 0.0, LONGEST_PAUSE))
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def get(self, resource: Resource[T], key: str) -> T:
        return decoded(await self.request("GET", resource.path_of(key)), resource)

    async def list(
        self, resource: Resource[T], *, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> Listing[T]:
        """All of them at one moment, which is what `resource_version` names and a watch can start from."""
        for attempt in range(1, ATTEMPTS + 1):
            items: builtins.list[T] = []
            version = ""
            try:
                async for page in self.pages(
                    resource, namespace=namespace, field_selector=field_selector, label_selector=label_selector
                ):
                    items += (decoded(item, resource) for item in page.items or ())
                    version = page.metadata.resource_version
                return Listing(items, version)
            except Failure as failure:
                # It took longer than the server remembers the moment of the first page.
                if attempt == ATTEMPTS or not is_gone(failure):
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def pages(
        self, resource: Resource[T], *, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> AsyncGenerator[Page, None]:
        """A list as it arrives. Raises Failure 410 if it takes longer than the server remembers: begin again."""
        query = _selected(field_selector, label_selector) | {"limit": str(self._page)}
        while True:
            page = parsed(await self.request("GET", resource.path(namespace), query=query), Page)
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
        """What happened after a moment, until the server ends the watch (after some minutes, or when it wants to)."""
        envelopes = self.envelopes(
            resource,
            resource_version,
            namespace=namespace,
            field_selector=field_selector,
            label_selector=label_selector,
        )
        # Whoever stops reading ends the watch: its connection is closed then, not when it is found to be unused.
        async with aclosing(envelopes):
            async for envelope in envelopes:
                yield WatchEvent(envelope.type, decoded(envelope.object, resource))

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
            lines = Lines()
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    envelope = parsed(line, Envelope)
                    if envelope.type == "ERROR":
                        raise told(envelope.object)
                    yield envelope
            lines.end()

    async def create(self, resource: Resource[T], obj: T | Mapping[str, Any], *, namespace: str = "") -> T:
        if not namespace and isinstance(obj, ApiObject):
            namespace = obj.metadata.namespace
        elif not namespace and isinstance(obj, Mapping):
            namespace = str(obj.get("metadata", {}).get("namespace", ""))
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource.plural} are created in a namespace")
        return decoded(await self._write("POST", resource.path(namespace), obj), resource)

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
        if subresource == "status" and not await self._has_status(resource):
            subresource = ""
        return decoded(await self._write("PATCH", resource.path_of(key, subresource), patch, kind), resource)

    async def replace(self, resource: Resource[T], obj: T, *, subresource: str = "") -> T:
        """Puts the object in the place of the one there; what our struct does not hold is lost."""
        path = resource.path_of(resource.key(obj), subresource)
        return decoded(await self._write("PUT", path, obj), resource)

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
        """Gives a pod its node, once and for all. The server copies the annotations to the pod in the same write.

        Servers from 1.23 on refuse (409) if the pod has another uid. Older ones, and 1.25 and 1.26 before they were
        mended, bind whichever pod has the name.
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

    async def _has_status(self, resource: Resource[Any]) -> bool:
        """Whether a status is written apart from its object, which is up to the definition that is installed. In
        Volcano's own definition of a PodGroup, it is not."""
        if resource is not POD_GROUPS:
            return resource.has_status
        if self._groups_have_status is None:
            found = parsed(await self.request("GET", f"/apis/{resource.group_version}"), ApiResources)
            self._groups_have_status = any(one.name == f"{resource.plural}/status" for one in found.resources)
        return self._groups_have_status

    async def _find_eviction_version(self) -> str:
        # Not the same as whether policy/v1 is served: 1.21 has budgets in policy/v1, and evictions in v1beta1 only.
        found = parsed(await self.request("GET", "/api/v1"), ApiResources)
        versions = [one for one in found.resources if one.name == "pods/eviction"]
        if not versions:
            raise Failure(HTTPStatus.NOT_FOUND, "the server offers no evictions", reason="NotFound")
        return f"{versions[0].group or 'policy'}/{versions[0].version or 'v1'}"

    async def server_version(self) -> tuple[int, int]:
        version = parsed(await self.request("GET", "/version"), ServerVersion)
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
