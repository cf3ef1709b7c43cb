"""The loop, and what may not happen in it."""

from __future__ import annotations

import asyncio
import random
import time
from contextvars import copy_context

import pytest

from .simulated.guard import nothing_real
from .simulated.loop import OWNER, Owner, Stuck, VirtualLoop
from .simulated.network import Network, Wire


def test_hours_pass_at_once_and_in_order() -> None:
    loop, said = VirtualLoop(), []

    async def sleep(hours: int) -> None:
        await asyncio.sleep(3600.0 * hours)
        said.append((hours, round(loop.time() / 3600)))

    async def main() -> None:
        await asyncio.gather(sleep(3), sleep(1), sleep(2))

    loop.run_until_complete(main())
    assert said == [(1, 1), (2, 2), (3, 3)]


def _process(loop: VirtualLoop, owner: Owner, said: list[str]) -> None:
    async def main() -> None:
        try:
            for number in range(100):
                said.append(f"{number}")
                await asyncio.sleep(1.0)
        finally:
            said.append("cleaned up")

    context = copy_context()
    context.run(OWNER.set, owner)
    context.run(lambda: loop.create_task(main()))


async def _until(when: float) -> None:
    await asyncio.sleep(when - asyncio.get_running_loop().time())


def test_a_killed_process_does_not_even_clean_up() -> None:
    loop, owner, said = VirtualLoop(), Owner("one"), []
    _process(loop, owner, said)
    loop.run_until_complete(_until(2.5))
    owner.is_dead = True
    loop.run_until_complete(_until(50.0))
    assert said == ["0", "1", "2"]
    owner.is_dead = False
    for task in owner.tasks:
        task.cancel()
    loop.run_until_complete(_until(51.0))


def test_a_frozen_process_goes_on_later_and_reads_before_its_timers() -> None:
    loop, owner, said = VirtualLoop(), Owner("one"), []
    _process(loop, owner, said)
    loop.run_until_complete(_until(2.5))
    owner.is_frozen = True
    loop.run_until_complete(_until(10.0))
    assert said == ["0", "1", "2"]
    context = copy_context()
    context.run(OWNER.set, owner)
    loop.call_soon(said.append, "an answer", context=context)
    loop.run_until_complete(_until(10.5))
    loop.thaw(owner)
    loop.run_until_complete(_until(11.0))
    assert said == ["0", "1", "2", "an answer", "3"]
    for task in owner.tasks:
        task.cancel()
    loop.run_until_complete(_until(12.0))


class _NoServer:
    def received(self, data: bytes) -> None:
        return

    def lost(self) -> None:
        return


class _Reader(asyncio.Protocol):
    def __init__(self) -> None:
        self.read = b""

    def data_received(self, data: bytes) -> None:
        self.read += data


def test_who_is_frozen_while_it_reads_goes_on_with_the_same_bytes() -> None:
    loop, owner, reader = VirtualLoop(), Owner("one"), _Reader()
    context = copy_context()
    context.run(OWNER.set, owner)
    wire = Wire(Network(loop, random.Random(1), lambda wire: _NoServer()), owner, reader, context)
    owner.set_trap(2, lambda: setattr(owner, "is_frozen", True))
    for word in (b"one ", b"two ", b"three "):
        wire._arrive_down(word)  # all at once, as after a partition
    loop.run_until_complete(_until(1.0))
    assert reader.read == b"one "
    wire._arrive_down(b"four")
    loop.thaw(owner)
    loop.run_until_complete(_until(2.0))
    assert reader.read == b"one two three four"


def test_versions_of_python_hear_of_an_event_in_the_same_order() -> None:
    loop, said = VirtualLoop(), []

    async def plain(event: asyncio.Event) -> None:
        await event.wait()
        said.append("plain")

    async def patient(event: asyncio.Event) -> None:
        await asyncio.wait_for(event.wait(), 5.0)
        said.append("patient")

    async def main() -> None:
        event = asyncio.Event()
        waiting = asyncio.gather(patient(event), plain(event))
        await asyncio.sleep(1.0)
        event.set()
        await waiting

    with nothing_real(loop.time):
        loop.run_until_complete(main())
    assert said == ["patient", "plain"]


def test_work_for_threads_is_done_at_once_and_its_errors_arrive() -> None:
    loop = VirtualLoop()

    async def main() -> int:
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(int, "no")
        return await asyncio.to_thread(int, "7")

    assert loop.run_until_complete(main()) == 7


def test_a_wait_for_nothing_is_noticed() -> None:
    loop = VirtualLoop()
    with pytest.raises(Stuck):
        loop.run_until_complete(asyncio.Event().wait())


@pytest.mark.parametrize("use", ["time.time()", "time.monotonic()", "random.random()", "random.choice('ab')",
                                 "uuid.uuid4()", "os.urandom(4)", "secrets.token_urlsafe()"])  # fmt: skip
def test_our_code_may_use_nothing_real(use: str) -> None:
    world = {"__name__": "stromboli.kube.somewhere"}
    with nothing_real(lambda: 5.0) as found:
        assert time.time() == 5.0  # libraries get the virtual time
        with pytest.raises(AssertionError, match=r"stromboli\.kube\.somewhere"):
            exec(f"import os, random, secrets, time, uuid; {use}", world)
    assert len(found) == 1
    assert time.time() > 1e9
    assert 0 <= random.random() < 1


@pytest.mark.parametrize("use", [
    "threading.Thread(target=print).start()", "socket.create_connection(('localhost', 9))",
    "with socket.socket() as one: one.bind(('', 0))", "subprocess.run(['true'])", "time.sleep(1)",
])  # fmt: skip
def test_nobody_may_use_threads_sockets_or_programs(use: str) -> None:
    with nothing_real(lambda: 5.0) as found, pytest.raises(AssertionError):
        exec(f"import socket, subprocess, threading, time\n{use}", {"__name__": "a.library"})
    assert len(found) == 1
