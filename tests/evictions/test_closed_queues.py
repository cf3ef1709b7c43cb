"""What was promised to a job whose queue is closed meanwhile."""

from __future__ import annotations

from starvation.scenes import Document, gang, node, pod, queue, scene


def test_the_room_is_for_others_when_the_queue_of_the_claimant_is_closed() -> None:
    # Queue a has all 4 CPUs. At 5 s two of its pods go for one of queue b, and take 20 s. Queue b is closed at 10 s.
    close: Document = {
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
        "metadata": {"name": "close", "annotations": {"sim.stromboli.io/at": "10s"}},
        "action": "CloseQueue", "target": {"kind": "Queue", "name": "b"},
    }  # fmt: skip
    borrowers = [pod(f"borrower-{number}", 1, on="n1", queue="a", grace=20) for number in range(4)]
    story = scene(
        node("n1", 4), queue("a"), queue("b"), borrowers, gang("claimant", 2, queue="b", at=5),
        pod("late", 1, queue="a", at=12), close, until=30,
    )  # fmt: skip
    assert story.at(9).report["nodes"]["n1"]["promisedTo"] == ["default/claimant"]
    outcome = story.run()
    assert [when for when, _ in outcome.happened("Evicted")] == [5.0, 5.0]
    assert outcome.started == {"late": 25.0}
    assert outcome.report["nodes"]["n1"]["promisedTo"] == []
