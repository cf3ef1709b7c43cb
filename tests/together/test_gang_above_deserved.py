"""A gang that is larger than what its queue deserves gets its nodes, and loses them to the next job of another queue.

`docs/starvation.md` says so, and what helps. Each remedy is tried here.
"""

from __future__ import annotations

from typing import Any

import pytest

from starvation.scenes import gang, node, pod, queue
from together.situations import Report, Situation, happened, situation, starts


def oversized(*, threshold: int = 4, preemptable: bool = True, least: int = 2, **large_queue: Any) -> Situation:
    """A node of eight CPUs and two queues of equal weight, which deserve four each. `big` has two pods of three CPUs
    that run for 15 s. The other queue has a stream of jobs of one CPU that run for 6 s, two of which come each second.
    """
    return situation(
        node("n1", 8), queue("large", **{"weight": 1, **large_queue}), queue("small", 1),
        gang("big", 3, 3, least=least, queue="large", at=1, run=15, preemptable=preemptable),
        [pod(f"s{number:02}", 1, queue="small", at=number / 2, run=6) for number in range(70)],
        reserve={"starvingJobTimeThreshold": threshold}, until=36,
    )  # fmt: skip


REMEDIES = {
    "a weight for which it deserves enough": oversized(weight=3),
    "a guarantee for the gang": oversized(guarantee={"resource": {"cpu": 6}}),
    "a queue that nobody reclaims from": oversized(reclaimable=False),
    "a gang that is not preemptable": oversized(preemptable=False),
    "a minimum within what it deserves": oversized(least=1),
}


def finished(report: Report) -> bool:
    return any(pod == "default/big-0" for _, pod in happened(report, "Finished"))


def evictions(report: Report) -> list[float]:
    return [time for time, pod in happened(report, "Evicted") if pod == "default/big-0"]


def test_it_starts_and_is_reclaimed() -> None:
    report = oversized().run()
    assert starts(report)["default/big-0"] <= 1 + 4 + 6 + 2
    assert evictions(report)
    assert not finished(report)


@pytest.mark.parametrize("story", REMEDIES.values(), ids=REMEDIES.keys())
def test_what_helps(story: Situation) -> None:
    report = story.run()
    assert evictions(report) == []
    assert finished(report)


def test_a_longer_threshold_does_not_help() -> None:
    report = oversized(threshold=12).run()
    assert evictions(report)
    assert not finished(report)
