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


@pytest.mark.parametrize("threshold", [1, 3, 10, 30])
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_gang_starts_beside_jobs_that_never_can(nodes: int, threshold: float) -> None:
    # A pod that never ends is on the node of `never-0` and the others, which cannot be known. There is one place for
    # all. Each of them costs one turn of the length of the threshold.
    stuck = [node("na", 3, labels={"pool": "a"}), pod("endless", on="na")]
    stuck += [pod(f"never-{number}", 3, at=number, selector={"pool": "a"}) for number in range(3)]
    pool = [node(f"nb{number}", 3, labels={"pool": "b"}) for number in range(nodes)]
    small = stream("small", every=5 / nodes, run=10, end=200, selector={"pool": "b"})
    job = gang("big", *[3] * nodes, at=20, run=10, selector={"pool": "b"})
    reserve = {**EVERYWHERE, "starvingJobTimeThreshold": threshold, "maxHolders": 1}
    started = scene(stuck, pool, small, job, reserve=reserve, until=200).run().started
    assert started["big-0"] <= 20 + threshold + 4 * 10 + 2 + 3 * (threshold + 1)


# -- the rule -------------------------------------------------------------------------------------------------------


def two_in_turns(threshold: float, timeout: float | None, *, at: float = 0, clock: str = "waiting") -> Scene:
    """Two jobs that came at 0, and need the whole of a node with a pod that never ends. The node and the pod are there
    from `at` on."""
    arguments: Document = {"starvingJobTimeThreshold": threshold, "starvationClock": clock, "reservedNodePercent": 100}
    if timeout is not None:
        arguments["reservationTimeout"] = timeout
    return scene(
        node("n1", 3, at=at), pod("endless", on="n1", at=at), pod("a", 3), pod("b", 3), reserve=arguments, until=125
    )  # fmt: skip


def turns(story: Scene) -> list[float]:
    """When a, b, a, b, … got the node."""
    reserved = story.run().happened("Reserved")
    assert [who for _, who in reserved] == [("a", "b")[number % 2] for number in range(len(reserved))]
    return [time for time, _ in reserved]


@pytest.mark.parametrize("clock", ["waiting", "creation"])
def test_a_turn_is_as_long_as_the_job_has_waited_and_pods_have_not_run_longer(clock: str) -> None:
    # a has waited 50 s at 50, so it has the node until 100, and b in the first cycle after that. b has waited 101 s,
    # and the longest turn is 32 × 2 s. At 114 the pod has run for 64 s. From then on nobody believes that it ends soon.
    assert turns(two_in_turns(2, None, at=50, clock=clock)) == [50, 101, 115, 118, 121, 124]


def test_a_pod_that_ran_before_the_job_came_is_waited_for_as_long_as_the_timeout() -> None:
    assert turns(two_in_turns(2, None))[:5] == [3, 6, 9, 12, 15]
    assert turns(two_in_turns(2, 20)) == [3, 24, 45, 66, 87, 108]


def test_a_timeout_far_below_the_threshold_limits_turns_from_the_first_on() -> None:
    # 32 × 1 s, although a has waited 50 s.
    assert turns(two_in_turns(40, 1, at=50))[:4] == [50, 83, 85, 87]


def test_without_a_timeout_a_turn_never_ends() -> None:
    assert turns(two_in_turns(2, 0)) == [3]


def test_a_pod_that_may_stay_is_not_waited_for() -> None:
    # Both jobs fit beside the pod that never ends. Something else has to leave: one pod until 10, which ran before they
    # came, so that the first turn is 2 s long; and then another. b has waited 6 s at 7, so it keeps the node until 13.
    # Then a has waited 13 s, and the pod in its way has run for less than that until 23.
    beside = [pod("endless", on="n1"), pod("first", 3, on="n1", run=10), pod("second", 3, on="n1", at=10, run=50)]
    jobs = [pod(name, 3, at=1) for name in "ab"]
    reserve = {"starvingJobTimeThreshold": 2, "reservedNodePercent": 100}
    assert turns(scene(node("n1", 4), beside, jobs, reserve=reserve, until=25)) == [4, 7, 14, 24]


def test_a_turn_goes_on_while_something_drains() -> None:
    # The turn ends when nothing drains for more than 3 s. One of four CPUs is free at 7, the next at 10 and the next at
    # 13. At 17 b, which needs three CPUs, has the node and starts.
    ends = (7, 10, 13, 90)
    story = scene(
        node("n1", 4), [pod(f"old-{end}", on="n1", run=end) for end in ends], pod("a", 4), pod("b", 3, at=1),
        reserve=EVERYWHERE, until=25,
    )  # fmt: skip
    assert story.at(16).reserved == {"n1": ["a"]}
    assert story.at(17).reserved == {"n1": ["b"]}
    assert story.run().started == {"b": 18}


def test_other_nodes_are_a_new_turn() -> None:
    # The nodes come at 20 s, so the turn on n1 is 20 s long. Nobody else needs the place, so at 41 the job moves to n2,
    # where one CPU has to drain and not two. By then it has waited 41 s.
    n1 = [node("n1", 3, at=20), pod("one", 2, on="n1", at=20, run=90)]
    n2 = [node("n2", 3, at=20), pod("short", 2, on="n2", at=20, run=10), pod("two", on="n2", at=20, run=90)]
    story = scene(n1, n2, pod("big", 3), reserve=EVERYWHERE)
    assert story.at(40).reserved == {"n1": ["big"]}
    assert turn(story.at(40)) == (20, "If nothing drains on them for 20s, the nodes may go to the next job in line.")
    assert story.at(41).reserved == {"n2": ["big"]}
    assert turn(story.at(45)) == (41, "If nothing drains on them for 41s, the nodes may go to the next job in line.")


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
