"""Gangs that have some of their pods on nodes and lack others: they are completed before others start.

Nodes have 3 CPUs and every pod requests one, unless a test says otherwise. Nothing ends by itself, so what does not
happen at once never happens.
"""

from __future__ import annotations

from starvation.scenes import Document, Scene, gang, group, node, patch, pod, priority_class, queue, restart, scene


def half(name: str, *, least: int = 2, cpu: float = 1, on: str = "n1", **options: object) -> list[Document]:
    """A gang of two, `<name>-0` of which is on a node."""
    placed = pod(f"{name}-0", 1, group=name, on=on, **{k: v for k, v in options.items() if k != "at"})
    head = {key: value for key, value in options.items() if key in ("queue", "priority")}
    return [group(name, least, **head), placed, pod(f"{name}-1", cpu, group=name, **options)]


def assert_restarts_change_nothing(story: Scene) -> None:
    undisturbed = story.run().text
    for second in range(int(story.until) + 1):
        assert story.run(restart(second, "scheduler")).text == undisturbed, f"after a restart at {second}"


def test_a_gang_that_lacks_a_pod_goes_before_one_that_holds_nothing() -> None:
    # 2 CPUs are free. The fresh gang comes first by name and has the smaller share. It would take both, and two gangs
    # would hold what neither can use if it lost a pod, too.
    story = scene(node("n1"), gang("fresh", 1, 1), half("training"), until=5)
    assert story.run().started == {"training-1": 0.0}
    assert_restarts_change_nothing(story)


def test_it_does_not_go_before_a_higher_priority() -> None:
    story = scene(
        node("n1"), priority_class("high", 10), gang("fresh", 1, 1, priority="high"), half("training"), until=5
    )
    assert story.run().started == {"fresh-0": 0.0, "fresh-1": 0.0}


def test_who_raises_its_minimum_gains_nothing() -> None:
    # The group of one pod has run with its minimum of 1. Then its owner wants to start with two pods, at the same time
    # as a gang of two comes.
    story = scene(
        node("n1"), group("greedy", 1), pod("greedy-0", 1, group="greedy", run=100),
        patch("PodGroup", "greedy", {"spec": {"minMember": 2}}, at=5),
        pod("greedy-1", 1, group="greedy", at=5), gang("fresh", 1, 1, at=5), until=10,
    )  # fmt: skip
    outcome = story.run()
    assert outcome.started == {"greedy-0": 0.0, "fresh-0": 5.0, "fresh-1": 5.0}
    # It has not lost any pod, and its group does not say so.
    [said] = [c for c in outcome.report["podGroups"]["default/greedy"]["conditions"] if c["type"] == "Scheduled"]
    assert (said["status"], said["reason"]) == ("False", "MinimumRaised")
    assert said["message"] == "The gang started with 1 pod, and needs 2 now."
    assert_restarts_change_nothing(story)


def test_a_gang_that_lost_a_pod_gets_it_back_first() -> None:
    # It has reached its minimum of 2, and loses one pod at 5 s. Its successor comes together with a fresh gang.
    story = scene(
        node("n1"), gang("training", 1, 1), pod("training-2", 1, group="training", at=6), gang("fresh", 1, 1, at=6),
        until=10,
    )  # fmt: skip
    lost = next(one for one in story.documents if one["metadata"]["name"] == "training-1")
    lost["metadata"]["annotations"]["sim.stromboli.io/until"] = "5s"
    outcome = story.run()
    assert outcome.started == {"training-0": 0.0, "training-1": 0.0, "training-2": 6.0}
    # Between the two, the group is as Volcano has it: some of it runs, and it lacks others.
    between = story.at(5.5).report["podGroups"]["default/training"]
    assert between["phase"] == "Unknown"
    assert {c["type"]: c["status"] for c in between["conditions"]}["Scheduled"] == "False"
    assert outcome.report["podGroups"]["default/training"]["phase"] == "Running"
    assert_restarts_change_nothing(story)


def test_a_gang_that_could_never_be_completed_stops_nobody() -> None:
    # The second pod is larger than any node. In a FIFO queue the first job that cannot be placed stops all others.
    story = scene(
        node("n1"), queue("line", dequeueStrategy="fifo"), gang("fresh", 1, 1, queue="line"),
        half("training", cpu=9, queue="line"), until=5,
    )  # fmt: skip
    assert story.run().started == {"fresh-0": 0.0, "fresh-1": 0.0}


def test_gangs_that_were_being_bound_go_before_a_fresh_one() -> None:
    # The scheduler was killed while it bound three gangs, and a fresh one comes.
    story = scene(
        node("n1", 4), node("n2", 4), *[half(f"training-{n}", on="n1" if n < 2 else "n2") for n in range(3)],
        gang("fresh", *[1] * 3), until=5,
    )  # fmt: skip
    # 8 CPUs, 3 of them used: the three pods that lack go first, and 2 are left for a gang of 3.
    assert set(story.run().started) == {f"training-{n}-1" for n in range(3)}
