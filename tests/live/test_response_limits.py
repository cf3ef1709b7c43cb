"""What a server may send: compressed bodies as their standard has them, and never more than is read."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from pathlib import Path

import pytest

from kube.certificates import Authority
from live.scripted_server import Play, Received, ScriptedServer, answer
from stromboli.kube.client import PODS, Client, ClientConfig, Failure, content_encoding, http_connection, wire
from stromboli.kube.client import proxied_session as proxied
from stromboli.kube.client.auth import StaticCredentials
from stromboli.kube.client.content_encoding import LARGEST_BODY, BodyTooLarge, BrokenEncoding, ContentDecoder
from stromboli.kube.client.errors import LONGEST_PAUSE, failure_from_status

MEMBERS = gzip.compress(b'{"major": "1",') + gzip.compress(b"") + gzip.compress(b' "minor": "20"}')
TEXT = b'{"major": "1", "minor": "20"}'
WHOLE = gzip.compress(TEXT)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def always(data: bytes) -> Play:
    async def play(received: Received, writer: asyncio.StreamWriter) -> bool:
        for start in range(0, len(data), 200_000):
            writer.write(data[start : start + 200_000])
            await writer.drain()
        return True

    return play


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    text = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + text + b"0\r\n\r\n"


def client_of(server: ScriptedServer, through_proxy: bool) -> Client:
    """Both ways to a server: our own connections, and those through a proxy, which aiohttp makes."""
    config = server.config()
    if through_proxy:
        # Not plain ASCII, so that the other way is taken; the server is the same.
        config = ClientConfig(f"https://127.0.0.1:{server.port}/ü", config.ssl, StaticCredentials())
    return Client(config, timeout=60.0)


def outcome(authority: Authority, data: bytes, *, through_proxy: bool) -> object:
    async def ask() -> object:
        async with ScriptedServer(authority, always(data)) as server, client_of(server, through_proxy) as client:
            try:
                return await client.server_version()
            except Failure as failure:
                return failure

    return asyncio.run(ask())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stromboli.kube.client.client.ATTEMPTS", 1)


@pytest.mark.parametrize("through_proxy", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(answer(MEMBERS, "Content-Encoding: gzip"), id="members"),
        pytest.param(answer(WHOLE, "Content-Encoding: GZIP"), id="upper case"),
        pytest.param(answer(WHOLE, "Content-Encoding: x-gzip"), id="old name"),
        pytest.param(answer(zlib.compress(TEXT), "Content-Encoding: deflate"), id="deflate"),
        pytest.param(chunked(MEMBERS, 1), id="byte by byte"),
    ],
)
def test_compressed_bodies_are_decoded_as_their_standard_says(
    data: bytes, through_proxy: bool, authority: Authority
) -> None:
    assert outcome(authority, data, through_proxy=through_proxy) == (1, 20)


@pytest.mark.parametrize("through_proxy", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(WHOLE[:-1], id="without the end of its check"),
        pytest.param(WHOLE[:-8], id="without its check"),
        pytest.param(WHOLE[:20], id="cut"),
        pytest.param(WHOLE[:5], id="cut in its header"),
        pytest.param(MEMBERS[: -len(gzip.compress(b' "minor": "20"}')) + 4], id="cut in a later member"),
        pytest.param(WHOLE[:-6] + b"\0\0" + WHOLE[-4:], id="wrong check"),
        pytest.param(WHOLE + b"more", id="something behind it"),
        pytest.param(b'{"major": "1", "minor": "20"}', id="not compressed"),
    ],
)
def test_a_body_that_breaks_off_is_an_error(body: bytes, through_proxy: bool, authority: Authority) -> None:
    failure = outcome(authority, answer(body, "Content-Encoding: gzip"), through_proxy=through_proxy)
    assert isinstance(failure, Failure)
    assert failure.message.endswith("is not what its Content-Encoding says, or breaks off")


@pytest.mark.parametrize("through_proxy", [False, True])
@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_an_unknown_encoding_is_an_error(encoding: str, through_proxy: bool, authority: Authority) -> None:
    data = answer(WHOLE, f"Content-Encoding: {encoding}")
    failure = outcome(authority, data, through_proxy=through_proxy)
    assert isinstance(failure, Failure)
    assert failure.message.endswith("is not what its Content-Encoding says, or breaks off")


@pytest.mark.parametrize("through_proxy", [False, True])
def test_three_hundred_megabytes_in_three_hundred_kilobytes_are_refused(
    through_proxy: bool, authority: Authority
) -> None:
    bomb = gzip.compress(bytes(300 << 20))
    assert len(bomb) < 400_000
    data = answer(bomb, "Content-Encoding: gzip")
    tracemalloc.start()
    try:
        failure = outcome(authority, data, through_proxy=through_proxy)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(failure, Failure)
    assert (failure.status, failure.reason) == (0, "TooLarge")
    assert most < 2 * LARGEST_BODY  # the parts, and at most once more when they are put together


def test_a_decoder_makes_no_more_than_it_may() -> None:
    bomb = gzip.compress(bytes(1_000_000))
    assert len(ContentDecoder("gzip").decode(bomb, 1_000_000)) == 1_000_000
    with pytest.raises(BodyTooLarge):
        ContentDecoder("gzip").decode(bomb, 999_999)
    with pytest.raises(BodyTooLarge):
        ContentDecoder("gzip").decode(gzip.compress(b"x") * 100, 99)
    empty = ContentDecoder("gzip")
    assert empty.decode(gzip.compress(b"") * 1000, 0) == b""
    empty.finish()
    ContentDecoder("gzip").finish()  # a response without a body
    with pytest.raises(BrokenEncoding):
        ContentDecoder("br")


@pytest.mark.parametrize("through_proxy", [False, True])
def test_a_response_without_end_is_refused(
    through_proxy: bool, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (http_connection, proxied, content_encoding):
        monkeypatch.setattr(module, "LARGEST_BODY", 1 << 20)
    for data in (
        answer(bytes((1 << 20) + 1)),
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + bytes(3 << 20),
        chunked(gzip.compress(bytes(2 << 20)), 100),
    ):
        failure = outcome(authority, data, through_proxy=through_proxy)
        assert isinstance(failure, Failure)
        assert failure.reason == "TooLarge"


def test_headers_without_end_are_refused(authority: Authority) -> None:
    data = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %b\r\n" % (number, b"y" * 10_000) for number in range(500))
    failure = outcome(authority, data, through_proxy=False)
    assert isinstance(failure, Failure)
    assert failure.reason == "TooLarge"
    endless = b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * (5 << 20)
    failure = outcome(authority, endless, through_proxy=False)
    assert isinstance(failure, Failure)
    assert failure.reason == "TooLarge"


@pytest.mark.parametrize(
    "around",
    [b"1d;%b\r\n" + TEXT + b"\r\n0\r\n\r\n", b"1d\r\n" + TEXT + b"\r\n0\r\nX: %b\r\n\r\n"],
    ids=["chunk", "trailer"],
)
def test_what_is_around_a_body_has_a_limit(around: bytes, authority: Authority) -> None:
    """The extensions of a chunk, and the headers behind the last one. Nobody reads either; before, both were taken for
    as long as a server sent them, with all that came of a header in memory."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = head + around % (b"x" * (3 << 20))
    failure = outcome(authority, data, through_proxy=False)
    assert isinstance(failure, Failure)
    assert failure.reason == "TooLarge"


def test_a_page_that_is_too_large_is_read_in_smaller_parts(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a tenant with 40 pods of 100 kB each, and a limit of 1 MB, the list is complete. 500 // 8 = 62 are still
    too many, 62 // 8 = 7 fit."""
    monkeypatch.setattr(http_connection, "LARGEST_BODY", 1_000_000)
    limits: list[int] = []

    async def play(received: Received, writer: asyncio.StreamWriter) -> bool:
        query = dict(part.split("=") for part in received.target.partition("?")[2].split("&"))
        start, limit = int(query.get("continue", "0")), int(query["limit"])
        limits.append(limit)
        names = range(start, min(40, start + limit))
        items = [{"metadata": {"name": f"p{number}", "annotations": {"a": "x" * 100_000}}} for number in names]
        more = {"continue": str(start + limit)} if start + limit < 40 else {}
        writer.write(answer(json.dumps({"metadata": {"resourceVersion": "1", **more}, "items": items}).encode()))
        return True

    async def story() -> list[str]:
        async with ScriptedServer(authority, play) as server, server.client() as client:
            return [one.metadata.name for one in (await client.list(PODS)).items]

    assert asyncio.run(story()) == [f"p{number}" for number in range(40)]
    assert limits[:3] == [500, 62, 7]


def test_a_watch_with_an_object_without_end_is_a_failure(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LARGEST_LINE", 1 << 20)

    async def story() -> Failure:
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
        async with ScriptedServer(authority, always(head + b"x" * (4 << 20))) as server, server.client() as client:
            with pytest.raises(Failure) as caught:
                async for _ in client.watch(PODS, "1"):
                    pass
            return caught.value

    assert asyncio.run(story()).reason == "TooLarge"


def test_a_refused_watch_is_not_read_without_end(authority: Authority) -> None:
    async def story() -> Failure:
        head = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n"
        async with ScriptedServer(authority, always(head + b"x" * (8 << 20))) as server, server.client() as client:
            with pytest.raises(Failure) as caught:
                async for _ in client.watch(PODS, "1"):
                    pass
            return caught.value

    assert asyncio.run(story()).status == 403


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"items": [' + b'{"a":' * 50_000])
def test_a_body_that_is_nested_too_deeply_is_a_failure(body: bytes, authority: Authority, tmp_path: Path) -> None:
    failure = outcome(authority, answer(body), through_proxy=False)
    assert isinstance(failure, Failure)
    assert failure.message == "the response is not a Kubernetes object"
    refused = outcome(authority, answer(body, status="403 Forbidden"), through_proxy=False)
    assert isinstance(refused, Failure)
    assert refused.status == 403


def most_memory(authority: Authority, data: bytes, *, through_proxy: bool = False) -> tuple[object, int]:
    tracemalloc.start()
    try:
        found = outcome(authority, data, through_proxy=through_proxy)
        return found, tracemalloc.get_traced_memory()[1] - len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("through_proxy", [False, True])
def test_a_body_in_parts_of_one_byte_takes_no_more_than_a_whole_one(through_proxy: bool, authority: Authority) -> None:
    """An object for each byte would take 40 MB and more."""
    text = b'{"major": "1",' + b" " * 600_000 + b'"minor": "20"}'
    parts = b"".join(b"1\r\n%c\r\n" % byte for byte in text)
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"
    found, most = most_memory(authority, data, through_proxy=through_proxy)
    assert found == (1, 20)
    assert most < 25 * len(text)


def test_a_line_of_a_watch_in_parts_of_one_byte_takes_no_more_than_a_whole_one() -> None:
    lines = wire.LineSplitter()
    tracemalloc.start()
    try:
        for _ in range(500_000):
            assert not list(lines.feed(b"x"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2_000_000
    assert list(lines.feed(b"y\nz\n")) == [b"x" * 500_000 + b"y", b"z"]
    lines.end()


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(b"1," * 3_000_000 + b"1", id="numbers"),
        pytest.param(b"{}," * 2_000_000 + b"{}", id="objects"),
        pytest.param(b'{"spec":{"containers":[' + b"{}," * 2_000_000 + b"{}]}}", id="one object"),
    ],
)
def test_a_response_of_very_many_values_is_refused_before_it_is_decoded(items: bytes, authority: Authority) -> None:
    """Decoded, they would take a gigabyte."""
    body = b'{"metadata": {"resourceVersion": "1"}, "items": [' + items + b"]}"

    async def story() -> Failure:
        async with ScriptedServer(authority, always(answer(body))) as server, server.client() as client:
            with pytest.raises(Failure) as caught:
                await client.list(PODS)
            return caught.value

    tracemalloc.start()
    try:
        failure = asyncio.run(story())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert failure.reason == "TooLarge"
    assert most < 8 * len(body)
    with pytest.raises(Failure, match="more values than are read"):
        wire.decode_object(items, PODS)


@pytest.mark.parametrize("items", [[], [{"metadata": {"name": "p"}}]])
def test_a_list_that_always_goes_on_ends(
    items: list[object], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stromboli.kube.client.client.MOST_OBJECTS", 50)
    asked = 0

    async def play(received: Received, writer: asyncio.StreamWriter) -> bool:
        nonlocal asked
        asked += 1
        metadata = {"resourceVersion": "1", "continue": f"t{asked}"}
        writer.write(answer(json.dumps({"metadata": metadata, "items": items}).encode()))
        return asked < 1000

    async def story() -> Failure:
        async with ScriptedServer(authority, play) as server, server.client() as client:
            with pytest.raises(Failure) as caught:
                await client.list(PODS)
            return caught.value

    assert asyncio.run(story()).message == "the list of pods has no end, or more objects than are read"
    assert asked == (51 if items else 101)


@pytest.mark.parametrize("asked", ["86400", "9" * 4000, "0"])
def test_a_server_cannot_make_us_wait_for_long(asked: str, authority: Authority) -> None:
    detail = b'{"kind": "Status", "details": {"retryAfterSeconds": 1e300}}'
    for body in (b"", detail):
        data = answer(body, f"Retry-After: {asked}", status="429 Too Many Requests")
        failure = outcome(authority, data, through_proxy=False)
        assert isinstance(failure, Failure)
        assert failure.retry_after == (0.0 if asked == "0" else LONGEST_PAUSE)
    assert failure_from_status(detail).retry_after == LONGEST_PAUSE
