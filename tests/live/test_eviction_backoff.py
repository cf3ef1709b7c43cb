"""Refused evictions are retried with backoff, not in every cycle."""

from __future__ import annotations

import asyncio

from live.fake_api import FakeApi, refused
from live.test_binder import BinderHarness, of, play, submit_and_wait

FORBIDDEN = refused(429, "TooManyRequests", cause="DisruptionBudget")


def test_the_eviction_of_a_protected_pod_is_retried_with_backoff() -> None:
    """A minute of cycles, one a second, each with the same victim. After waits of at most 1, 2, 4, 8, 15, 15 and 15
    seconds and at least half of that, that is eight to fourteen requests."""

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        for _ in range(60):
            await submit_and_wait(harness, harness.evict())
            await asyncio.sleep(1.0)
        assert 7 <= api.count("evict") <= 15
        assert len(harness.reasons) == api.count("evict")  # what is not asked is not said again either
        assert harness.said == ["EvictFailed ns/r"] * 60  # but the scheduler must know each time

    play(story, fate=of("evict", *[FORBIDDEN] * 60))


def test_it_is_evicted_once_the_budget_allows_it() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.evict())
        await asyncio.sleep(1.0)
        await submit_and_wait(harness, harness.evict())
        assert harness.said == ["EvictFailed ns/r", "evicted ns/r"]

    play(story, fate=of("evict", FORBIDDEN))


def test_another_victim_does_not_wait() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.evict())
        await submit_and_wait(harness, harness.evict("ns/a"))
        assert harness.said == ["EvictFailed ns/r", "evicted ns/a"]

    play(story, fate=of("evict", FORBIDDEN))
