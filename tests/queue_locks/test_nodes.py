"""Which nodes count, which are locked, and what happens when they come and go."""

from __future__ import annotations

import pytest

from queue_locks.lock_scenes import Document, locking, node, patch, play, pod, pods, queue, run, tainted


def four(**options: object) -> list[Document]:
    return [node(f"n{i}", 4, **options) for i in range(1, 5)]  # type: ignore[arg-type]


class TestPercentages:
    @pytest.mark.parametrize(
        ("nodes", "share", "locked"),
        [(4, 0.5, 2), (4, 0.49, 1), (4, 0.25, 1), (4, 0.24, 0), (5, 0.5, 2), (10, 0.3, 3), (3, 0, 0)],
    )
    def test_the_number_of_nodes_is_rounded_down(self, nodes: int, share: float, locked: int) -> None:
        """0.3 of 10 is exactly 3, not 2.9999999999999996."""
        outcome = run([node(f"n{i}", 4) for i in range(nodes)], locking("q1", share=share))
        assert len(outcome.locked("q1")) == locked
        assert (outcome.warnings("NoWholeNode") != []) == (locked == 0)

    def test_less_than_a_node_is_a_warning(self) -> None:
        outcome = play(four(), locking("q1", share=0.2))
        assert outcome.warnings("NoWholeNode") == [(0.0, "q1")]
        assert outcome.accepted("q1") == ("True", "Accepted")

    def test_dimensions_may_name_gpus(self) -> None:
        """Half of the nodes: with half of the GPUs if the share is about those, else without any to waste."""
        gpus = {"nvidia.com/gpu": 2}
        nodes = [node("c1", 4), node("c2", 4), node("g1", 4, **gpus), node("g2", 4, **gpus)]
        assert play(nodes, locking("q1", share=0.5, dimensions=["gpu"])).locked("q1") == ["c1", "g1"]
        assert play(nodes, locking("q1", share=0.5, dimensions=["cpu"])).locked("q1") == ["c1", "c2"]

    def test_tainted_nodes_do_not_count(self) -> None:
        """4 of 6 nodes count: half of them are 2, and none of those with a taint is locked."""
        nodes = [*four(), tainted(node("a1", 4)), tainted(node("a2", 4))]
        assert play(nodes, locking("q1", share=0.5)).locked("q1") == ["n1", "n2"]

    def test_cordoned_nodes_count_but_are_not_locked(self) -> None:
        """Kubernetes taints a cordoned node, which changes nothing: it still counts."""
        cordoned = tainted(node("a1", 4), key="node.kubernetes.io/unschedulable")
        cordoned["spec"]["unschedulable"] = True
        outcome = play([cordoned, *four()[1:]], locking("q1", share=0.5))
        assert outcome.locked("q1") == ["n2", "n3"]


class TestBothGiven:
    """The one counts whose nodes hold the larger dominant share."""

    def test_the_share_of_the_nodes(self) -> None:
        """Half of 4 nodes is 8 CPUs of 16; 4 CPUs are a quarter."""
        assert play(four(), locking("q1", {"cpu": 4}, share=0.5)).locked("q1") == ["n1", "n2"]

    def test_the_amounts(self) -> None:
        """A quarter of the nodes is 4 CPUs; 6 CPUs need two nodes."""
        assert play(four(), locking("q1", {"cpu": 6}, share=0.25)).locked("q1") == ["n1", "n2"]

    def test_at_a_tie_the_amounts(self) -> None:
        """Both are one node. By amounts it is n2, which has the 4 CPUs and no memory to waste."""
        nodes = [node("n1", 4, memory="8Gi"), node("n2", 4), node("n3", 4, memory="8Gi"), node("n4", 4, memory="8Gi")]
        outcome = play(nodes, locking("q1", {"cpu": 4}, share=0.25, dimensions=["memory"]))
        assert outcome.accepted("q1") == ("True", "Accepted")

    def test_a_dominant_share_of_memory_beats_one_of_cpu(self) -> None:
        """12Gi of 16Gi is one node's memory, 3/4; half of the nodes is half of the CPUs."""
        nodes = [node("m", 4, memory="12Gi"), *(node(f"n{i}", 4, memory="1Gi") for i in range(4))]
        outcome = play(nodes, locking("q1", {"memory": "12Gi"}, share=0.4))
        assert outcome.locked("q1") == ["m"]


class TestComingAndGoing:
    def test_a_lost_node_is_replaced_at_once(self) -> None:
        nodes = [node("n1", 4, until=3), *four()[1:]]
        outcome = play(nodes, locking("q1", {"cpu": 4}))
        assert outcome.moves() == [
            (0.0, "Locked", "q1", "n1"), (3.0, "Unlocked", "q1", "n1"), (3.0, "Locked", "q1", "n2"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "change",
        [
            {"spec": {"unschedulable": True}},
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            {"spec": {"taints": [{"key": "example.com/other", "effect": "NoSchedule"}]}},
            {"spec": {"taints": [{"key": "example.com/other", "effect": "NoExecute"}]}},
            {"status": {"allocatable": {"cpu": 2}}},
        ],
    )
    def test_so_is_one_that_is_cordoned_not_ready_tainted_or_too_small(self, change: Document) -> None:
        outcome = play(four(), locking("q1", {"cpu": 4}), patch("Node", "n1", change, at=3))
        assert outcome.locked("q1") == ["n2"] or outcome.locked("q1") == ["n1", "n2"]
        assert (3.0, "Locked", "q1", "n2") in outcome.moves()

    def test_the_other_nodes_of_the_set_stay(self) -> None:
        """8 CPUs are n1 and n2. Without n1 they are n2 and n3."""
        outcome = play(four(), locking("q1", {"cpu": 8}), patch("Node", "n1", {"spec": {"unschedulable": True}}, at=3))
        assert outcome.locked("q1") == ["n2", "n3"]
        assert len(outcome.moves()) == 4

    def test_an_accepted_guarantee_shrinks_with_the_nodes_and_is_not_refused(self) -> None:
        """Half of 4 nodes are 2. Three nodes are lost: of 1 node 1 may be locked, and half of it is none. Amounts lock
        what they can. When the nodes are back, all is as before."""
        nodes = [node("n1", 4), *(node(f"n{i}", 4, until=3) for i in (2, 3, 4))]
        back = [node(f"m{i}", 4, at=8) for i in (2, 3, 4)]
        parts = [*nodes, *back, locking("q1", {"cpu": 8})]
        during = play(parts, until=6)
        assert during.accepted("q1") == ("True", "Accepted")
        assert during.locked("q1") == ["n1"]
        assert during.satisfied("q1") == ("False", "TooFewNodes")
        after = play(parts, until=9)
        assert len(after.locked("q1")) == 2
        assert after.satisfied("q1") == ("True", "Satisfied")
        assert after.warnings("ReservationRefused") == []

    def test_only_a_new_or_edited_guarantee_is_refused(self) -> None:
        """With one node left, half of two nodes is too much for a new guarantee."""
        nodes = [node("n1", 4), *(node(f"n{i}", 4, until=3) for i in (2, 3, 4))]
        edited = patch("Queue", "q1", {"spec": {"guarantee": {"resource": {"cpu": 7}}}}, at=5)
        outcome = play(nodes, locking("q1", {"cpu": 8}), edited)
        assert outcome.accepted("q1") == ("False", "ExceedsCluster")
        assert outcome.warnings("ReservationRefused") == [(5.0, "q1")]

    def test_a_new_node_completes_a_set(self) -> None:
        """maxReservedPercent allows all nodes. Of the 3 nodes one is cordoned, so 8 of 12 CPUs can be locked."""
        nodes = [node("n1", 4), node("n2", 4), {**node("n3", 4), "spec": {"unschedulable": True}}]
        outcome = play(nodes, locking("q1", {"cpu": 12}), node("n4", 4, at=4), locks={"maxReservedPercent": 100})
        assert (4.0, "Locked", "q1", "n4") in outcome.moves()
        assert outcome.satisfied("q1") == ("True", "Satisfied")


class TestWhatDoesNotDrain:
    def test_daemons_do_not_count_as_cover(self) -> None:
        """Each node has 4 CPUs and a daemon of 1. 4 CPUs need two nodes, 3 need one."""
        daemons = []
        for i in range(1, 5):
            daemon = pod(f"d{i}", 1, on=f"n{i}")
            daemon["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}]
            daemons.append(daemon)
        assert play(four(), daemons, locking("q1", {"cpu": 4})).locked("q1") == ["n1", "n2"]
        assert play(four(), daemons, locking("q1", {"cpu": 3})).locked("q1") == ["n1"]

    def test_mirror_pods_and_critical_pods_do_not_either(self) -> None:
        mirror, critical = pod("m", 1, on="n1"), pod("c", 1, on="n2", priority="system-node-critical")
        mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x"
        classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                   "metadata": {"name": "system-node-critical"}, "value": 2000001000}  # fmt: skip
        assert play(four(), mirror, critical, classes, locking("q1", {"cpu": 4})).locked("q1") == ["n3"]

    def test_a_set_that_does_not_drain_is_chosen_anew(self) -> None:
        """At t=0 all nodes are full, and n1 is the best by its size. n3 drains at t=2, and n1 never does. By its score
        n3 is not better by a tenth: 0.4 · 4/6 + 0.15 + 0.1 = 0.517 to 0.55. But after 10 seconds without any progress,
        in the round at t=15, it takes the place of n1."""
        nodes = [node("n1", 4), node("n2", 4), node("n3", 6), node("n4", 6)]
        full = [p for i, size in ((1, 4), (2, 4), (4, 6)) for p in pods(f"a{i}", size, queue="q2", on=f"n{i}")]
        parts = [*nodes, *full, *pods("b", 6, queue="q2", on="n3", run=2), locking("q1", {"cpu": 4}), queue("q2")]
        timeout = {"reservationTimeout": 10}
        before = play(parts, reserve=timeout, until=14)
        assert before.locked("q1") == ["n1"]
        after = play(parts, reserve=timeout, until=16)
        assert after.locked("q1") == ["n3"]
        assert play(parts, reserve={"reservationTimeout": 0}, until=40).locked("q1") == ["n1"]


@pytest.mark.parametrize(("asked", "locked"), [({"nvidia.com/gpu": 2}, []), ({"cpu": 2, "nvidia.com/gpu": 2}, ["n1"])])
def test_a_resource_that_no_node_has_any_more_is_missing(asked: Document, locked: list[str]) -> None:
    """The only node with GPUs is deleted at 3 s. The guarantee stays, and says that it is not met."""
    outcome = play(node("gpus", 4, until=3, **{"nvidia.com/gpu": 4}), four(), locking("q1", asked))
    assert outcome.moves()[0] == (0.0, "Locked", "q1", "gpus")
    assert outcome.locked("q1") == locked
    assert outcome.accepted("q1") == ("True", "Accepted")
    assert outcome.satisfied("q1") == ("False", "TooFewNodes")


def test_a_set_that_replaced_one_that_does_not_drain_stays() -> None:
    """q2 uses 3 CPUs of n1, where q1 has one, and 2 each of n2 and n3, and never ends. After the timeout n2 and n3 have
    the 4 CPUs. Each of them would offer as much alone, and n1 has the better score, but then less would be ready."""
    used = [pod("mine", 1, queue="q1", on="n1"), pod("a", 3, queue="q2", on="n1"), pod("b", 2, queue="q2", on="n2")]
    outcome = play(
        four()[:3], locking("q1", {"cpu": 4}), queue("q2"), used, pod("c", 2, queue="q2", on="n3"),
        reserve={"reservationTimeout": 10}, locks={"maxReservedPercent": 100}, until=60,
    )  # fmt: skip
    assert [(t, what, name) for t, what, _, name in outcome.moves()] == [
        (0.0, "Locked", "n1"), (15.0, "Unlocked", "n1"), (15.0, "Locked", "n2"), (15.0, "Locked", "n3"),
    ]  # fmt: skip
    assert outcome.satisfied("q1") == ("True", "Satisfied")


def test_a_round_that_had_nothing_new_to_find_is_not_made_up_for() -> None:
    """Nothing happens until t=6, so the round at t=5 is skipped. What changes at t=6 is looked at in the round at t=10,
    as it would be by a worker that started at t=6."""
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
             "metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 1, "queue": "q2"}}  # fmt: skip
    running = [pod(f"a-{i}", 4, group="g", on=f"n{i}", run=6) for i in range(1, 5)]
    outcome = play(four(), locking("q1", {"cpu": 4}), queue("q2"), group, running, until=12)
    times = {c["type"]: c["lastTransitionTime"] for c in outcome.queue("q1")["conditions"]}
    assert times["ReservationSatisfied"] == 10.0


def test_pods_that_run_from_the_start_count_as_their_queues() -> None:
    """n2 is used by q1: 0.4 + 0.35 / 4 + 0.15 + 0.1 · 3 / 4 is better than 0.4 + 0.15 + 0.1. The pod has no PodGroup
    when the nodes are chosen for the first time, but it names its queue."""
    running = pod("mine", 1, queue="q1", on="n2")
    assert play(four(), locking("q1", {"cpu": 4}), running).moves() == [(0.0, "Locked", "q1", "n2")]
