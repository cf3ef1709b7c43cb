"""Locks in a tree of queues, and of queues that are closed."""

from __future__ import annotations

import pytest

from queue_locks.lock_scenes import Document, locking, node, patch, play, pods, queue

FOUR = [node(f"n{i}", 4) for i in range(1, 5)]


@pytest.mark.parametrize("tree", [False, True])
def test_a_lock_opens_to_every_queue_below_its_owner(tree: bool) -> None:
    """org locks two nodes. Its grandchild fills them; the stranger gets the other two."""
    options: Document = {"sharing": "capacity", "tree": True} if tree else {}
    outcome = play(
        FOUR, locking("org", {"cpu": 8}), queue("team", parent="org"), queue("lab", parent="team"), queue("stranger"),
        pods("x", 12, queue="stranger"), pods("l", 8, queue="lab", at=2),
        **options,
    )  # fmt: skip
    assert outcome.locked("org") == ["n1", "n2"]
    assert outcome.running_by("queue") == {"lab": 8, "stranger": 8}
    assert {outcome.nodes[f"l-0{i}"] for i in range(8)} == {"n1", "n2"}
    assert outcome.evictions() == []
    assert outcome.why("x-11")[0] == "NodeLockedByQueue"


@pytest.mark.parametrize("tree", [False, True])
def test_a_parent_locks_only_what_its_children_do_not_cover(tree: bool) -> None:
    """org is guaranteed 8 CPUs and its team 4 of them: each locks one node of 4."""
    options: Document = {"sharing": "capacity", "tree": True} if tree else {}
    parts = [*FOUR, locking("org", {"cpu": 8}), locking("team", {"cpu": 4}, parent="org"), queue("x")]
    outcome = play(parts, **options)
    assert outcome.locked("team") == ["n1"]
    assert outcome.locked("org") == ["n2"]


def test_a_child_may_use_its_parents_nodes_but_not_its_siblings() -> None:
    parts = [
        *FOUR, locking("org", {"cpu": 8}), locking("team", {"cpu": 4}, parent="org"), queue("lab", parent="org"),
        queue("x"), *pods("b", 8, queue="x"), *pods("a", 8, queue="lab", at=1),
    ]  # fmt: skip
    outcome = play(parts, sharing="capacity", tree=True)
    assert outcome.running_by("node") == {"n2": 4, "n3": 4, "n4": 4}
    assert {outcome.nodes[f"a-0{i}"] for i in range(4)} == {"n2"}


def test_a_child_that_locks_later_takes_over_nodes_of_its_parent() -> None:
    """All that may be locked (2 of 4 nodes) is locked for org when its team is guaranteed 4 CPUs."""
    later = patch("Queue", "team", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {"cpu": 4}}}}, at=3)
    outcome = play(FOUR, locking("org", {"cpu": 8}), queue("team", parent="org"), later)
    assert outcome.accepted("team") == ("True", "Accepted")
    assert len(outcome.locked("team")) == len(outcome.locked("org")) == 1
    assert sorted(outcome.locked("team") + outcome.locked("org")) == ["n1", "n2"]


def test_the_childs_own_capability_holds_on_its_parents_nodes() -> None:
    outcome = play(
        FOUR, locking("org", {"cpu": 8}), queue("team", parent="org", capability={"cpu": 3}),
        pods("a", 8, queue="team"), sharing="capacity", tree=True,
    )  # fmt: skip
    assert outcome.running_by("queue") == {"team": 3}
    assert outcome.why("a-07")[0] == "QueueOverQuota"


def command(action: str, target: str, at: float) -> Document:
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
        "metadata": {"name": f"{action.lower()}-{at}", "namespace": "default",
                     "annotations": {"sim.stromboli.io/at": f"{at}s"}},
        "action": action, "target": {"kind": "Queue", "name": target},
    }  # fmt: skip


def test_a_closed_queue_locks_nothing_and_locks_again_when_it_is_opened() -> None:
    parts = [
        *FOUR, locking("q1", {"cpu": 4}), queue("q2"), command("CloseQueue", "q1", 3), command("OpenQueue", "q1", 8),
        *pods("a", 4, cpu=4, queue="q2", at=2, run=4),
    ]  # fmt: skip
    outcome = play(parts, until=10)
    assert outcome.moves() == [
        (0.0, "Locked", "q1", "n1"), (3.0, "Unlocked", "q1", "n1"), (8.0, "Locked", "q1", "n1"),
    ]  # fmt: skip
    assert outcome.started["a-03"] == 3.0


def test_closing_a_parent_unlocks_the_nodes_of_its_children() -> None:
    parts = [*FOUR, queue("org"), locking("team", {"cpu": 4}, parent="org"), command("CloseQueue", "org", 3)]
    assert play(parts, until=2).locked("team") == ["n1"]
    assert play(parts, until=4).locked("team") == []
