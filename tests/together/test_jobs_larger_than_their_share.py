"""A job that is larger than what its queue deserves: reserve does not start what reclaim would evict at once."""

from __future__ import annotations

from typing import Any

from starvation.scenes import node, queue, stream
from together.situations import Situation, assert_restarts_change_nothing, happened, job, situation, starts

# Eight CPUs for two queues of equal weight. `big` requests 6 CPUs for 10 s, and its queue deserves 4 while `theirs`
# requests more than 4: two small jobs of 6 s every second would use 12. If `big` started, `theirs` would have 2 and
# reclaim the rest at once. Small jobs stop coming at 20 s.
RESERVE = {"starvingJobTimeThreshold": 4, "reservedNodePercent": 100, "maxHolders": 1}


def larger(*, end: float = 60, until: float = 40, **options: Any) -> Situation:
    return situation(
        queue("mine"), queue("theirs"), node("n1", 4), node("n2", 4),
        stream("a", every=1, run=6, end=end, queue="theirs"), stream("b", every=1, run=6, end=end, queue="theirs"),
        job("big", 2, 3, at=1, run=10, queue="mine", **options),
        reserve=RESERVE, until=until,
    )  # fmt: skip


def test_nodes_do_not_drain_for_a_job_that_would_be_reclaimed_at_once() -> None:
    report = larger().run()
    assert happened(report, "Evicted") == []
    assert not [pod for _, pod in happened(report, "Reserved") if "big" in pod]
    assert report["pods"]["default/big-t-0"]["reason"] == "QueueOverDeserved"


def test_it_starts_when_the_others_request_less() -> None:
    """Eight CPUs run the 42 small jobs of 6 s in 36 s. At the end `theirs` requests less than 4 CPUs."""
    report = larger(end=20, until=60).run()
    assert happened(report, "Evicted") == []
    assert starts(report)["default/big-t-0"] <= 36
    assert report["jobs"]["default/big"]["phase"] in ("Completing", "Completed")


def test_a_job_that_may_not_be_evicted_is_served() -> None:
    """Nobody can reclaim it, so it starts within the threshold, the longest run and two cycles."""
    started = starts(larger(preemptable=False).run())
    assert started["default/big-t-0"] <= 1 + 4 + 6 + 2


def test_restarts_change_nothing() -> None:
    assert_restarts_change_nothing(larger(end=8, until=25))
