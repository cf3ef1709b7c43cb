"""What runs is charged to the queue that let it in: its owner cannot make another queue pay for it."""

from __future__ import annotations

from reservations.reservation_scenes import gang, node, patch, play, queue


def test_the_queue_of_a_group_that_runs_does_not_change() -> None:
    """Queue b is another team's, and may have 2 CPUs. Were it charged for the gang, its own pods would wait."""
    moved = patch("PodGroup", "mine", {"spec": {"queue": "b"}}, at=3)
    scene = [node("n1", 4), queue("a"), queue("b", capability={"cpu": 2}), gang("mine", 1, 1, queue="a"), moved]
    outcome = play(*scene, gang("theirs", 1, 1, queue="b", at=4), until=7)
    assert outcome.queue("a")["allocated"] == {"cpu": "2"}
    assert outcome.pod("theirs-0")["bound"] == 4
    [refused] = [event for event in outcome.report["events"] if event["reason"] == "PatchRefused"]
    assert "must not change once pods have started" in refused["message"]


def test_a_group_that_waits_may_go_to_another_queue() -> None:
    moved = patch("PodGroup", "mine", {"spec": {"queue": "b"}}, at=3)
    scene = [node("n1", 4), queue("a", capability={"cpu": 1}), queue("b"), gang("mine", 1, 1, queue="a"), moved]
    outcome = play(*scene, until=6)
    assert outcome.pod("mine-0")["bound"] is not None
