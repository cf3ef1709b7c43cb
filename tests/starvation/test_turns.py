"""How long a job keeps nodes that do not drain: its turns double, so that one of them is long enough."""

from __future__ import annotations

import pytest

from starvation.scenes import Document, Outcome, Scene, gang, node, pod, scene, stream

EVERYWHERE = {"starvingJobTimeThreshold": 3, "reservedNodePercent": 100}


# -- the bound ------------------------------------------------------------------------------------------------------


def small_jobs(nodes: int, every: float, run: float, threshold: float, until: float) -> Scene:
    """Small jobs that starve as well, and one as large as a node. It comes when the first ones have ended."""
    return scene(
        [node(f"n{number}", 3) for number in range(nodes)], stream("small", every=every, run=run, end=until),
        pod("big", 3, at=2 * run, run=run), until=until,
        reserve={**EVERYWHERE, "starvingJobTimeThreshold": threshold},
    )  # fmt: skip


# The small ones run longer than the threshold: no turn of three seconds is long enough. With one every 5 s a CPU is
# idle while the big job waits, with one every 2 s there are more than can run, and in between they starve now and then.
@pytest.mark.parametrize("every", [5, 3, 2])
@pytest.mark.parametrize(("run", "threshold"), [(10, 3), (10, 1), (30, 1), (10, 10), (10, 100)])
def test_a_job_starts_however_long_others_run(run: float, threshold: float, every: float) -> None:
    every *= run / 10
    # Before it in line are jobs that came before its first turn ended: so many still wait then.
    before = max(0, (3 * run + 2 * threshold) / every - 3 * (3 * run + 2 * threshold) / run)
    latest = 2 * run + threshold + 4 * run + 2 + before * run
    assert small_jobs(1, every, run, threshold, latest).run().started["big"] <= latest


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_gang_starts_beside_a_job_that_never_can(nodes: int) -> None:
    # A pod that never ends is on the node of `never`, which cannot be known. There is one place for two jobs.
    stuck = [node("na", 3, labels={"pool": "a"}), pod("endless", on="na"), pod("never", 3, selector={"pool": "a"})]
    pool = [node(f"nb{number}", 3, labels={"pool": "b"}) for number in range(nodes)]
    small = stream("small", every=5 / nodes, run=10, end=300, selector={"pool": "b"})
    job = gang("big", *[3] * nodes, at=20, run=10, selector={"pool": "b"})
    started = scene(stuck, pool, small, job, reserve={**EVERYWHERE, "maxHolders": 1}, until=300).run().started
    # The longest turn of `never` is 32 × 3 s.
    assert started["big-0"] <= 20 + 3 + 32 * 3 + 4 * 10 + 2


# -- the rule -------------------------------------------------------------------------------------------------------


def two_in_turns(threshold: float, timeout: float | None, *, clock: str = "waiting") -> Scene:
    """Two jobs that need the whole of a node with a pod that never ends. They came at 0, and nothing ever drains."""
    arguments: Document = {"starvingJobTimeThreshold": threshold, "starvationClock": clock, "reservedNodePercent": 100}
    if timeout is not None:
        arguments["reservationTimeout"] = timeout
    return scene(node("n1", 3), pod("endless", on="n1"), pod("a", 3), pod("b", 3), reserve=arguments, until=260)


def turns(story: Scene) -> list[float]:
    """When a, b, a, b, … got the node."""
    reserved = story.run().happened("Reserved")
    assert [who for _, who in reserved] == [("a", "b")[number % 2] for number in range(len(reserved))]
    return [time for time, _ in reserved]


# A turn begins in the first cycle in which the one before has lasted longer than it may: 3 + 3 = 6, so at 7; by then b
# has waited 7 s. At most 32 × 2 s: 127 + 64 = 191, so at 192.
DOUBLING = [3, 7, 15, 31, 63, 127, 192, 257]


@pytest.mark.parametrize("clock", ["waiting", "creation"])
def test_turns_double_up_to_32_times_the_timeout(clock: str) -> None:
    assert turns(two_in_turns(2, None, clock=clock)) == DOUBLING


def test_the_timeout_is_the_shortest_turn() -> None:
    # 3 + 20 = 23; b has waited 24 s then, more than the timeout.
    assert turns(two_in_turns(2, 20)) == [3, 24, 49, 99, 199]


def test_a_timeout_far_below_the_threshold_limits_turns_from_the_first_on() -> None:
    # 32 × 1 s, although each has waited 41 s and more.
    assert turns(two_in_turns(40, 1)) == [41, 74, 107, 140, 173, 206, 239]


def test_without_a_timeout_a_turn_never_ends() -> None:
    assert turns(two_in_turns(2, 0)) == [3]


def test_a_turn_goes_on_while_something_drains() -> None:
    # a has waited 4 s when its turn begins. Of four CPUs one is free at 7, the next at 11 and the next at 15. Nothing
    # has drained for more than 4 s at 20, and b, which needs three CPUs, has the node and starts.
    ends = (7, 11, 15, 90)
    story = scene(
        node("n1", 4), [pod(f"old-{end}", on="n1", run=end) for end in ends], pod("a", 4), pod("b", 3, at=1),
        reserve=EVERYWHERE, until=25,
    )  # fmt: skip
    assert story.at(19).reserved == {"n1": ["a"]}
    assert story.at(20).reserved == {"n1": ["b"]}
    assert story.run().started == {"b": 21}


def test_other_nodes_are_a_new_turn() -> None:
    # Its turn on n1 is 4 s. Nobody else needs the place, so at 9 the job moves to n2, where one CPU has to drain and
    # not two. By then it has waited 9 s.
    n2 = [node("n2", 3), pod("short", 2, on="n2", run=6), pod("two", on="n2", run=40)]
    story = scene(node("n1", 3), pod("one", 2, on="n1", run=40), n2, pod("big", 3), reserve=EVERYWHERE)
    assert story.at(8).reserved == {"n1": ["big"]}
    assert turn(story.at(8)) == (4, "If nothing drains on them for 4s, the nodes may go to the next job in line.")
    assert story.at(9).reserved == {"n2": ["big"]}
    assert turn(story.at(12)) == (9, "If nothing drains on them for 9s, the nodes may go to the next job in line.")


def turn(outcome: Outcome) -> tuple[float, str]:
    """Since when, and for how long."""
    (told,) = (
        condition
        for group in outcome.report["podGroups"].values()
        for condition in group["conditions"]
        if condition["type"] == "StarvingTurn"
    )
    return told["lastTransitionTime"], told["message"]


def test_a_turn_that_has_no_end_says_so() -> None:
    assert turn(two_in_turns(2, 0).at(5)) == (3, "The nodes stay reserved until the job starts.")
