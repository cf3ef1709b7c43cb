"""The page on a socket: who gets what, with which headers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from embedded.test_up import JOBS, api_of, volcano_job
from stromboli.console.up.cluster import PagePlan, Plan, run_cluster
from stromboli.console.up.machines import Machines
from stromboli.errors import UserError
from stromboli.kube.client import Client
from stromboli.kube.page_server.document_changes import encode_event
from stromboli.kube.page_server.http_server import ActionRequest, PageHttpServer, PageOptions
from stromboli.page import ASSETS

TOKEN = "a-token-of-some-length"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


async def why(job: str) -> bytes | None:
    return b'{"reasons": []}' if job == "ns/j" else None


async def what_if(job: str) -> AsyncGenerator[bytes | None, None]:
    if job != "ns/j":
        yield None
        return
    yield b'{"trying": "as it is"}'
    yield b'{"counterfactuals": []}'


Script = Callable[[aiohttp.ClientSession, PageHttpServer], Awaitable[None]]


def serve(script: Script, *, first: bytes | None = b"event: document\ndata: {}\n\n", may_write: bool = False) -> None:
    async def act(wanted: ActionRequest) -> tuple[HTTPStatus, str]:
        return HTTPStatus.CREATED, f"{wanted.action} {wanted.job}"

    async def main() -> None:
        server = PageHttpServer(PageOptions(TOKEN, may_write=may_write), lambda: first, why, what_if, act)
        await server.start()
        try:
            async with aiohttp.ClientSession(server.url) as session:
                await script(session, server)
        finally:
            await server.stop()

    asyncio.run(main())


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """Name and content of each event; comments are skipped."""
    text = b""
    async for piece in response.content.iter_any():
        text += piece
        *whole, text = text.split(b"\n\n")
        for one in whole:
            fields = dict(line.split(": ", 1) for line in one.decode().splitlines())
            if "data" in fields:
                yield fields["event"], json.loads(fields["data"])


def test_files_are_public_and_carry_the_policy() -> None:
    async def script(session: aiohttp.ClientSession, server: PageHttpServer) -> None:
        for name, kind in [("", "text/html"), *ASSETS.items()]:
            async with session.get(f"/{name}") as response:
                assert (response.status, response.content_type) == (200, kind)
                policy = response.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
                assert "unsafe" not in policy
                assert response.headers["X-Content-Type-Options"] == "nosniff"
        for missing in ("/document.py", "/..%2fdocument.py", "/assets/", "/api"):
            async with session.get(missing) as response:
                assert response.status == 404
                assert "Content-Security-Policy" in response.headers

    serve(script)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}])
def test_data_needs_the_token(headers: dict[str, str]) -> None:
    async def script(session: aiohttp.ClientSession, server: PageHttpServer) -> None:
        for path in ("/api/stream", "/api/why", "/api/actions", "/api/other"):
            method = "POST" if path == "/api/actions" else "GET"
            async with session.request(method, path, headers=headers) as response:
                assert response.status == 401
                assert (await response.json())["message"] == "The token is missing or wrong."

    serve(script, may_write=True)


def test_a_stream_begins_with_the_document_and_goes_on_with_changes() -> None:
    async def script(session: aiohttp.ClientSession, server: PageHttpServer) -> None:
        async with session.get("/api/stream", headers=AUTHORIZED) as response:
            assert response.content_type == "text/event-stream"
            assert "Content-Security-Policy" in response.headers
            seen = events(response)
            assert (await anext(seen))[0] == "document"
            server.publish(encode_event("change", {"end": 1.0}))
            assert await anext(seen) == ("change", {"end": 1.0})
            assert server.browsers == 1

    serve(script)


def test_a_browser_that_does_not_read_must_start_again() -> None:
    async def script(session: aiohttp.ClientSession, server: PageHttpServer) -> None:
        async with session.get("/api/stream", headers=AUTHORIZED) as response:
            seen = events(response)
            await anext(seen)
            for number in range(30):  # without a pause: the stream cannot send anything in between
                server.publish(encode_event("change", {"end": number}))
            assert server.browsers == 0
            assert [content["end"] async for _, content in seen][-1] < 29

    serve(script)


def test_actions_are_refused_unless_writes_are_allowed() -> None:
    wanted = json.dumps({"job": "ns/j", "action": "suspend"})

    def script(status: int, message: str, body: str = wanted) -> Script:
        async def post(session: aiohttp.ClientSession, server: PageHttpServer) -> None:
            async with session.post("/api/actions", headers=AUTHORIZED, data=body) as response:
                assert response.status == status
                assert message in (await response.json())["message"]

        return post

    serve(script(403, "--web-write"))
    serve(script(201, "suspend ns/j"), may_write=True)
    serve(script(400, "cannot be read", "{"), may_write=True)
    serve(script(413, "", "x" * 20_000), may_write=True)


def test_a_job_is_explained() -> None:
    async def script(session: aiohttp.ClientSession, server: PageHttpServer) -> None:
        async with session.get("/api/why?job=ns/j", headers=AUTHORIZED) as response:
            assert (response.status, await response.json()) == (200, {"reasons": []})
        async with session.get("/api/what-if?job=ns/j", headers=AUTHORIZED) as response:
            steps = [json.loads(line) for line in (await response.read()).splitlines()]
            assert (response.status, steps) == (200, [{"trying": "as it is"}, {"counterfactuals": []}])
        for question in ("why", "what-if"):
            async with session.get(f"/api/{question}?job=ns/other", headers=AUTHORIZED) as response:
                assert (response.status, (await response.json())["message"]) == (404, "There is no job ns/other.")
            async with session.get(f"/api/{question}?job=ns/j") as response:
                assert response.status == 401

    serve(script)


def test_a_port_that_is_taken_is_an_error_for_the_user() -> None:
    async def main() -> None:
        async def act(wanted: ActionRequest) -> tuple[HTTPStatus, str]:
            raise AssertionError

        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = PageHttpServer(PageOptions(TOKEN, port=taken.getsockname()[1]), lambda: None, why, what_if, act)
            try:
                with pytest.raises(UserError, match="--web-port"):
                    await server.start()
            finally:
                await server.stop()

    asyncio.run(main())


def test_the_page_of_a_whole_cluster(tmp_path: Path) -> None:
    """A Job appears, runs, and is suspended from the page."""
    addresses: list[str] = []
    plan = Plan(
        folder=tmp_path, persistent=False, period=0.2,
        machines=[Machines(["node-0"], {"cpu": "4", "memory": "16Gi", "pods": "110"})],
        page=PagePlan(may_write=True, on_ready=addresses.append),
    )  # fmt: skip

    async def main() -> None:
        stop = asyncio.Event()

        async def work(client: Client) -> None:
            try:
                await asyncio.wait_for(look(), 60)
            finally:
                stop.set()

        await run_cluster(plan, stop, [work])

    async def look() -> None:
        url, _, token = addresses[0].partition("#token=")
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(url, headers=headers) as session, session.get("/api/stream") as response:
            seen = events(response)
            name, first = await anext(seen)
            assert (name, first["canWrite"]) == ("document", True)
            assert first["document"]["live"] is True
            api = await asyncio.to_thread(api_of, tmp_path / "kubeconfig")
            await asyncio.to_thread(api.create, JOBS, volcano_job("sleep", 2, ["sleep", "600"]))
            await until(seen, "Running")
            async with session.get("/api/why?job=default/sleep") as answer:
                assert (await answer.json())["job"]["phase"] == "Running"
            wanted = {"job": "default/sleep", "action": "suspend"}
            async with session.post("/api/actions", json=wanted) as answer:
                assert answer.status == 201
            await until(seen, "Aborting")
            async with session.post("/api/actions", json={"job": "default/other", "action": "suspend"}) as answer:
                assert answer.status == 404

    async def until(seen: AsyncIterator[tuple[str, Any]], phase: str) -> None:
        async for _, change in seen:
            for job in change.get("rows", {}).get("jobs", {}).get("set", ()):
                if (job["key"], job["phase"]) == ("default/sleep", phase):
                    return

    asyncio.run(main())
