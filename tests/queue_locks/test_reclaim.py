"""Who is evicted while nodes are locked: what stands outside the lock, what stands in it, and for whom."""

from __future__ import annotations

import pytest

from queue_locks.lock_scenes import gang, locking, node, patch, play, pod, pods, queue, tainted
from starvation.scenes import priority_class

TWO_NODES = [node("n1", 8), node("n2", 8)]


def lock_later(name: str, at: float, **guarantee: object) -> dict[str, object]:
    return patch("Queue", name, {"spec": {"guarantee": guarantee}}, at=at)


class TestOwnersPodsOutside:
    def test_they_can_be_reclaimed_and_come_back_on_the_lock(self) -> None:
        """24 CPUs. q1 runs 8 pods of a set on n2 when n1 is locked for it, so it counts as having 16 and deserves 12,
        as does q2. q2 takes the 8 idle CPUs of n2 and 4 of q1's back, and q1's replacements land on n1."""
        mine = replicas("mine", 8, "q1", {"on": "n2"})
        outcome = play(
            node("n1", 8), node("n2", 16), queue("q1"), queue("q2"), mine,
            lock_later("q1", 2, policy="Best-Effort", resource={"cpu": 8}), pods("b", 16, queue="q2", at=4),
            until=20,
        )  # fmt: skip
        assert outcome.locked("q1") == ["n1"]
        assert [node_name for _, _, node_name in outcome.evictions()] == ["n2"] * 4
        assert outcome.running_by("queue") == {"q1": 8, "q2": 12}
        assert outcome.running_by("node") == {"n1": 4, "n2": 16}

    def test_nobody_is_evicted_on_a_node_closed_to_the_claimant(self) -> None:
        """q2 deserves 8 and has none. q1 has 8 on its own n1; q3 has n2. Only q3's pods go, whatever q1 has."""
        outcome = play(
            TWO_NODES, locking("q1", {"cpu": 8}, weight=1), queue("q2", weight=9), queue("q3"),
            pods("mine", 8, queue="q1"), pods("c", 8, queue="q3"), pods("b", 8, queue="q2", at=4),
            until=15,
        )  # fmt: skip
        assert {name for _, _, name in outcome.evictions()} == {"n2"}
        assert outcome.running_by("queue")["q1"] == 8


class TestOnOwnNodes:
    def test_the_owner_reclaims_there_first(self) -> None:
        """q2 has all 16 CPUs when n1 is locked for q1: more than its 8. q1's pods take back CPUs on n1, although n2
        has pods that are as easy to evict and younger."""
        outcome = play(
            TWO_NODES, queue("q1"), queue("q2"), pods("a", 8, queue="q2", on="n1"),
            pods("b", 8, queue="q2", on="n2", at=1), lock_later("q1", 2, policy="Best-Effort", resource={"cpu": 8}),
            pods("mine", 2, queue="q1", at=4),
        )  # fmt: skip
        assert outcome.locked("q1") == ["n1"]
        assert [name for _, _, name in outcome.evictions()] == ["n1", "n1"]
        assert outcome.nodes["mine-00"] == outcome.nodes["mine-01"] == "n1"

    def test_what_a_queue_deserves_is_not_taken(self) -> None:
        """q2 has 8 CPUs on n1, which is what it deserves of what is in its reach. Best-Effort waits for them to end."""
        outcome = play(
            TWO_NODES, queue("q1"), queue("q2"), pods("a", 8, queue="q2", on="n1"), pods("c", 8, queue="q1", on="n2"),
            lock_later("q1", 2, policy="Best-Effort", percentage={"value": 0.5}), pods("mine", 2, queue="q1", at=4),
        )  # fmt: skip
        assert outcome.evictions() == []


class TestGuaranteed:
    """The lock is the claimant: pods of others go although no pod of the queue waits."""

    def test_only_as_much_as_is_missing(self) -> None:
        """q2 has all of both nodes. q1 is guaranteed 3 CPUs: 3 pods of n1 go, and its other 5 stay."""
        outcome = play(TWO_NODES, locking("q1", {"cpu": 3}, policy="Guaranteed"), queue("q2"),
                       pods("a", 8, queue="q2", on="n1"), pods("b", 8, queue="q2", on="n2"))  # fmt: skip
        assert outcome.locked("q1") == ["n1"]
        assert [name for _, _, name in outcome.evictions()] == ["n1"] * 3
        evicted = [told for told in outcome.report["pods"].values() if told["phase"] == "Evicted"]
        assert {told["reason"] for told in evicted} == {"NodeLocked"}
        assert outcome.satisfied("q1") == ("True", "Satisfied")
        assert outcome.queue("q1")["reservation"]["resource"] == {"cpu": "3"}

    def test_one_node_in_each_round(self) -> None:
        """Half of 4 nodes is 2. Their pods are evicted at once on one of them, and 5 seconds later on the other."""
        nodes = [node(f"n{i}", 4) for i in range(4)]
        full = [p for i in range(4) for p in pods(f"a{i}", 4, queue="q2", on=f"n{i}")]
        outcome = play(nodes, locking("q1", policy="Guaranteed", share=0.5), queue("q2"), full, until=12)
        assert outcome.locked("q1") == ["n0", "n1"]
        assert [(t, name) for t, _, name in outcome.evictions()] == [(0.0, "n0")] * 4 + [(5.0, "n1")] * 4

    def test_also_if_nodes_are_lost_between_rounds(self) -> None:
        """n0 is cleared at once and lost at 1 s, n1 is locked in its place and lost at 2 s. n2 is cleared in the next
        round, and nobody was evicted from n1."""
        nodes = [node("n0", 4, until=1), node("n1", 4, until=2), *[node(f"n{i}", 4) for i in (2, 3)]]
        full = [p for i in range(4) for p in pods(f"a{i}", 4, queue="q2", on=f"n{i}")]
        outcome = play(nodes, locking("q1", {"cpu": 4}, policy="Guaranteed"), queue("q2"), full, until=12)
        cleared = [(e["t"], e["node"]) for e in outcome.report["events"] if e["reason"] == "NodeLocked"]
        assert cleared == [(0.0, "n0")] * 4 + [(5.0, "n2")] * 4

    def test_a_longer_period_slows_it_down(self) -> None:
        nodes = [node(f"n{i}", 4) for i in range(4)]
        full = [p for i in range(4) for p in pods(f"a{i}", 4, queue="q2", on=f"n{i}")]
        outcome = play(nodes, locking("q1", policy="Guaranteed", share=0.5), queue("q2"), full, until=25,
                       flags=("--relock-period", "10s"))  # fmt: skip
        assert sorted({t for t, _, _ in outcome.evictions()}) == [0.0, 10.0]

    def test_protected_pods_stay(self) -> None:
        outcome = play(
            TWO_NODES, locking("q1", {"cpu": 8}, policy="Guaranteed"), queue("q2"),
            pods("a", 3, queue="q2", on="n1", preemptable=False), pods("b", 5, queue="q2", on="n1"),
            pods("c", 8, queue="q2", on="n2"),
        )  # fmt: skip
        # n2 would be free sooner, but a node is chosen by its score, not by what can be evicted; 5 of 8 go.
        assert outcome.locked("q1") == ["n1"]
        assert len(outcome.evictions()) == 5
        assert outcome.satisfied("q1") == ("False", "Draining")

    def test_pods_of_daemon_sets_stay(self) -> None:
        """They would come back. 6 of n1's 8 CPUs are cleared, and that is all that the node offers."""
        agents = pods("agent", 2, queue="q2", on="n1")
        for agent in agents:
            agent["metadata"]["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}
            ]
        outcome = play(
            node("n1", 8), node("n2", 8), locking("q1", policy="Guaranteed", share=0.5), queue("q2"), agents,
            pods("b", 6, queue="q2", on="n1"), pods("c", 8, queue="q2", on="n2", preemptable=False),
        )  # fmt: skip
        assert outcome.locked("q1") == ["n1"]
        assert sorted(who for _, who, _ in outcome.evictions()) == [f"b-0{i}" for i in range(6)]
        assert outcome.satisfied("q1") == ("True", "Satisfied")

    def test_a_budget_is_kept(self) -> None:
        budget = {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 6, "selector": {"matchLabels": {"app": "a"}}},
        }  # fmt: skip
        labelled = pods("a", 8, queue="q2", on="n1")
        for document in labelled:
            document["metadata"]["labels"] = {"app": "a"}
        outcome = play(TWO_NODES, locking("q1", {"cpu": 8}, policy="Guaranteed"), queue("q2"), labelled, budget,
                       pods("c", 8, queue="q2", on="n2", preemptable=False))  # fmt: skip
        assert len(outcome.evictions()) == 2

    def test_no_queue_falls_below_its_own_guarantee(self) -> None:
        """q2 has 12 of 16 CPUs and is guaranteed 10 of them as a quota: 2 of its 4 pods on n1 go."""
        outcome = play(
            TWO_NODES, locking("q1", {"cpu": 6}, policy="Guaranteed"), queue("q2", guarantee={"resource": {"cpu": 10}}),
            queue("q3"), pods("a", 4, queue="q2", on="n1"), pods("b", 8, queue="q2", on="n2"),
            pods("c", 4, queue="q3", on="n1", preemptable=False),
        )  # fmt: skip
        assert outcome.locked("q1") == ["n1"]
        assert len(outcome.evictions()) == 2

    def test_what_a_queue_is_promised_does_not_count_for_its_guarantee(self) -> None:
        """q2 is guaranteed 10 CPUs. At 3 s next preempts old on n3, which is gone at 11 s; so 10 are used, and 2 are
        promised. Until next starts, pods of q2 on n1 stay, though the node is locked from 5 s on."""
        owner = locking("q1", {"cpu": 8}, policy="Guaranteed")
        owner["metadata"]["annotations"] = {"sim.stromboli.io/at": "5s"}
        outcome = play(
            TWO_NODES, node("n3", 2, labels={"own": "3"}), owner, queue("q2", guarantee={"resource": {"cpu": 10}}),
            pods("a", 2, queue="q2", on="n1"), pods("b", 8, queue="q2", on="n2"), priority_class("high", 100),
            pod("old", 2, queue="q2", on="n3", grace=8),
            pod("next", 2, queue="q2", at=3, priority="high", selector={"own": "3"}),
            until=20, flags=("--relock-period", "2s"),
        )  # fmt: skip
        assert outcome.locked("q1") == ["n1"]
        assert outcome.started == {"next": 11}
        assert [(t, who) for t, who, _ in outcome.evictions()] == [(3.0, "old"), (12.0, "a-00"), (12.0, "a-01")]

    def test_queues_above_what_they_deserve_lose_first(self) -> None:
        """Of 8 CPUs in reach q2 (12 used) and q3 (2 used) deserve 6 and 2. q1's 4 CPUs come from q2's pods on n1."""
        outcome = play(
            TWO_NODES, locking("q1", {"cpu": 4}, policy="Guaranteed"), queue("q2"), queue("q3"),
            pods("a", 6, queue="q2", on="n1"), pods("b", 8, queue="q2", on="n2"), pods("c", 2, queue="q3", on="n1"),
        )  # fmt: skip
        assert outcome.locked("q1") == ["n1"]
        assert len(outcome.evictions()) == 4
        assert all(who.startswith("a-") for _, who, _ in outcome.evictions())

    def test_then_as_few_pods_as_possible(self) -> None:
        """3 CPUs are missing: one pod of 4 CPUs goes, not three of 1."""
        outcome = play(
            TWO_NODES, locking("q1", {"cpu": 3}, policy="Guaranteed"), queue("q2"),
            pods("small", 4, queue="q2", on="n1"), pod("large", 4, queue="q2", on="n1"),
            pods("b", 8, queue="q2", on="n2"),
        )  # fmt: skip
        assert [who for _, who, _ in outcome.evictions()] == ["large"]

    def test_a_gang_goes_as_a_whole_or_not_at_all(self) -> None:
        """A gang of 4, two of them on n1. q1's 2 CPUs there can only be freed by evicting all 4."""
        outcome = play(
            TWO_NODES, locking("q1", {"cpu": 8}, policy="Guaranteed"), queue("q2"),
            gang("g", 4, 4, queue="q2", on="n1"), pods("b", 8, queue="q2", on="n2"),
        )  # fmt: skip
        assert sorted(who for _, who, _ in outcome.evictions()) == ["g-0", "g-1"]

    def test_no_pod_of_a_gang_that_goes_is_spared(self) -> None:
        """Of a gang of 4 pods, 3 must run. 2 CPUs are missing. One pod may go alone and gives 1 of them; the other
        three go together, and would do without the first one, which would be left alone."""
        outcome = play(
            TWO_NODES, locking("q1", {"cpu": 2}, policy="Guaranteed"), queue("q2"),
            gang("g", 1, 1, 1, 1, least=3, queue="q2", on="n1"), pods("stays", 4, on="n1", preemptable=False),
            pods("b", 8, queue="q2", on="n2", preemptable=False),
        )  # fmt: skip
        assert sorted(who for _, who, _ in outcome.evictions()) == ["g-0", "g-1", "g-2", "g-3"]

    @pytest.mark.parametrize("others", [0, 4])
    @pytest.mark.parametrize(("cpu", "evicted"), [(5, 5), (1, 8)])
    def test_of_two_guarantees_the_one_that_counts_is_cleared_for(self, cpu: int, evicted: int, others: int) -> None:
        """Half of the nodes that count are 2, and so are 5 CPUs: at a tie the amount counts, and 5 pods go. 1 CPU is
        less than half of the nodes, so all 8 go. Nodes that do not count change nothing."""
        nodes = [node(f"n{i}", 4) for i in range(4)] + [tainted(node(f"t{i}", 4)) for i in range(others)]
        full = [p for i in range(4) for p in pods(f"a{i}", 4, queue="q2", on=f"n{i}")]
        both = locking("q1", {"cpu": cpu}, policy="Guaranteed", share=0.5)
        outcome = play(nodes, both, queue("q2"), full, until=20)
        assert outcome.locked("q1") == ["n0", "n1"]
        assert len(outcome.evictions()) == evicted
        assert outcome.satisfied("q1") == ("True", "Satisfied")

    def test_best_effort_never_evicts(self) -> None:
        outcome = play(TWO_NODES, locking("q1", {"cpu": 3}), queue("q2"), pods("a", 8, queue="q2", on="n1"),
                       pods("b", 8, queue="q2", on="n2"), until=30)  # fmt: skip
        assert outcome.evictions() == []
        assert outcome.satisfied("q1") == ("False", "Draining")


def replicas(name: str, count: int, queue_name: str, where: dict[str, str]) -> list[dict[str, object]]:
    """A ReplicaSet whose first pods run on a node already."""
    labels = {"app": name}
    spec = {"schedulerName": "volcano", "containers": [{"name": "m", "resources": {"requests": {"cpu": 1}}}]}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
    notes = {"scheduling.volcano.sh/queue-name": queue_name}
    members = pods(name, count, queue=queue_name, **where)
    for member in members:
        member["metadata"] |= {"labels": labels, "ownerReferences": [owner]}
    return [
        {
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default", "annotations": notes},
            "spec": {
                "replicas": count, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels, "annotations": notes}, "spec": spec},
            },
        },
        *members,
    ]  # fmt: skip


@pytest.mark.parametrize("policy", ["Best-Effort", "Guaranteed"])
def test_a_queue_that_allows_no_reclaim_keeps_its_pods(policy: str) -> None:
    outcome = play(TWO_NODES, locking("q1", {"cpu": 8}, policy=policy), queue("q2", reclaimable=False),
                   pods("a", 8, queue="q2", on="n1"), pods("b", 8, queue="q2", on="n2"))  # fmt: skip
    assert outcome.evictions() == []
