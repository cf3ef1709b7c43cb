"""Plans and runs over HTTP: who may ask for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from listeners.servers import LOOPBACK, TOKEN, Listener, play
from stromboli.kube.client import Client, Failure
from stromboli.kube.descheduler import DeschedulerApi, DeschedulerComponent
from stromboli.kube.runtime import HealthServer

PLAN, APPLY = "/descheduler/plan", "/descheduler/apply"


class Component:
    """Counts what it is asked to do."""

    profiles = ()

    def __init__(self) -> None:
        self.runs = 0

    def not_ready_reason(self) -> str | None:
        return None

    async def plan(self, *_: object) -> list[Any]:
        return []

    async def apply(self, *_: object) -> list[Any]:
        self.runs += 1
        return []

    def nodes(self) -> dict[str, Any]:
        return {}


class ApiServer:
    """Knows two tokens: of a reader, who may list pods, and of an admin, who may evict them as well."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = asyncio.Event()
        self.answer.set()

    async def request(self, method: str, path: str, *, body: bytes) -> bytes:
        self.asked += 1
        await self.answer.wait()
        spec = msgspec.json.decode(body)["spec"]
        if path.endswith("/tokenreviews"):
            known = spec["token"] in ("reader", "admin")
            return msgspec.json.encode({"status": {"authenticated": known, "user": {"username": spec["token"]}}})
        if spec["user"] not in ("reader", "admin"):
            raise Failure("nobody")
        wanted = spec["resourceAttributes"]
        allowed = wanted == {"verb": "list", "resource": "pods"} or spec["user"] == "admin"
        return msgspec.json.encode({"status": {"allowed": allowed}})


@asynccontextmanager
async def descheduler() -> AsyncIterator[tuple[Listener, Component, ApiServer]]:
    component, api = Component(), ApiServer()
    server = HealthServer(LOOPBACK, 0, CollectorRegistry(), token=TOKEN)
    DeschedulerApi(cast(DeschedulerComponent, component), cast(Client, api)).register(server)
    running = asyncio.create_task(server.run())
    await server.listening.wait()
    try:
        yield Listener("descheduler", server.port, PLAN, "/healthz", server), component, api
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


Story = Callable[[], Awaitable[None]]


def test_a_page_of_another_site_can_order_nothing() -> None:
    """A simple POST: no token, a foreign Host and a foreign Origin. The browser runs on the same machine."""

    async def story() -> None:
        async with descheduler() as (listener, component, api):
            for headers in (
                ["Host: evil.example", "Origin: http://evil.example", "Content-Type: text/plain"],
                ["Origin: http://evil.example"], ["Origin: null"], ["Host: evil.example"], [],
            ):  # fmt: skip
                for path, method in ((APPLY, "POST"), (PLAN, "GET")):
                    sent = listener.request(*headers, path=path, method=method, token="")
                    assert await listener.status(sent) == (403 if headers else 401)
            with_token = listener.request("Origin: http://evil.example", path=APPLY, method="POST")
            assert await listener.status(with_token) == 403
            assert (component.runs, api.asked) == (0, 0)

    play(story)


@pytest.mark.parametrize(
    ("token", "plan", "apply"),
    [(TOKEN, 200, 200), ("admin", 200, 200), ("reader", 200, 403), ("made-up", 401, 401), ("t\u00f6ken", 401, 401)],
)
def test_a_token_is_that_of_the_process_or_of_somebody_with_the_right(token: str, plan: int, apply: int) -> None:
    async def story() -> None:
        async with descheduler() as (listener, component, _):
            assert await listener.status(listener.request(path=PLAN, token=token)) == plan
            assert await listener.status(listener.request(path=APPLY, method="POST", token=token)) == apply
            assert component.runs == (apply == 200)

    play(story)


def test_made_up_tokens_do_not_flood_the_api_server() -> None:
    async def story() -> None:
        async with descheduler() as (listener, _, api):
            api.answer.clear()
            sent = [asyncio.create_task(listener.status(listener.request(token=f"t{number}"))) for number in range(50)]
            while sum(task.done() for task in sent) < 46:
                await asyncio.sleep(0.01)
            assert api.asked == 4
            api.answer.set()
            assert sorted(await asyncio.gather(*sent)) == [401] * 4 + [429] * 46

    play(story)


def test_the_connection_of_somebody_with_the_right_is_kept() -> None:
    """300 strangers take all 128 places but those of two users, whose tokens the API server has verified."""

    async def story() -> None:
        async with descheduler() as (listener, _, _):
            users = []
            for token in ("reader", "admin", "made-up"):
                reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
                writer.write(listener.request(token=token))
                await reader.readuntil(b"}")
                users.append((reader, writer))
            strangers = [await asyncio.open_connection(LOOPBACK, listener.port) for _ in range(300)]
            for reader, writer in users[:2]:
                writer.write(listener.request(path=listener.health))
                assert (await reader.readuntil(b"ok")).count(b"HTTP/1.1 200") == 1
            assert await users[2][0].read() == b"", "a wrong token keeps no place"
            for _, writer in [*users, *strangers]:
                writer.close()

    play(story)
