"""Setting nodes aside does not change what the weights of namespaces say."""

from __future__ import annotations

from typing import Any

import pytest

from starvation.scenes import Document, gang, node, pod
from together.situations import (
    Situation,
    assert_restarts_change_nothing,
    happened,
    in_namespace,
    replica_set,
    situation,
    starts,
    weighted,
)  # fmt: skip

THRESHOLD = {"starvingJobTimeThreshold": 2}


def two_backlogs(**options: Any) -> Situation:
    """Eight nodes of one CPU; two namespaces of weights 1 and 7 with forty jobs of 10 s each.

    All of them starve. In every turn of 10 s one job of the small namespace starts, and seven of the large one: then
    both have 1/8 of the cluster by weight.
    """
    return situation(
        weighted("large", 7), weighted("a-small", 1), [node(f"n{number}", 1) for number in range(8)],
        in_namespace("a-small", [pod(f"job-{number:02}", 1, run=10) for number in range(40)]),
        in_namespace("large", [pod(f"job-{number:02}", 1, run=10) for number in range(40)]),
        until=39, **options,
    )  # fmt: skip


STORIES = {
    "half of the nodes": two_backlogs(reserve=THRESHOLD),
    "all nodes": two_backlogs(reserve={**THRESHOLD, "reservedNodePercent": 100, "maxHolders": 8}),
}
WITHOUT = two_backlogs(leave_out=("reserve",))


def starts_in_turns(story: Situation) -> list[tuple[int, int]]:
    """How many jobs of (a-small, large) started in each 10 s."""
    bound = [(int(time // 10), pod.partition("/")[0]) for time, pod in happened(story.run(), "Bound")]
    return [(bound.count((turn, "a-small")), bound.count((turn, "large"))) for turn in range(4)]


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_starts_follow_the_weights(story: Situation) -> None:
    assert starts_in_turns(story) == [(1, 7)] * 4


def test_starts_follow_the_weights_without_reserve() -> None:
    assert starts_in_turns(WITHOUT) == [(1, 7)] * 4


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_restarts_change_nothing(story: Situation) -> None:
    assert_restarts_change_nothing(story, until=12)


def behind_its_own_stream(*more: Document, until: float = 120, **options: Any) -> Situation:
    """Two nodes of four CPUs; two namespaces of equal weight with streams of one-CPU jobs, and in one of them a job of
    four CPUs that came first.

    Each namespace has four CPUs all the time. The large job fits no hole, and if nodes were drained for it while its
    own namespace has its part, the other would pay for it. So its namespace's small jobs must make room.
    """
    runs = (7, 9, 11, 13)
    return situation(
        [node("n0", 4), node("n1", 4)],
        *(
            in_namespace(
                namespace,
                [pod(f"small-{number:03}", 1, run=runs[number % 4], at=max(0, 2 * number - 8)) for number in range(60)],
            )
            for namespace in ("alpha", "beta")
        ),
        in_namespace("alpha", [*more, pod("large", 4, run=10, at=1)]),
        until=until, **options,
    )  # fmt: skip


OWN_STREAM = behind_its_own_stream(reserve={"starvingJobTimeThreshold": 10})


def test_a_job_does_not_wait_for_ever_behind_its_own_namespace() -> None:
    start = starts(OWN_STREAM.run())
    # Its own namespace's jobs drain, then a node: at most the threshold and two of the longest runs.
    assert start["alpha/large"] <= 1 + 10 + 13 + 13 + 2


def test_it_costs_the_other_namespace_nothing() -> None:
    """What the other one had by the end of the wait, in CPU seconds of jobs started, is at least its half."""
    started = starts(OWN_STREAM.run())
    counts = [sum(pod.startswith(namespace) for pod in started) for namespace in ("alpha/small", "beta/small")]
    assert counts[1] >= counts[0]


def test_its_own_namespace_is_told() -> None:
    large = starts(OWN_STREAM.run())["alpha/large"]
    report = OWN_STREAM.at(large - 1)
    waiting = [pod for name, pod in report["pods"].items() if name.startswith("alpha/small") and not pod["node"]]
    assert any("podgroup-large" in pod["message"] for pod in waiting)


def test_who_can_never_start_takes_the_turn_of_nobody_in_its_namespace() -> None:
    # It came first, and wants more than may be set aside: both nodes of two, of which half may be.
    wide = gang("wide", 4, 4)
    story = behind_its_own_stream(*wide, until=40, reserve={"starvingJobTimeThreshold": 10})
    assert starts(story.run())["alpha/large"] <= 1 + 10 + 13 + 13 + 2


def test_restarts_change_nothing_behind_its_own_stream() -> None:
    assert_restarts_change_nothing(OWN_STREAM, until=40)


def beside_its_own_pods(own: list[Document]) -> Situation:
    """Two pools of four CPUs. In one, `beta` has a stream that keeps all CPUs busy. `alpha` has some pods in the other
    one, fewer than beta, and a job that needs all of beta's pool.

    Nobody waits for what alpha has, or it never ends: it need not make room for the job. While the pool drains, beta
    has less and less, because of the job; that is not alpha's advantage yet.
    """
    pools = [node("a1", 4, labels={"pool": "a"}), node("b1", 4, labels={"pool": "b"})]
    stream = [pod(f"small-{number:02}", 1, run=4, at=number, selector={"pool": "b"}) for number in range(40)]
    large = pod("large", 4, run=2, at=5, selector={"pool": "b"})
    return situation(
        pools, in_namespace("alpha", own, large), in_namespace("beta", stream),
        reserve={"starvingJobTimeThreshold": 5, "reservedNodePercent": 100}, until=40,
    )  # fmt: skip


OWN_PODS = {
    "stream in another pool": beside_its_own_pods(
        [pod(f"own-{number:02}", 1, run=2, at=number, selector={"pool": "a"}) for number in range(40)]
    ),
    "service": beside_its_own_pods([replica_set("own", 1, 1, selector={"pool": "a"})]),
}


@pytest.mark.parametrize("story", OWN_PODS.values(), ids=OWN_PODS.keys())
def test_pods_that_cannot_make_room_do_not_make_a_job_wait_for_ever(story: Situation) -> None:
    # It has starved at 11 s, and the last pod that was started before ends four seconds later.
    assert starts(story.run())["alpha/large"] <= 5 + 5 + 4 + 2


@pytest.mark.parametrize("story", OWN_PODS.values(), ids=OWN_PODS.keys())
def test_restarts_change_nothing_beside_its_own_pods(story: Situation) -> None:
    assert_restarts_change_nothing(story, until=18)
