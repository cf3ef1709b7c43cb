"""Token bucket and backoff."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from stromboli.kube.client import Backoff, TokenBucket, for_each_concurrently
from stromboli.kube.client import rate_limit as limits_module


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(limits_module.asyncio, "sleep", time.sleep)
    return time


def test_a_burst_passes_at_once_and_the_rest_at_the_rate(time: Time) -> None:
    async def story() -> None:
        bucket = TokenBucket(10, 3, clock=time)
        for _ in range(5):
            await bucket.take()
        # Three at once; then one token comes in every tenth of a second.
        assert time.slept == [0.1, 0.1]
        time.now += 60
        for _ in range(3):
            await bucket.take()
        assert time.slept == [0.1, 0.1], "a minute of rest fills the bucket, and not more than that"
        await bucket.take(5)
        assert time.slept[2:] == [0.5]

    asyncio.run(story())


def test_callers_are_served_in_order() -> None:
    """All ask at one moment: the bucket holds 1, so the others are due after 1, 2 and 4 hundredths of a second."""

    async def story() -> None:
        bucket = TokenBucket(100, 1, clock=lambda: 0.0)
        done: list[str] = []

        async def ask(name: str, count: int) -> None:
            await bucket.take(count)
            done.append(name)

        await asyncio.gather(ask("a", 1), ask("b", 1), ask("c", 1), ask("d", 2))
        assert done == ["a", "b", "c", "d"]

    asyncio.run(story())


def test_a_cancelled_caller_returns_its_tokens() -> None:
    async def story() -> None:
        now = 0.0
        bucket = TokenBucket(1, 1, clock=lambda: now)
        await bucket.take()
        waiting = asyncio.create_task(bucket.take(1000))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        now = 1.0
        async with asyncio.timeout(10):
            await bucket.take()

    asyncio.run(story())


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_limit_without_rate_or_burst_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="a rate above 0"):
        TokenBucket(rate, burst)


def test_pauses_double_up_to_a_ceiling_and_differ_between_clients() -> None:
    one, other = (Backoff(1.0, 10.0, random=Random(seed)) for seed in (1, 2))
    pauses = [one.next() for _ in range(2000)]
    for pause, longest in zip(pauses, (1, 2, 4, 8, 10, 10), strict=False):
        assert longest / 2 <= pause <= longest
    assert all(5 <= pause <= 10 for pause in pauses[6:])
    assert pauses[0] != other.next()
    one.reset()
    assert one.next() <= 1.0


def test_no_more_workers_are_started_than_there_are_requests() -> None:
    """Most passes of the controllers have nothing to write: thirty-two tasks for it would be most of their work."""
    started: list[object] = []

    async def begin(items: list[int]) -> list[int]:
        done: list[int] = []

        async def do(item: int) -> None:
            started.append(asyncio.current_task())
            await asyncio.sleep(0)
            done.append(item)

        before = len(asyncio.all_tasks())
        work = asyncio.ensure_future(for_each_concurrently(items, do, limit=32))
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) - before <= 1 + len(items)
        await work
        return done

    assert asyncio.run(begin([])) == []
    assert asyncio.run(begin([1, 2])) == [1, 2]
    assert len(set(map(id, started))) == 2
