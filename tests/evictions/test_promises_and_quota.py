"""Quota that a promise counts on is not taken by another pod of the same job."""

from __future__ import annotations

from starvation.scenes import group, node, pod, priority_class, queue
from together.situations import situation, starts


def test_pods_with_a_promise_start_before_others_of_their_job() -> None:
    # The queue may have 3 CPUs and has 2. The gang needs two of its three pods: g-0 fits on node a, and low is evicted
    # for g-2 on node b: 2 - 1 + 2 = 3. In the next cycle g-1 would fit on node a as well, but not beside both of them.
    common = {"group": "g", "queue": "team", "priority": "high", "at": 1}
    story = situation(
        priority_class("high", 100),
        queue("team", capability={"cpu": 3}),
        node("a", 4, labels={"pool": "a"}),
        node("b", 1, labels={"pool": "b"}),
        pod("other", 1, queue="team", on="a", preemptable=False),
        pod("low", 1, queue="team", on="b"),
        group("g", 2, queue="team", priority="high", at=1),
        pod("g-0", 1, selector={"pool": "a"}, **common),
        pod("g-1", 1, selector={"pool": "a"}, **common),
        pod("g-2", 1, selector={"pool": "b"}, **common),
        until=6,
    )
    report = story.run()
    assert starts(report) == {"default/g-0": 2, "default/g-2": 2}
    assert report["queues"]["team"]["allocated"] == {"cpu": "3"}
