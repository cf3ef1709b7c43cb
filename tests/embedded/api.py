"""One way to talk to both servers: the embedded one, called directly, and kube-apiserver, over HTTPS.

The conformance tests see only this interface, so that one test describes both.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol
from urllib.parse import urlencode

from stromboli.embedded.server import ApiServer, Request, Response, WatchResponse
from stromboli.embedded.store import Store
from stromboli.embedded.upkeep import Upkeep

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))


class Transport(Protocol):
    budget_version: str

    def send(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> Answer: ...

    def events(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Iterator[Any]: ...


class Api:
    """Requests with any outcome (`call`), and requests that must succeed (the others)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.budget_version = transport.budget_version

    def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json",
        accept: str = "application/json", **query: object,
    ) -> Answer:  # fmt: skip
        headers = {"accept": accept, "user-agent": "conformance/1"}
        if body is not None:
            headers["content-type"] = kind
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._transport.send(method, path, {name: str(value) for name, value in query.items()}, headers, data)

    def _ok(self, answer: Answer) -> Any:
        assert answer.status < 300, answer
        return answer.body

    def get(self, path: str, **query: object) -> Any:
        return self._ok(self.call("GET", path, **query))  # type: ignore[arg-type]

    def create(self, path: str, body: Any, **query: object) -> Any:
        answer = self.call("POST", path, body, **query)  # type: ignore[arg-type]
        assert answer.status == 201, answer
        return answer.body

    def replace(self, path: str, body: Any) -> Any:
        return self._ok(self.call("PUT", path, body))

    def patch(self, path: str, body: Any, kind: str = MERGE, **query: object) -> Any:
        return self._ok(self.call("PATCH", path, body, kind=kind, **query))  # type: ignore[arg-type]

    def apply(self, path: str, body: Any, manager: str, **query: object) -> Answer:
        return self.call("PATCH", path, body, kind=APPLY, fieldManager=manager, **query)  # type: ignore[arg-type]

    def delete(self, path: str, body: Any = None, **query: object) -> Any:
        return self._ok(self.call("DELETE", path, body, **query))  # type: ignore[arg-type]

    def watch(self, path: str, count: int, *, accept: str = "application/json", **query: object) -> list[Any]:
        """The first events of a watch."""
        asked = {"watch": "true", "timeoutSeconds": "20"} | {name: str(value) for name, value in query.items()}
        events = self._transport.events(path, asked, {"accept": accept})
        found = [event for _, event in zip(range(count), events, strict=False)]  # not one more: it may never come
        assert len(found) == count, found
        return found


class EmbeddedTransport:
    """Calls the server without a socket. Time stands still unless a test moves it."""

    budget_version = "policy/v1"

    def __init__(self, store: Store | None = None) -> None:
        self.now = 1_700_000_000.0
        self.store = store or Store()
        self.server = ApiServer(self.store, random=Random(7), now=self.now)
        self.upkeep = Upkeep(self.server)

    def send(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> Answer:
        outcome = self.server.handle(Request(method, path, query, headers, body), self.now)
        assert isinstance(outcome, Response), outcome
        is_json = outcome.content_type.startswith("application/json")
        return Answer(outcome.status, outcome.json() if is_json else outcome.body.decode())

    def events(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Iterator[Any]:
        outcome = self.server.handle(Request("GET", path, query, headers), self.now)
        assert isinstance(outcome, WatchResponse), outcome
        outcome.watch.is_behind = True
        while outcome.watch.is_behind:
            for line in outcome.watch.poll(self.now):
                yield json.loads(line)

    def settle(self, seconds: float = 0.0) -> None:
        """Let the controllers of the server act."""
        self.now += seconds
        for _ in range(1000):
            if not self.upkeep.turn(self.now):
                return
        raise AssertionError("the controllers never come to an end")


class HttpTransport:
    """kube-apiserver."""

    def __init__(self, port: int, identity: ssl.SSLContext, token: str | None = None) -> None:
        self._port = port
        self._identity = identity
        self._token = token
        has_v1 = self.send("GET", "/apis/policy/v1", {}, {}, b"").status == 200
        self.budget_version = "policy/v1" if has_v1 else "policy/v1beta1"

    def _connect(
        self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes
    ) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=60, context=self._identity)
        if self._token:
            headers = {**headers, "authorization": f"Bearer {self._token}"}
        connection.request(method, f"{path}?{urlencode(query)}" if query else path, body=body or None, headers=headers)
        return connection, connection.getresponse()

    def send(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> Answer:
        connection, response = self._connect(method, path, query, headers, body)
        try:
            data = response.read()
            try:
                return Answer(response.status, json.loads(data))
            except ValueError:
                return Answer(response.status, {"message": data.decode(errors="replace")})
        finally:
            connection.close()

    def events(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Iterator[Any]:
        connection, response = self._connect("GET", path, query, headers, b"")
        try:
            assert response.status == 200, response.read()
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox:1", "env": [{"name": "A", "value": "1"}]}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": containers, **spec},
    }


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels} if labels else {"name": name},
        "data": data,
    }
