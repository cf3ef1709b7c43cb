"""A guarantee that does not fit is refused with a clear event, and everybody else goes on as if it were not there."""

from __future__ import annotations

import pytest

from queue_locks.lock_scenes import Document, locking, node, patch, play, pods, queue, run

FOUR = [node(f"n{i}", 4) for i in range(1, 5)]


@pytest.mark.parametrize(
    ("malicious", "reason", "said"),
    [
        (locking("evil", share=0.9), "ExceedsMaxReservedPercent", "needs 3 nodes, other queues are guaranteed 1"),
        (locking("evil", {"cpu": 9}), "ExceedsMaxReservedPercent", "all queues together may lock 2"),
        (locking("evil", {"cpu": 17}), "ExceedsCluster", "17 cpu, and all nodes together have 16"),
        (locking("evil", {"nvidia.com/gpu": 1}), "ExceedsCluster", "1 nvidia.com/gpu, and all nodes together have 0"),
    ],
)
def test_a_malicious_queue_is_refused_and_the_others_keep_running(malicious: Document, reason: str, said: str) -> None:
    """q1 has one node; evil may have one more at most. q2's 12 pods run on the other three as if evil asked for
    nothing."""
    malicious["metadata"]["annotations"] = {"sim.stromboli.io/at": "3s"}
    outcome = play(FOUR, locking("q1", {"cpu": 4}), queue("q2"), malicious, pods("a", 12, queue="q2", at=1))
    assert outcome.accepted("evil") == ("False", reason)
    assert outcome.warnings("ReservationRefused") == [(3.0, "evil")]
    assert said in outcome.messages("Warning")[0]
    assert outcome.locked("evil") == []
    assert outcome.locked("q1") == ["n1"]
    assert outcome.running_by("queue") == {"q2": 12}
    assert outcome.evictions() == []


def test_it_counts_in_neither_layer_until_it_is_changed() -> None:
    """Refused, evil's 12 CPUs are no quota either: q2 gets all 16. Reduced to 4 it is accepted."""
    parts = [*FOUR, locking("evil", {"cpu": 12}), queue("q2"), *pods("a", 16, queue="q2", run=5)]
    outcome = play(parts, patch("Queue", "evil", {"spec": {"guarantee": {"resource": {"cpu": 4}}}}, at=3))
    assert outcome.running_by("queue") == {}
    assert {outcome.started[f"a-{i:02}"] for i in range(16)} == {0.0}
    assert outcome.accepted("evil") == ("True", "Accepted")
    assert outcome.locked("evil") == ["n1"]


def test_the_limit_can_be_set() -> None:
    for percent, locked in ((100, 3), (75, 3), (74, 3), (50, 0), (0, 0)):
        outcome = run(FOUR, locking("q1", {"cpu": 12}), locks={"maxReservedPercent": percent})
        assert len(outcome.locked("q1")) == locked, percent


def test_the_limit_is_rounded_up_to_one_node() -> None:
    assert run(node("n1", 4), locking("q1", {"cpu": 1}), locks={"maxReservedPercent": 1}).locked("q1") == ["n1"]


def test_a_guarantee_that_fits_on_fewer_nodes_is_accepted() -> None:
    """3 of 5 nodes may be locked. The best set for 8 CPUs would be the four small nodes (0.4 + 0.15 / 4 + 0.1), but the
    large one alone is enough (0.2 + 0.15 + 0.1)."""
    nodes = [node("large", 16), *[node(f"small-{i}", 2) for i in range(4)]]
    assert play(nodes, locking("q1", {"cpu": 8})).locked("q1") == ["large"]


def test_a_guarantee_that_fits_on_fewer_of_many_nodes_is_accepted() -> None:
    """The same beyond what all combinations are tried of: 8 of 40 nodes may be locked, and 60 CPUs are four large nodes
    or 30 small ones."""
    nodes = [*[node(f"large-{i}", 16) for i in range(5)], *[node(f"small-{i:02}", 2) for i in range(35)]]
    outcome = run(nodes, locking("q1", {"cpu": 60}), locks={"maxReservedPercent": 20})
    assert outcome.locked("q1") == ["large-0", "large-1", "large-2", "large-3"]


def test_who_goes_first_gets_the_nodes() -> None:
    """Each wants 2 of 4 nodes, and 2 may be locked in all: by priority, then weight, then age, then name."""
    two: Document = {"cpu": 8}
    later = locking("a", two)
    later["metadata"]["annotations"] = {"sim.stromboli.io/at": "1s"}
    for winner, loser in (
        (locking("z", two, priority=1), locking("a", two)),
        (locking("z", two, weight=2), locking("a", two)),
        (locking("a", two), locking("z", two)),
        (locking("z", two), later),
    ):
        outcome = run(FOUR, winner, loser)
        assert len(outcome.locked(winner["metadata"]["name"])) == 2
        assert outcome.accepted(loser["metadata"]["name"]) == ("False", "ExceedsMaxReservedPercent")


def test_an_accepted_guarantee_is_not_displaced_by_a_later_one_with_priority() -> None:
    later = locking("z", {"cpu": 8}, priority=9)
    later["metadata"]["annotations"] = {"sim.stromboli.io/at": "2s"}
    outcome = play(FOUR, locking("a", {"cpu": 8}), later)
    assert outcome.locked("a") == ["n1", "n2"]
    assert outcome.accepted("z") == ("False", "ExceedsMaxReservedPercent")


def test_the_alias_of_the_plugin_works() -> None:
    from stromboli.scheduling.queue_locks import lock_rules
    from stromboli.scheduling.registry import Registry

    registry = Registry()
    for name in ("node_reservation", "queue_reservation"):
        text = f"actions: allocate\ntiers: [{{plugins: [{{name: {name}, arguments: {{maxReservedPercent: 12.5}}}}]}}]"
        rules = lock_rules(registry.load(text))
        assert rules is not None
        assert [rules.most_nodes(nodes) for nodes in (0, 1, 8, 9, 16)] == [0, 1, 1, 2, 2]
    assert lock_rules(registry.load("actions: allocate\ntiers: [{plugins: [{name: gang}]}]")) is None
    assert lock_rules(registry.default()) is not None


def test_from_none_to_all_of_the_nodes_may_be_locked() -> None:
    from stromboli.scheduling.configuration import ConfigurationError
    from stromboli.scheduling.queue_locks import lock_rules
    from stromboli.scheduling.registry import Registry

    def most(percent: float) -> int:
        option = f"{{name: node_reservation, arguments: {{maxReservedPercent: {percent}}}}}"
        rules = lock_rules(Registry().load(f"actions: allocate\ntiers: [{{plugins: [{option}]}}]"))
        assert rules is not None
        return rules.most_nodes(8)

    assert [most(percent) for percent in (0, 100)] == [0, 8]
    for percent in (-0.5, 100.5):
        with pytest.raises(ConfigurationError, match="must be from 0 to 100"):
            most(percent)
