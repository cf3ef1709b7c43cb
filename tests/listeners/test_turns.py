"""Many requests in one piece: everything else in the process goes on, and strangers wait for each other."""

from __future__ import annotations

import asyncio

import pytest

from listeners.servers import LOOPBACK, NAMES, Listener, listening, play
from stromboli.listeners import turns


async def statuses(listener: Listener, sent: bytes, wanted: int) -> tuple[int, int]:
    """How many answers came to these requests, and how often the event loop went round meanwhile."""
    reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    counting = asyncio.create_task(count())
    try:
        writer.write(sent)
        found = b""
        while found.count(b"HTTP/1.1 200") < wanted:
            piece = await reader.read(1 << 16)
            if not piece:
                break
            found += piece
        return found.count(b"HTTP/1.1 200"), rounds
    finally:
        counting.cancel()
        writer.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("with_token", [False, True])
def test_the_event_loop_goes_round_for_each_request(name: str, with_token: bool) -> None:
    """200 requests in one piece. Before, the probes answered all of them in a single round."""

    async def story() -> None:
        async with listening(name) as listener:
            one = listener.request() if with_token else listener.request(path=listener.health, token="")
            answers, rounds = await statuses(listener, one * 200, 200)
            assert answers == 200
            assert rounds >= 200

    play(story)


@pytest.mark.parametrize("name", NAMES)
def test_only_strangers_wait_for_their_turn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pace is one request an hour here: a stranger gets its first answer, and then no other for long."""
    monkeypatch.setattr(turns, "_PACE", 3600.0)

    async def story() -> None:
        async with listening(name) as listener:
            unknown = listener.request(path=listener.health, token="")
            greedy, wrong = [await asyncio.open_connection(LOOPBACK, listener.port) for _ in range(2)]
            greedy[1].write(unknown * 50)
            wrong[1].write((unknown + listener.request(token="a-token-that-is-wrong")) * 50)
            for reader, _ in (greedy, wrong):
                assert (await reader.readline()).split()[1] == b"200"
            assert await listener.is_healthy(), "a new connection does not wait"
            assert (await statuses(listener, listener.request() * 50, 50))[0] == 50, "nor does a holder of the token"
            for reader, writer in (greedy, wrong):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.readuntil(b"HTTP/1.1 "), 0.2)
                writer.close()
            assert await listener.is_healthy()

    play(story)


def test_turns_are_given_in_the_order_of_asking_and_not_to_those_who_left() -> None:
    async def story() -> None:
        line = turns.Turns()
        asked = [line.next() for _ in range(100)]
        order: list[int] = []
        for number, turn in enumerate(asked):
            turn.add_done_callback(lambda turn, number=number: None if turn.cancelled() else order.append(number))
        for turn in asked[1::2]:
            turn.cancel()
        await asyncio.gather(*asked[::2])
        assert order == list(range(0, 100, 2))
        await line.next()  # it begins again after a rest

    play(story)
