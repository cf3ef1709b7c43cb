"""A locked node counts whole as its owner's, and everybody else shares what is left."""

from __future__ import annotations

import pytest

from queue_locks.lock_scenes import gang, locking, node, play, pod, pods, queue

TWO_NODES = [node("n1", 8), node("n2", 8)]


def test_others_share_what_is_in_their_reach() -> None:
    """16 CPUs, of which n1 is locked for q1's single CPU. It counts as 8, so q2 and q3 deserve (16 - 8) / 2 = 4 each.
    q2 has all 8 CPUs of n2 when q3 comes, so 4 of its pods go."""
    outcome = play(
        TWO_NODES, locking("q1", {"cpu": 1}), queue("q2"), queue("q3"),
        pods("a", 16, queue="q2"), pods("b", 16, queue="q3", at=3),
        until=20,
    )  # fmt: skip
    assert outcome.locked("q1") == ["n1"]
    assert outcome.running_by("queue") == {"q2": 4, "q3": 4}
    assert len(outcome.evictions()) == 4
    assert outcome.queue("q1")["allocated"] == {"cpu": "8"}
    assert outcome.queue("q1")["deserved"] == {"cpu": "8"}
    assert outcome.queue("q2")["deserved"] == {"cpu": "4"}


def test_without_the_plugin_the_guarantee_is_a_quota_of_one_cpu() -> None:
    outcome = play(
        TWO_NODES, locking("q1", {"cpu": 1}), queue("q2"), queue("q3"),
        pods("a", 16, queue="q2"), pods("b", 16, queue="q3"),
        until=20, locks=None,
    )  # fmt: skip
    assert outcome.locked("q1") == []
    assert sum(outcome.running_by("queue").values()) == 15


def test_the_owner_fills_its_node_although_it_counts_as_full() -> None:
    """q1 deserves its 8 CPUs and counts as having them; the 8 pods land there all the same, the ninth does not."""
    outcome = play(
        TWO_NODES, locking("q1", {"cpu": 1}, capability={"cpu": 8}), queue("q2"),
        pods("a", 8, queue="q2"), pods("b", 9, queue="q1", at=2),
    )  # fmt: skip
    assert outcome.running_by("node") == {"n1": 8, "n2": 8}
    assert outcome.pending == {"b-08"}
    assert outcome.why("b-08")[0] == "QueueOverQuota"
    assert outcome.queue("q1")["allocated"] == {"cpu": "8"}
    assert outcome.evictions() == []


def test_a_capability_smaller_than_the_node_limits_what_is_used() -> None:
    outcome = play(TWO_NODES, locking("q1", {"cpu": 1}, capability={"cpu": 3}), pods("b", 8, queue="q1"))
    assert outcome.running_by("node") == {"n1": 3}


def test_it_costs_no_namespace() -> None:
    outcome = play(TWO_NODES, locking("q1", {"cpu": 1}), pods("b", 2, queue="q1"))
    assert outcome.report["namespaces"]["q1/default"]["allocated"] == {"cpu": "2"}


def test_a_percentage_guarantees_what_its_nodes_hold() -> None:
    """Half of 4 nodes of 8 CPUs are 16 CPUs; q2 deserves the other 16."""
    outcome = play(
        [node(f"n{i}", 8) for i in range(4)], locking("q1", share=0.5), queue("q2"), pods("a", 40, queue="q2"),
    )  # fmt: skip
    assert outcome.locked("q1") == ["n0", "n1"]
    assert outcome.queue("q1")["deserved"] == {"cpu": "16"}
    assert outcome.running_by("node") == {"n2": 8, "n3": 8}


def test_a_percentage_that_cannot_fit_the_capability_is_refused() -> None:
    """Half of 4 nodes of 8 CPUs is 16 CPUs, and the queue may have 10."""
    nodes = [node(f"n{i}", 8) for i in range(4)]
    outcome = play(nodes, locking("q1", share=0.5, capability={"cpu": 10}))
    assert outcome.accepted("q1") == ("False", "ExceedsCapability")
    assert outcome.locked("q1") == []
    assert play(nodes, locking("q1", share=0.5, capability={"cpu": 16})).locked("q1") == ["n0", "n1"]


def test_a_gang_larger_than_its_nodes_spreads_beyond_them() -> None:
    """q1's gang of 12 needs its own 8 CPUs and 4 of n2, which nobody else asks for."""
    outcome = play(TWO_NODES, locking("q1", {"cpu": 1}), gang("g", *([1] * 12), queue="q1"))
    assert outcome.running_by("node") == {"n1": 8, "n2": 4}


def test_a_job_within_the_guarantee_is_admitted_although_the_cluster_is_full() -> None:
    """n1 is full of q2 before q1 is guaranteed 4 CPUs as a quota. q1's job states that it needs 4, and is admitted."""
    group, *members = gang("j", 1, 1, 1, 1, queue="q1", at=2)
    group["spec"]["minResources"] = {"cpu": 4}
    parts = [*pods("a", 10, queue="q2", on="n1", preemptable=False), group, *members]
    outcome = play(node("n1", 10), queue("q1", guarantee={"resource": {"cpu": 4}}), queue("q2"), parts)
    assert outcome.report["podGroups"]["default/j"]["phase"] == "Inqueue"
    outcome = play(node("n1", 10), queue("q1"), queue("q2", weight=9), parts)
    assert outcome.report["podGroups"]["default/j"]["phase"] == "Pending"


class TestQuota:
    """A bare amount is a quota, as in Volcano: it locks nothing."""

    def test_what_is_guaranteed_is_kept_even_if_idle(self) -> None:
        outcome = play(node("n1", 2), queue("q1", guarantee={"resource": {"cpu": 2}}), queue("q2"),
                       pod("a", 0.5, queue="q2"))  # fmt: skip
        assert outcome.pending == {"a"}
        assert outcome.locked("q1") == []

    def test_a_pod_that_would_need_part_of_it_waits(self) -> None:
        guarantee = {"resource": {"cpu": 1, "memory": "1Gi"}}
        outcome = play(node("n1", 2, memory="2Gi"), queue("q1", guarantee=guarantee), queue("q2"),
                       pod("a", 1.5, queue="q2"), pod("b", 1, queue="q2"))  # fmt: skip
        assert outcome.pending == {"a"}

    def test_a_closed_queue_is_guaranteed_nothing_beyond_its_use(self) -> None:
        """q1 uses 1 of its 4 CPUs when it is closed; q2 gets the other 7 of 8."""
        closing = queue("q1", guarantee={"resource": {"cpu": 4}})
        closing["status"] = {"state": "Closed"}
        outcome = play(node("n1", 8), closing, queue("q2"), pods("a", 8, queue="q2"), pod("b", 1, queue="q1", on="n1"))
        assert outcome.running_by("queue") == {"q1": 1, "q2": 7}


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
def test_either_sharing_plugin_keeps_to_it(sharing: str) -> None:
    outcome = play(
        TWO_NODES, locking("q1", {"cpu": 1}), queue("q2"), pods("a", 16, queue="q2"), pods("b", 9, queue="q1", at=1),
        sharing=sharing,
    )  # fmt: skip
    assert outcome.running_by("node") == {"n1": 8, "n2": 8}
    assert outcome.running_by("queue") == {"q1": 8, "q2": 8}
    assert outcome.why("a-15")[0] == "NodeLockedByQueue"
