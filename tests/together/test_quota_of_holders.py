"""What is set aside on nodes is set aside in the queue's books, too: its own small jobs do not use up the quota."""

from __future__ import annotations

import pytest

from starvation.scenes import node, pod, queue, stream
from together.situations import Situation, assert_restarts_change_nothing, happened, job, situation, starts

HALF = {"starvingJobTimeThreshold": 2, "reservedNodePercent": 50}

# Eight CPUs, of which queue q may have 4. Its one-CPU jobs of 4 s come every second, so it always has 4. `big` needs
# all 4, comes at 5 s and has starved at 8 s. From then on no small job may start, and the last one ends 4 s later. 5 +
# threshold 2 + longest run 4 + two cycles = 13.
CAPABILITY = situation(
    queue("q", capability={"cpu": 4}), node("n1", 4), node("n2", 4),
    stream("small", every=1, run=4, end=29, queue="q"), pod("big", 4, at=5, run=4, queue="q"),
    reserve=HALF, until=25,
)  # fmt: skip

# Eight CPUs for two queues of equal weight, both of which ask for more than the 4 they deserve: `mine` for 6 (runs of 6
# s every second), `other` for 5. `big` of queue `mine` needs 4. While a node drains for it, small jobs of `mine` may
# not use what the queue deserves. So the queue is within it when `big` starts, and nobody has a reason to reclaim.
DESERVED = situation(
    queue("mine"), queue("other"), node("n1", 4), node("n2", 4),
    stream("mine", every=1, run=6, end=60, queue="mine"), stream("other", every=1, run=5, end=60, queue="other"),
    job("big", 1, 4, at=3, run=8, queue="mine"),
    reserve={"starvingJobTimeThreshold": 8, "reservedNodePercent": 50, "maxHolders": 1}, until=35,
)  # fmt: skip

# As CAPABILITY, but the limit of 4 CPUs is that of `parent`, and the small jobs are in another queue below it.
PARENT = situation(
    queue("parent", capability={"cpu": 4}), queue("mine", parent="parent"), queue("theirs", parent="parent"),
    node("n1", 4), node("n2", 4),
    stream("small", every=1, run=4, end=29, queue="theirs"), pod("big", 4, at=5, run=4, queue="mine"),
    reserve=HALF, tree=True, until=25,
)  # fmt: skip


def test_a_job_as_large_as_the_capability_of_its_queue_starts() -> None:
    started = starts(CAPABILITY.run())
    assert "default/big" in started
    assert started["default/big"] <= 13


def test_a_job_as_large_as_the_limit_of_the_queue_above_starts_beside_the_jobs_of_a_sister_queue() -> None:
    started = starts(PARENT.run())
    assert "default/big" in started
    assert started["default/big"] <= 13


def test_what_a_queue_above_keeps_for_another_is_named() -> None:
    waiting = PARENT.at(10)["pods"]["default/small-0010"]
    assert waiting["reason"] == "QueueOverQuota"
    assert "Queue parent would exceed its quota" in waiting["message"]
    assert "4 kept for other pods" in waiting["message"]


def test_a_job_that_starts_on_its_reserved_node_is_not_reclaimed() -> None:
    report = DESERVED.run()
    (started,) = [time for time, pod in happened(report, "Bound") if pod == "default/big-t-0"]
    assert (started + 8, "default/big-t-0") in happened(report, "Finished")


@pytest.mark.parametrize("story", [CAPABILITY, DESERVED, PARENT], ids=["capability", "deserved", "parent"])
def test_restarts_change_nothing(story: Situation) -> None:
    assert_restarts_change_nothing(story, until=21)
