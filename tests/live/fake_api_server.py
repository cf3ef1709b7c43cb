"""A fake API server in this process: objects in memory, real HTTP on loopback, and faults on request.

    async with FakeApiServer() as server, Client(server.config()) as client:
        server.put(pod("a"))
        ...

It implements what our client uses (pages, watches with bookmarks, merge patches, conflicts, preconditions, bindings,
evictions), and validates nothing else. Tests change objects from outside with `put` and `remove`, read the requests in
`seen`, and replace the response to the next matching requests with `instead`.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web

from stromboli.api import merge_patch
from stromboli.kube.client import ClientConfig
from stromboli.kube.client.auth import Credentials, StaticCredentials

Document = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PATH = re.compile(
    r"/(?:api|apis)/(?P<version>v1|[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<part>[a-z]+))?)?"
)
_NAMESPACE = re.compile(r"/api/v1/namespaces(?:/(?P<name>[^/]+)(?:/(?P<part>status))?)?")


@dataclass(frozen=True, slots=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class _Change:
    revision: int
    type: str
    plural: str
    document: Document


@dataclass(slots=True)
class _Instead:
    method: str
    path: re.Pattern[str]
    handler: Handler
    times: int


@dataclass(slots=True)
class FakeApiServer:
    tls: ssl.SSLContext | None = None
    served: set[str] = field(default_factory=lambda: {"v1", "policy/v1", "coordination.k8s.io/v1"})
    eviction_version: str = "v1"
    seen: list[Seen] = field(default_factory=list)
    revision: int = 100
    forgotten: int = 0
    """Watches and pages from before this revision are answered with 410."""
    bookmarks: bool = True
    url: str = ""
    watching: int = 0
    _objects: dict[tuple[str, str, str], Document] = field(default_factory=dict)
    _history: list[_Change] = field(default_factory=list)
    _instead: list[_Instead] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _cuts: int = 0
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeApiServer:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls).start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end_watches()
        assert self._runner is not None
        await self._runner.cleanup()

    def config(self, credentials: Credentials | None = None, *, trust: ssl.SSLContext | None = None) -> ClientConfig:
        return ClientConfig(self.url, trust, credentials or StaticCredentials())

    # What happens behind the client's back

    def put(self, document: Document) -> Document:
        """Somebody creates or changes an object. Returns it as stored."""
        document = copy.deepcopy(document)
        meta = document.setdefault("metadata", {})
        place = self._place(document)
        old = self._objects.get(place)
        self.revision += 1
        meta.setdefault("uid", old["metadata"]["uid"] if old else f"uid-{self.revision}")
        meta["resourceVersion"] = str(self.revision)
        self._objects[place] = document
        self._tell("MODIFIED" if old else "ADDED", place[0], document)
        return document

    def remove(self, document: Document) -> None:
        place = self._place(document)
        gone = copy.deepcopy(self._objects.pop(place))
        self.revision += 1
        gone["metadata"]["resourceVersion"] = str(self.revision)
        self._tell("DELETED", place[0], gone)

    def stored(self, plural: str, key: str) -> Document | None:
        namespace, _, name = key.rpartition("/")
        return self._objects.get((plural, namespace, name))

    def bookmark(self) -> None:
        """All watches learn how late it is."""
        self.revision += 1
        self._tell("BOOKMARK", "", {"metadata": {"resourceVersion": str(self.revision)}})

    def forget(self) -> None:
        """The past is no longer known: who wants to go on from there gets a 410."""
        self.revision += 1
        self.forgotten = self.revision
        self._history.clear()

    def end_watches(self) -> None:
        """As a server does that has been watched for long enough."""
        self._cuts += 1
        self._wake()

    def instead(self, method: str, path: str, handler: Handler, *, times: int = 1) -> None:
        """The next so many requests by this method, to paths that the expression fits, are answered by the handler."""
        self._instead.append(_Instead(method, re.compile(path), handler, times))

    def asked(self, method: str, path: str = "") -> list[Seen]:
        return [one for one in self.seen if one.method == method and re.search(path, one.path)]

    def watches(self) -> list[Seen]:
        return [one for one in self.seen if one.query.get("watch")]

    def lists(self) -> list[Seen]:
        return [one for one in self.seen if "limit" in one.query]

    # How it is done

    def _place(self, document: Document) -> tuple[str, str, str]:
        meta = document["metadata"]
        plural = document["kind"].lower() + ("es" if document["kind"].endswith("s") else "s")
        return plural, meta.get("namespace", ""), meta["name"]

    def _tell(self, type: str, plural: str, document: Document) -> None:
        self._history.append(_Change(self.revision, type, plural, document))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        body = json.loads(data) if data else None
        self.seen.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body))
        for one in self._instead:
            if one.times and one.method == request.method and one.path.search(request.path):
                one.times -= 1
                return await one.handler(request)
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": "20+"})
        if request.path == "/api/v1":
            eviction = {"name": "pods/eviction", "group": "policy", "version": self.eviction_version}
            return web.json_response({"kind": "APIResourceList", "resources": [{"name": "pods"}, eviction]})
        found = re.fullmatch("/apis/([^/]+/[^/]+)", request.path)
        if found is not None:
            return web.json_response({}) if found[1] in self.served else status(404, "NotFound")
        path = _NAMESPACE.fullmatch(request.path) or _PATH.fullmatch(request.path)
        if path is None:
            return status(404, "NotFound")
        parts = {"plural": "namespaces", "namespace": None} | path.groupdict()
        if not parts["name"]:
            return await self._collection(request, parts, body)
        return self._one(request, parts, body)

    async def _collection(self, request: web.Request, parts: dict[str, Any], body: Any) -> web.StreamResponse:
        plural, namespace = parts["plural"], parts["namespace"] or ""
        if request.method == "POST":
            meta = body["metadata"]
            if namespace:
                meta["namespace"] = namespace
            if "name" not in meta:
                meta["name"] = f"{meta['generateName']}{self.revision + 1}"
            if (plural, namespace, meta["name"]) in self._objects:
                return status(409, "AlreadyExists")
            return web.json_response(self.put(body), status=201)
        if request.query.get("watch"):
            return await self._watch(request, plural, namespace)
        return self._list(request, plural, namespace)

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        fitting = [
            self._objects[place]
            for place in sorted(self._objects)
            if place[0] == plural and namespace in ("", place[1])
        ]
        revision, start = self.revision, 0
        if "continue" in request.query:
            revision, start = (int(text) for text in request.query["continue"].split(":"))
            if revision < self.forgotten:
                return status(410, "Expired")
        end = start + int(request.query.get("limit", len(fitting) or 1))
        meta: Document = {"resourceVersion": str(revision)}
        if end < len(fitting):
            meta |= {"continue": f"{revision}:{end}", "remainingItemCount": len(fitting) - end}
        return web.json_response({"kind": "List", "metadata": meta, "items": fitting[start:end]})

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        since, cuts = int(request.query["resourceVersion"]), self._cuts
        if since < self.forgotten:
            return status(410, "Expired")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self.watching += 1
        try:
            while cuts == self._cuts:
                news = self._news
                for change in [one for one in self._history if one.revision > since]:
                    since = change.revision
                    fits = change.plural == plural and namespace in ("", change.document["metadata"].get("namespace"))
                    if fits or (change.type == "BOOKMARK" and self.bookmarks):
                        await response.write(event(change.type, change.document))
                await news.wait()
        finally:
            self.watching -= 1
        return response

    def _one(self, request: web.Request, parts: dict[str, Any], body: Any) -> web.Response:
        place = (parts["plural"], parts["namespace"] or "", parts["name"])
        found = self._objects.get(place)
        if found is None:
            return status(404, "NotFound")
        if request.method == "GET":
            return web.json_response(found)
        if parts["part"] == "binding":
            return self._bind(found, body)
        if parts["part"] == "eviction" or request.method == "DELETE":
            options = (body.get("deleteOptions") if parts["part"] else body) or {}
            if options.get("preconditions", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
                return status(409, "Conflict")
            self.remove(found)
            return web.json_response({"kind": "Status", "status": "Success"})
        changed = merge_patch(found, body) if request.method == "PATCH" else body
        expected = changed["metadata"].get("resourceVersion", found["metadata"]["resourceVersion"])
        if expected != found["metadata"]["resourceVersion"]:
            return status(409, "Conflict")
        return web.json_response(self.put(changed))

    def _bind(self, pod: Document, binding: Document) -> web.Response:
        if pod.get("spec", {}).get("nodeName") or binding["metadata"].get("uid") != pod["metadata"]["uid"]:
            return status(409, "Conflict")
        said = {"annotations": binding["metadata"].get("annotations", {})}
        self.put(merge_patch(pod, {"spec": {"nodeName": binding["target"]["name"]}, "metadata": said}))
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)


def event(type: str, document: Document) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": type, "object": document}).encode() + b"\n"


def status(
    code: int, reason: str, message: str = "", *, retry_after: int | None = None, cause: str = ""
) -> web.Response:
    """A refusal, as an API server words it."""
    document = status_object(code, reason, message, cause=cause)
    headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
    return web.json_response(document, status=code, headers=headers)


def status_object(code: int, reason: str, message: str = "", *, cause: str = "") -> Document:
    document: Document = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    document["message"] = message or f"{reason}, says the server"
    if cause:
        document["details"] = {"causes": [{"reason": cause, "message": "because"}]}
    return document


def always(make: Callable[[], web.Response]) -> Handler:
    """A handler that gives every request an answer of its own."""

    async def handler(request: web.Request) -> web.Response:
        return make()

    return handler


def pod(name: str, *, namespace: str = "ns", **spec: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
