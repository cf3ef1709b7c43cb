"""A simple client for tests: one connection per request, dictionaries in and out, no retries.

The tested client is another one, so this one shares no code with it. Every response that is not a success is raised as
an exception with the server's message.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

Answer = TypeVar("Answer")

MERGE = "application/merge-patch+json"


class Refused(Exception):
    """The API server said no; `status` is the HTTP status, `reason` the machine's word for it, such as `NotFound`, and
    `causes` are the fields that are wrong, each with a message."""

    def __init__(self, status: int, reason: str, message: str, causes: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.causes = causes


def causes_in(status: Any) -> list[tuple[str, str]]:
    """The field, "" if none is named, and the message of each cause in a Status."""
    causes = (status.get("details") or {}).get("causes") or ()
    return [(cause.get("field", ""), cause.get("message", "")) for cause in causes]


class Client:
    """Requests as one user. Paths are those of the API, such as `/api/v1/namespaces/default/pods`."""

    def __init__(self, port: int, identity: ssl.SSLContext, token: str | None = None) -> None:
        self.port = port
        self._identity = identity
        self._token = token

    def get(self, path: str, **query: object) -> Any:
        return self._json("GET", path, query=query)

    def list(self, path: str, **query: object) -> list[Any]:
        items: list[Any] = self.get(path, **query)["items"]
        return items

    def create(self, path: str, body: object) -> Any:
        return self._json("POST", path, body)

    def replace(self, path: str, body: object) -> Any:
        return self._json("PUT", path, body)

    def patch(self, path: str, body: object, kind: str = MERGE) -> Any:
        return self._json("PATCH", path, body, kind=kind)

    def delete(self, path: str, **query: object) -> Any:
        return self._json("DELETE", path, query=query)

    def text(self, path: str) -> str:
        """For what is no JSON: health checks and metrics."""
        with self._answer("GET", path) as answer:
            return answer.read().decode()

    def watch(self, path: str, **query: object) -> Generator[Any]:
        """The events of a watch, until the server ends it; close the iterator to end it earlier."""
        with self._answer("GET", path, query={"watch": "true", **query}) as answer:
            while line := answer.readline():
                yield json.loads(line)

    def _json(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = "application/json",
        query: dict[str, object] | None = None,
    ) -> Any:
        with self._answer(method, path, body, kind=kind, query=query) as answer:
            return json.loads(answer.read())

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = "application/json",
        query: dict[str, object] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        headers = {"Accept": "application/json, */*"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = kind
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self._identity)
        try:
            connection.request(
                method,
                f"{path}?{urlencode(query)}" if query else path,
                body=None if body is None else json.dumps(body),
                headers=headers,
            )
            with connection.getresponse() as answer:
                if answer.status >= 300:
                    raise _refusal(answer.status, answer.read())
                yield answer
        finally:
            connection.close()


def _refusal(status: int, body: bytes) -> Refused:
    try:
        said = json.loads(body)
        return Refused(status, said.get("reason", ""), said.get("message", ""), causes_in(said))
    except (ValueError, AttributeError):  # not every layer of the server answers with a Status
        return Refused(status, http.client.responses.get(status, ""), body.decode(errors="replace").strip())


def eventually(check: Callable[[], Answer], timeout: float = 120, every: float = 0.1) -> Answer:
    """What `check` answers, as soon as that is something true; an assertion that fails in it is asked again."""
    deadline = time.monotonic() + timeout
    while True:
        last_try = time.monotonic() >= deadline
        try:
            answer = check()
            assert answer, f"not within {timeout:g} seconds; the last answer was {answer!r}"
            return answer
        except AssertionError:
            if last_try:
                raise
        time.sleep(every)
