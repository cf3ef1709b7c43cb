"""The lag of the event loop, and for how long it is remembered."""

from __future__ import annotations

import asyncio
import threading
import time

from stromboli.kube.runtime import LoopLag


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_worst_of_the_last_minute_counts() -> None:
    clock = Clock()
    lag = LoopLag(clock=clock)
    assert lag.worst == 0.0
    #  at 0: 0.2   at 30: 0.5   at 50: 0.3   at 55: 0.1
    for moment, late, worst in ((0, 0.2, 0.2), (30, 0.5, 0.5), (50, 0.3, 0.5), (55, 0.1, 0.5)):
        clock.now = moment
        lag.record(late)
        assert lag.worst == worst
    clock.now = 89.9
    assert lag.worst == 0.5
    clock.now = 90.1
    assert lag.worst == 0.3
    clock.now = 112
    assert lag.worst == 0.1
    clock.now = 120
    assert lag.worst == 0.0


def test_it_stays_small_however_long_it_runs() -> None:
    clock = Clock()
    lag = LoopLag(clock=clock)
    for i in range(100_000):
        clock.now += 0.01
        lag.record(0.001 * (i % 7))
    assert lag.worst == 0.006
    assert len(lag._peaks) < 20


def test_waking_early_is_no_lag() -> None:
    lag = LoopLag(clock=Clock())
    lag.record(-0.001)
    assert lag.worst == 0.0


def test_a_blocked_loop_is_noticed_from_another_thread() -> None:
    async def story() -> float:
        lag = LoopLag()
        running = asyncio.create_task(lag.run())
        await asyncio.sleep(0.02)
        time.sleep(0.3)  # what nobody should do
        await asyncio.sleep(0.02)
        seen: list[float] = []
        reader = threading.Thread(target=lambda: seen.append(lag.worst))
        reader.start()
        await asyncio.to_thread(reader.join)
        running.cancel()
        return seen[0]

    assert asyncio.run(story()) > 0.25
