"""Requests that two readers could understand differently are refused, and nothing after them is answered."""

from __future__ import annotations

import re

import pytest

from listeners.servers import NAMES, listening, play

HIDDEN = "GET /hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
TRICKS = {
    "a length and chunks": ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", f"0\r\n\r\n{HIDDEN}"),
    "chunks and a length": ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", f"0\r\n\r\n{HIDDEN}"),
    "two lengths": ("Content-Length: 0\r\nContent-Length: 43\r\n", HIDDEN),
    "equal lengths": ("Content-Length: 0\r\nContent-Length: 0\r\n", HIDDEN),
    "a list of lengths": ("Content-Length: 0, 43\r\n", HIDDEN),
    "a signed length": ("Content-Length: +0\r\n", HIDDEN),
    "a length in hex": ("Content-Length: 0x2b\r\n", HIDDEN),
    "an unknown coding": ("Transfer-Encoding: xchunked\r\n", f"0\r\n\r\n{HIDDEN}"),
    "a coding twice": ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", f"0\r\n\r\n{HIDDEN}"),
    "a space before the colon": ("Transfer-Encoding : chunked\r\n", f"0\r\n\r\n{HIDDEN}"),
    "a folded header": ("X: y\r\n Transfer-Encoding: chunked\r\n", HIDDEN),
    "a bare line feed": ("X: y\nContent-Length: 43\r\n", HIDDEN),
    "a bare carriage return": ("X: y\rContent-Length: 43\r\n", HIDDEN),
    "a null": ("X: y\0z\r\n", HIDDEN),
    "a bad chunk size": ("Transfer-Encoding: chunked\r\n", f"0x0\r\n\r\n{HIDDEN}"),
    "a bare line feed in a chunk": ("Transfer-Encoding: chunked\r\n", f"1;a\nx\r\n0\r\n\r\n{HIDDEN}"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("trick", TRICKS)
def test_one_request_stays_one_request(name: str, trick: str) -> None:
    headers, body = TRICKS[trick]

    async def story() -> None:
        async with listening(name) as listener:
            head = f"POST {listener.data} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n"
            answer = await listener.send((head + body).encode("latin-1"))
            statuses = re.findall(rb"HTTP/1\.[01] (\d+) ", answer)
            assert len(statuses) <= 1, f"a second request was found: {answer!r}"
            assert all(b"400" <= status < b"500" for status in statuses)
            assert await listener.is_healthy()

    play(story)


@pytest.mark.parametrize("name", NAMES)
def test_extensions_of_chunks_are_limited(name: str) -> None:
    async def story() -> None:
        async with listening(name) as listener:
            head = listener.request("Transfer-Encoding: chunked", method="POST")
            answer = await listener.send(head, b"1;" + b"x" * 200_000 + b"\r\na\r\n0\r\n\r\n")
            assert re.findall(rb"HTTP/1\.[01] (\d)", answer) in ([b"4"], [])
            assert await listener.is_healthy()

    play(story)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("headers", [["X: y"] * 2000, [f"X: {'y' * 200_000}"], [f"X{n}: y" for n in range(110)]])
def test_large_heads_are_refused(name: str, headers: list[str]) -> None:
    async def story() -> None:
        async with listening(name) as listener:
            assert await listener.status(listener.request(*headers)) in (400, 431)
            assert await listener.is_healthy()

    play(story)
