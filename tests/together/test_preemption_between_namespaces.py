"""Preemption follows the order of namespaces, so that the next cycle does not undo it."""

from __future__ import annotations

import pytest

from starvation.scenes import node, pod, priority_class, stream
from together.situations import (
    Situation,
    assert_restarts_change_nothing,
    flat,
    happened,
    in_namespace,
    replica_set,
    situation,
    weighted,
)  # fmt: skip

HIGH = priority_class("high", 100)

# Four CPUs and two namespaces of equal weight in one queue. Urgent one-CPU pods of 4 s come to namespace a every
# second, so it always requests 4. Four replicas of 10 s stand in namespace b. Each may have 2: a takes back what b has
# beyond, once, and from then on neither may preempt the other. So b runs two replicas at a time until all four have
# ended, one of them under the name of its successor.
STORM = Situation(
    flat([
        HIGH, node("n1", 4), in_namespace("a", stream("urgent", every=1, run=4, end=120, priority="high")),
        in_namespace("b", replica_set("web", 4, 1, run=10)),
    ]),
    None, 120,
)  # fmt: skip


def late(cpus: int, weights: tuple[int, int], drf: bool) -> Situation:
    """Namespace a has all CPUs for good when b comes, with as many pods as there are CPUs.

    b may preempt because drf says so (`drf`), or, in the built-in configuration, because its pods have a higher
    priority. Both stop when the weighted shares are even.
    """
    return situation(
        HIGH, weighted("a", weights[0]), weighted("b", weights[1]), node("n1", cpus),
        in_namespace("a", [pod(f"old-{number:02}", 1) for number in range(cpus)]),
        in_namespace("b", [pod(f"new-{number:02}", 1, at=2, priority="" if drf else "high") for number in range(cpus)]),
        drf={"enablePreemptable": drf}, until=8,
    )  # fmt: skip


# (the situation, the CPUs of a and b in the end): 4/1 = 4/1, and 4/1 = 12/3.
EVEN = {
    "equal weights, by share": (late(8, (1, 1), drf=True), (4, 4)),
    "equal weights, by priority": (late(8, (1, 1), drf=False), (4, 4)),
    "weights 1 and 3, by share": (late(16, (1, 3), drf=True), (4, 12)),
    "weights 1 and 3, by priority": (late(16, (1, 3), drf=False), (4, 12)),
}


def test_a_stream_of_urgent_pods_does_not_evict_another_namespace_for_ever() -> None:
    report = STORM.run()
    assert len(happened(report, "Evicted")) == 1
    assert len([pod for _, pod in happened(report, "Finished") if pod.startswith("b/")]) == 4


@pytest.mark.parametrize(("story", "cpus"), EVEN.values(), ids=EVEN.keys())
def test_preemption_stops_when_the_shares_are_even(story: Situation, cpus: tuple[int, int]) -> None:
    report = story.run()
    assert tuple(int(report["namespaces"][f"default/{name}"]["allocated"].get("cpu", "0")) for name in "ab") == cpus
    assert len(happened(report, "Evicted")) == cpus[1]


@pytest.mark.parametrize("story", [story for story, _ in EVEN.values()], ids=EVEN.keys())
def test_restarts_change_nothing(story: Situation) -> None:
    assert_restarts_change_nothing(story)


def test_restarts_do_not_change_the_stream() -> None:
    assert_restarts_change_nothing(STORM, until=12)
