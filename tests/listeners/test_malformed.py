"""The first requests of the attack in benchmarks/attacks.py, to each listener: no error of ours, always health."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref

import pytest

from benchmarks.test_benchmarks import load
from listeners.servers import LOOPBACK, NAMES, TOKEN, Listener, listening, play
from stromboli.listeners import Connection, gate, memory

attacks = load("attacks")
PATHS = {"api-server": attacks.API_PATHS, "page": attacks.PAGE_PATHS, "probes": attacks.PROBE_PATHS}
REQUESTS = 150


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("with_token", [False, True])
def test_malformed_requests_are_no_error_of_ours(name: str, with_token: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with listening(name) as listener:
            target = attacks.Listener(name, listener.port, TOKEN, PATHS[name], listener.health)
            for number in range(REQUESTS):
                data = attacks.malformed(random.Random(f"7:{number}"), target, with_token=with_token)
                statuses = await attacks.ask(target, data, patience=0.05)
                assert not any(status.startswith("5") for status in statuses), data
            assert await listener.is_healthy()

    play(story)
    assert not any(record.exc_info for record in caplog.records)
    assert len(caplog.records) < 20


@pytest.mark.parametrize("name", NAMES)
def test_a_closed_connection_is_freed_at_once(name: str) -> None:
    """Without the collector, which our processes run rarely: also after requests that could not be read or answered."""

    async def story() -> None:
        async with listening(name) as listener:
            unreadable = (b"", b"GET / HT", b"GET / HTTP/1.1\r\nX : y\r\n\r\n")
            unknown = (listener.request(method="DELETE"), listener.request(path="/api/none"))
            gc.collect()
            gc.disable()
            try:
                for data in (*unreadable, *unknown, listener.request()):
                    await touch(listener, data)
                async with asyncio.timeout(30):
                    while any(isinstance(one, Connection) for one in gc.get_objects()):
                        await asyncio.sleep(0.01)
            finally:
                gc.enable()

    play(story)


def test_what_is_left_of_connections_that_were_open_for_long_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transport of a connection refers to itself. When it is closed after two collections, it is old garbage, which
    our processes collect once an hour: before, a crowd that came again and again left some KiB each time and each."""
    monkeypatch.setattr(gate, "_MANY_CLOSED", 4)
    monkeypatch.setattr(gate, "_VERY_MANY_CLOSED", 8)
    asked: list[bool] = []

    async def story() -> None:
        tidied = asyncio.Event()

        def note(*, also_old: bool) -> None:
            asked.append(also_old)
            tidied.set()

        monkeypatch.setattr(gate, "give_back_memory", note)
        async with listening("probes") as listener:
            for _ in range(4):
                tidied.clear()
                for _ in range(4):
                    await touch(listener, b"")
                await tidied.wait()

    play(story)
    assert asked == [False, True, False, True]


@pytest.mark.parametrize("also_old", [False, True])
def test_old_garbage_is_found_only_if_it_is_looked_for(also_old: bool) -> None:
    class Loop:
        itself: object = None

    one = Loop()
    one.itself = one
    left = weakref.ref(one)
    gc.collect()  # it is old now
    gc.disable()
    try:
        del one
        memory.give_back_memory(also_old=also_old)
        assert (left() is None) == also_old
    finally:
        gc.enable()


async def touch(listener: Listener, data: bytes) -> None:
    _, writer = await asyncio.open_connection(LOOPBACK, listener.port)
    writer.write(data)
    await asyncio.sleep(0.05)
    writer.transport.abort()
