"""Priorities on nodes that are set aside: a lower holder does not stop a higher job, and a holder not itself."""

from __future__ import annotations

import pytest

from starvation.scenes import gang, group, node, pod, priority_class, queue, stream
from together.situations import Situation, assert_restarts_change_nothing, happened, situation, starts

A, B = {"pool": "a"}, {"pool": "b"}
EVERYWHERE = {"starvingJobTimeThreshold": 2, "reservedNodePercent": 100}
HIGH = priority_class("high", 100)

# n1 is set aside for `low` from 3 s on; what runs there ends at 10 s. The gang `top` needs n1 and n2 and has starved at
# 5 s. It takes n1 from the lower holder, and n2 has drained 3 s later. So it starts when n1 is free, at 10 s, and `low`
# after it. Nobody may preempt here, so that the nodes set aside are all that helps.
TAKES_THE_NODE = situation(
    HIGH, node("n1", 2, labels=A), node("n2", 2, labels=B), pod("old", 2, on="n1", run=10),
    stream("small", every=1.5, run=3, end=34, selector=B),
    pod("low", 2, run=20, selector=A), gang("top", 2, 2, at=2, run=4, priority="high"),
    reserve=EVERYWHERE, leave_out=("preempt",), until=20,
)  # fmt: skip

# n1 is set aside for `low` from 3 s on. `top` comes at 5 s and may preempt `old`, which is lower and ends at 30 s only:
# evicted at 5 s, gone one cycle later.
PREEMPTS_THERE = situation(
    HIGH, node("n1", 3), pod("old", 2, on="n1", run=30), pod("low", 3, run=5),
    pod("top", 3, at=5, run=4, priority="high"), reserve=EVERYWHERE, until=20,
)  # fmt: skip

# Four CPUs and two queues, so 2 deserved by each. `other` has 3 and never ends. `wide` of queue `mine` needs one CPU in
# each pool: n2 is free at 10 s, and then the queue has nothing and can reclaim one CPU on n1. Both nodes are set aside
# for it since 3 s.
RECLAIMS_ON_ITS_OWN = situation(
    queue("mine"), queue("other"), node("n1", 2, labels=A), node("n2", 1, labels=B), node("n3", 1),
    [pod(f"lent-{number}", 1, on="n1", queue="other") for number in range(2)], pod("lent-2", 1, on="n3", queue="other"),
    pod("peer", 1, on="n2", run=10, queue="mine"), group("wide", 2, queue="mine"),
    pod("wide-0", 1, group="wide", queue="mine", selector=A, run=4),
    pod("wide-1", 1, group="wide", queue="mine", selector=B, run=4),
    reserve=EVERYWHERE, until=20,
)  # fmt: skip

# The same inside a queue: `top` needs both nodes. n1 has a lower pod without end, n2 a pod of its own rank until 10 s.
PREEMPTS_ON_ITS_OWN = situation(
    HIGH, node("n1", 2), node("n2", 2), pod("old", 2, on="n1"), pod("peer", 2, on="n2", run=10, priority="high"),
    gang("top", 2, 2, run=4, priority="high"), reserve=EVERYWHERE, until=20,
)  # fmt: skip

STORIES = {
    "takes the node of a lower holder": TAKES_THE_NODE,
    "preempts on the node of a lower holder": PREEMPTS_THERE,
    "reclaims on its own node": RECLAIMS_ON_ITS_OWN,
    "preempts on its own node": PREEMPTS_ON_ITS_OWN,
}


def test_a_higher_starving_job_takes_the_node_of_a_lower_holder() -> None:
    started = starts(TAKES_THE_NODE.run())
    assert started["default/top-0"] == started["default/top-1"] == 10
    assert started.get("default/low", 14) >= 14  # top runs for four seconds


def test_a_higher_job_preempts_lower_pods_on_the_node_of_a_lower_holder() -> None:
    report = PREEMPTS_THERE.run()
    assert happened(report, "Evicted") == [(5, "default/old")]
    assert starts(report)["default/top"] == 6


def test_a_holder_reclaims_on_its_own_node() -> None:
    report = RECLAIMS_ON_ITS_OWN.run()
    assert [(time, pod[:-1]) for time, pod in happened(report, "Evicted")] == [(10, "default/lent-")]
    assert starts(report) == {"default/wide-0": 11, "default/wide-1": 11}


def test_a_holder_preempts_on_its_own_node() -> None:
    report = PREEMPTS_ON_ITS_OWN.run()
    assert happened(report, "Evicted") == [(10, "default/old")]
    assert starts(report) == {"default/top-0": 11, "default/top-1": 11}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_restarts_change_nothing(story: Situation) -> None:
    assert_restarts_change_nothing(story)
