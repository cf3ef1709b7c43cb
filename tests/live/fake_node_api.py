"""A fake API server with nodes, leases and pods, for hollow nodes. Everything is in `objects`, by path."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from stromboli.api import merge_patch
from stromboli.api.timestamps import format_timestamp
from stromboli.kube.client import ClientConfig
from stromboli.kube.client.auth import StaticCredentials

Object = dict[str, Any]
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
PODS = "/api/v1/namespaces/default/pods"


class FakeNodeApi:
    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.requests: list[tuple[str, str]] = []
        self.failing: Callable[[str, str], bool] = lambda method, path: False
        self.flowing = asyncio.Event()  # cleared, watches are held up
        self.flowing.set()
        self._versions = itertools.count(1)
        self._events: list[tuple[int, str, Object]] = []
        self._news = asyncio.Condition()

    # -- what a test does and asks ----------------------------------------------------------------------------------

    async def bind(self, name: str, node: str, *, annotations: dict[str, str] | None = None, grace: int = 30) -> None:
        """A pod that was just given its node, as the server leaves it."""
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        await self.put(
            f"{PODS}/{name}",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "main", "image": "work"}],
                    "terminationGracePeriodSeconds": grace,
                },
                "status": {"phase": "Pending", "conditions": [scheduled]},
            },
        )

    async def put(self, path: str, obj: Object) -> Object:
        version = next(self._versions)
        known = path in self.objects
        meta = {"uid": f"uid-{version}", **self.objects.get(path, {}).get("metadata", {}), **obj["metadata"]}
        obj = {**obj, "metadata": {**meta, "resourceVersion": str(version)}}
        self.objects[path] = obj
        await self._tell(version, "MODIFIED" if known else "ADDED", obj)
        return obj

    async def delete(self, path: str, grace: int | None = None) -> None:
        """As any user does it: a pod that has a node gets its grace."""
        obj = self.objects[path]
        grace = obj.get("spec", {}).get("terminationGracePeriodSeconds", 0) if grace is None else grace
        if grace:
            leaving = {
                "deletionTimestamp": format_timestamp(int(time.time()) + grace),
                "deletionGracePeriodSeconds": grace,
            }
            await self.put(path, {**obj, "metadata": {**obj["metadata"], **leaving}})
        else:
            del self.objects[path]
            version = next(self._versions)
            gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
            await self._tell(version, "DELETED", gone)

    def pod(self, name: str) -> Object:
        return self.objects[f"{PODS}/{name}"]

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])

    def count(self, method: str, path: str) -> int:
        return self.requests.count((method, path))

    # -- the server -------------------------------------------------------------------------------------------------

    async def _tell(self, version: int, kind: str, obj: Object) -> None:
        async with self._news:
            self._events.append((version, kind, obj))
            self._news.notify_all()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.requests.append((request.method, path))
        if self.failing(request.method, path):
            return _status(500, "InternalError", "out of order")
        if path == "/version":
            return web.json_response({"major": "1", "minor": "20+"})
        if request.query.get("watch"):
            return await self._watch(request)
        body = json.loads(await request.text() or "{}")
        match request.method:
            case "GET" if path in self.objects:
                return web.json_response(self.objects[path])
            case "GET" if path.endswith(("/pods", "/nodes", "/leases")):
                return web.json_response(self._list(path))
            case "POST":
                return await self._create(f"{path}/{body['metadata']['name']}", body)
            case "PATCH" if path.removesuffix("/status") in self.objects:
                return await self._patch(path.removesuffix("/status"), body, "strategic" in request.content_type)
            case "DELETE" if path in self.objects:
                if body.get("preconditions", {}).get("uid", "") not in ("", self.objects[path]["metadata"]["uid"]):
                    return _status(409, "Conflict", "another uid")
                await self.delete(path, body.get("gracePeriodSeconds", 0))
                return _status(200, "", "")
        return _status(404, "NotFound", f"{path} not found")

    async def _create(self, path: str, body: Object) -> web.Response:
        if path in self.objects:
            return _status(409, "AlreadyExists", f"{path} exists")
        if path.startswith(NODES):
            taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
            body = {**body, "spec": {"taints": [*body["spec"]["taints"], taint]}}
        return web.json_response(await self.put(path, body), status=201)

    async def _patch(self, path: str, patch: Object, strategic: bool) -> web.Response:
        before = self.objects[path]
        if patch.get("metadata", {}).get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
            return _status(409, "Conflict", "another uid")
        after = merge_patch(before, patch)
        if strategic and "conditions" in patch.get("status", {}):
            known = {one["type"]: one for one in before.get("status", {}).get("conditions", [])}
            for one in patch["status"]["conditions"]:
                known[one["type"]] = merge_patch(known.get(one["type"], {}), one)
            after["status"]["conditions"] = list(known.values())
        return web.json_response(await self.put(path, after))

    def _list(self, path: str) -> Object:
        parent = PODS if path.endswith("/pods") else LEASES if path.endswith("/leases") else NODES
        items = [obj for name, obj in self.objects.items() if name.startswith(f"{parent}/")]
        return {"metadata": {"resourceVersion": str(self._last)}, "items": items}

    @property
    def _last(self) -> int:
        return self._events[-1][0] if self._events else 0

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/api/v1/pods"
        assert request.query["fieldSelector"] == "spec.nodeName!="
        seen = int(request.query["resourceVersion"])  # the last one that was there to be seen
        stream = web.StreamResponse()
        await stream.prepare(request)
        while True:
            for version, kind, obj in [event for event in self._events if event[0] > seen]:
                if obj.get("kind") == "Pod":
                    await self.flowing.wait()
                    await stream.write(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
                seen = version
            async with self._news:
                while self._last == seen:
                    await self._news.wait()


def _status(code: int, reason: str, message: str) -> web.Response:
    said = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return web.json_response(said, status=code)


@asynccontextmanager
async def fake_node_api() -> AsyncIterator[tuple[FakeNodeApi, ClientConfig]]:
    server = FakeNodeApi()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield server, ClientConfig(f"http://127.0.0.1:{port}", None, StaticCredentials())
    finally:
        await runner.cleanup()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what will be true; a test that is wrong fails here, late."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "this never became true"
        await asyncio.sleep(0.01)
