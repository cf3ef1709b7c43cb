"""What queues deserve, in which order they are served, and how much more each may take."""

from __future__ import annotations

import pytest

from builders import GPU, START, cluster, group, node, pod, pods, queue, session
from stromboli.api import KObject
from stromboli.cluster import Cluster, QueueName
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import LeavingPods

PROPORTION = [["proportion"]]
G = 1_000_000_000


def demand(name: str, cpu: int, **facts: object) -> list[KObject]:
    """A queue whose pods ask for so many CPUs."""
    return [
        queue(name, **facts),  # type: ignore[arg-type]
        group(name, queue=name),
        *([pod(name, group=name, cpu=cpu)] if cpu else []),
    ]


def deserved(current: Session, resource: str = "cpu") -> dict[str, int]:
    """What each queue deserves of a resource, without those that deserve none."""
    column = current.axis.index[resource]
    return {name: int(vector[column]) for name, vector in current.deserved.items() if vector[column]}


def request(current: Session, **amounts: int) -> object:
    return current.axis.vector({"nvidia.com/gpu" if name == "gpu" else name: n for name, n in amounts.items()})


# -- deserved -----------------------------------------------------------------------------------------------------

FIRST_THREE = [
    *demand("q1", 30, guarantee={"cpu": 5}),
    *demand("q2", 30),
    *demand("q3", 30, capability={"cpu": 10}),
]


@pytest.mark.parametrize(
    ("cpus", "objects", "expected"),
    [
        # 30000 / 3
        (30, FIRST_THREE, {"q1": 10_000, "q2": 10_000, "q3": 10_000}),
        # 30000 / 5 for each unit of weight
        (
            30,
            [*FIRST_THREE, *demand("q4", 30, weight=2, guarantee={"cpu": 10})],
            {"q1": 6_000, "q2": 6_000, "q3": 6_000, "q4": 12_000},
        ),
        # q4 wants 2000 but is guaranteed 10000; 20000 / 3 = 6666, and the two millicores left go to the oldest
        (
            30,
            [*FIRST_THREE, *demand("q4", 2, weight=2, guarantee={"cpu": 10})],
            {"q1": 6_667, "q2": 6_667, "q3": 6_666, "q4": 10_000},
        ),
        (
            16,
            [*demand("q1", 2), *demand("q2", 20, weight=3), *demand("q3", 3, weight=4)],
            {"q1": 2_000, "q2": 11_000, "q3": 3_000},
        ),
        (10, [*demand("q1", 10, capability={"cpu": 2}), *demand("q2", 10)], {"q1": 2_000, "q2": 8_000}),
        (10, [*demand("q1", 0, guarantee={"cpu": 4}), *demand("q2", 10)], {"q1": 4_000, "q2": 6_000}),
        # The guarantee of a queue with no job at all is withheld just the same.
        (10, [queue("q1", guarantee={"cpu": 4}), *demand("q2", 10)], {"q1": 4_000, "q2": 6_000}),
        # A weight of 0 counts as 1: nobody is divided by nothing, and nobody gets everything.
        (10, [*demand("q1", 10, weight=0), *demand("q2", 10)], {"q1": 5_000, "q2": 5_000}),
    ],
)
def test_the_cluster_is_divided_by_weight(cpus: int, objects: list[KObject], expected: dict[str, int]) -> None:
    assert deserved(session(cluster(node("n1", cpu=cpus), objects), tiers=PROPORTION)) == expected


# realCapability = (30 - 5 - 10) + own guarantee, and no more than the capability: 20, 15, 10, 25
@pytest.mark.parametrize(("name", "limit"), [("q1", 20), ("q2", 15), ("q3", 10), ("q4", 25)])
def test_what_is_guaranteed_to_others_is_a_hard_limit(name: str, limit: int) -> None:
    fourth = demand("q4", 30, weight=2, guarantee={"cpu": 10})
    current = session(cluster(node("n1", cpu=30), FIRST_THREE, fourth), tiers=PROPORTION)
    own = current.queues[name]  # type: ignore[index]
    within, beyond = request(current, cpu=limit * 1000), request(current, cpu=limit * 1000 + 1)
    assert current.allocatable(own, within, lending=True) is None  # type: ignore[arg-type]
    assert current.allocatable(own, beyond, lending=True) == Refusal(  # type: ignore[arg-type]
        "QueueOverQuota", resource="cpu", need=limit * 1000 + 1, have=0, total=limit * 1000, subject=name
    )


# 7 GPUs for three equal queues: 2 each, and the one left over to the first in queue order, whatever the names.
def test_indivisible_units_left_over_go_by_priority_then_age() -> None:
    def three(*, urgent: int) -> list[KObject]:
        return [
            item
            for name, priority in (("z", 0), ("y", 0), ("x", urgent))
            for item in (
                queue(name, priority=priority),
                group(name, queue=name),
                pod(name, group=name, gpu=7),
            )
        ]

    by_age = session(cluster(node("n1", gpu=7), three(urgent=0)), tiers=PROPORTION)
    assert deserved(by_age, GPU) == {"z": 3, "y": 2, "x": 2}
    by_priority = session(cluster(node("n1", gpu=7), three(urgent=5)), tiers=PROPORTION)
    assert deserved(by_priority, GPU) == {"x": 3, "z": 2, "y": 2}


def test_pods_that_nobody_may_place_yet_are_no_demand() -> None:
    known = cluster(
        node("n1", cpu=10),
        demand("q1", 10),
        pod("gated", group="q1", cpu=7, gated=True),
        pod("stray", group="no-such-group", cpu=7),  # would be in queue default
    )
    assert deserved(session(known, tiers=PROPORTION)) == {"q1": 10_000}


# Nothing of a closed queue is placed, so it deserves only what its pods still occupy: 2 of 10.
def test_what_waits_in_a_closed_queue_is_no_demand() -> None:
    known = cluster(
        node("n1", cpu=10),
        demand("open", 10),
        demand("shut", 10, state="Closed"),
        pod("r", group="shut", cpu=2, node="n1"),
    )
    assert deserved(session(known, tiers=PROPORTION)) == {"open": 8_000, "shut": 2_000}


def test_the_number_of_pods_is_not_divided() -> None:
    known = cluster(node("n1", cpu=4, pods=2), demand("q1", 4), demand("q2", 4))
    current = session(known, tiers=PROPORTION)
    assert deserved(current, "pods") == {}
    assert deserved(current) == {"q1": 2_000, "q2": 2_000}


# -- order and overuse --------------------------------------------------------------------------------------------


def in_order(current: Session) -> list[str]:
    return [own.name for own in sorted(current.queues.values(), key=current.queue_key) if own.name != "default"]


# a has 1 of 2, b has 2 of 6, c nothing; then a priority beats any share.
def test_queues_are_served_by_priority_then_by_how_much_of_their_due_they_have() -> None:
    def objects(priority: int) -> list[KObject]:
        return [
            queue("a", weight=1),
            queue("b", weight=3, priority=priority),
            queue("c", weight=1),
            *[group(name, queue=name) for name in "abc"],
            pod("a1", group="a", cpu=1, node="n1"),
            pod("b1", group="b", cpu=2, node="n1"),
            *[pod(f"{name}9", group=name, cpu=9) for name in "abc"],
        ]

    assert in_order(session(cluster(node("n1", cpu=10), objects(0)), tiers=PROPORTION)) == ["c", "b", "a"]
    assert in_order(session(cluster(node("n1", cpu=10), objects(7)), tiers=PROPORTION)) == ["b", "c", "a"]


# The GPUs of q1 are on a lost node: nobody deserves any, so it has all it can have. q2 has half of its CPUs.
def test_having_what_nobody_deserves_is_having_all_of_it() -> None:
    known = cluster(
        node("n1", cpu=4),
        node("lost", gpu=8, ready=False),
        queue("q1"),
        queue("q2"),
        group("g1", queue="q1"),
        group("g2", queue="q2"),
        pod("g", group="g1", gpu=1, node="lost"),
        pod("c", group="g2", cpu=2, node="n1"),
        pod("more", group="g2", cpu=2),
    )
    assert in_order(session(known, tiers=PROPORTION)) == ["q2", "q1"]


# Priorities 5, 1 and 10, and equal need: the queue of priority 10 is first.
def test_the_queue_of_the_highest_priority_is_first() -> None:
    known = cluster(
        node("n1", cpu=2), node("n2", cpu=2), demand("q1", 2, priority=5), demand("q2", 2, priority=1),
        demand("q3", 2, priority=10),
    )  # fmt: skip
    assert in_order(session(known, tiers=PROPORTION)) == ["q3", "q1", "q2"]


def gpu_and_cpu(*, cpus: int, gpus: int) -> Cluster:
    """On 4 CPUs and 4 GPUs, q1 and q2 deserve 2 of each; q1 has as much as is said."""
    return cluster(
        node("n1", cpu=4, gpu=4),
        queue("q1"),
        queue("q2"),
        group("g1", queue="q1"),
        group("g2", queue="q2"),
        pods("c", cpus, group="g1", cpu=1, node="n1"),
        pods("g", gpus, group="g1", gpu=1, node="n1"),
        pod("more-1", group="g1", cpu=4, gpu=4),
        pod("more-2", group="g2", cpu=4, gpu=4),
    )


@pytest.mark.parametrize(
    ("cpus", "gpus", "overused"), [(0, 0, False), (2, 0, False), (3, 0, False), (3, 1, False), (2, 2, True)]
)
def test_a_queue_is_overused_when_it_has_no_resource_left(cpus: int, gpus: int, overused: bool) -> None:
    current = session(gpu_and_cpu(cpus=cpus, gpus=gpus), tiers=PROPORTION)
    assert current.overused(current.queues["q1"]) is overused  # type: ignore[index]


def test_out_of_cpu_is_not_out_of_gpus() -> None:
    current = session(gpu_and_cpu(cpus=2, gpus=0), tiers=PROPORTION)
    own = current.queues["q1"]  # type: ignore[index]
    assert current.allocatable(own, request(current, gpu=2)) is None  # type: ignore[arg-type]
    assert current.allocatable(own, request(current, cpu=1, gpu=1)) == Refusal(  # type: ignore[arg-type]
        "QueueOverDeserved", resource="cpu", need=1, have=2_000, total=2_000, subject="q1"
    )


# q1 asks for GPUs only, so it deserves no CPU, and having none of that is not having all of it.
def test_a_queue_that_asks_for_gpus_only_is_not_held_back_by_cpu() -> None:
    known = cluster(
        node("n1", cpu=4, gpu=4),
        queue("q1"),
        group("g1", queue="q1"),
        pods("g", 3, group="g1", gpu=1, node="n1"),
        pod("more", group="g1", gpu=1),
        demand("q2", 4),
    )
    current = session(known, tiers=PROPORTION)
    assert not current.overused(current.queues["q1"])  # type: ignore[index]


def test_a_queue_whose_pods_ask_for_nothing_is_not_overused() -> None:
    known = cluster(node("n1", cpu=4), queue("q1"), group("g1", queue="q1"), pod("best-effort", group="g1"))
    current = session(known, tiers=PROPORTION)
    own = current.queues["q1"]  # type: ignore[index]
    assert not current.overused(own)
    assert current.allocatable(own, known.tasks["default/best-effort"].request) is None  # type: ignore[index]


# -- how much more ------------------------------------------------------------------------------------------------


def two_queues_on_two_nodes() -> Cluster:
    """Together 4 CPUs and 4 GB; q1 may have 2 and 2 and has 1 and 2, q2 may have 3 and 3 and has 2 and 1."""
    return cluster(
        node("n1", cpu=2, memory="2G"),
        node("n2", cpu=2, memory="2G"),
        queue("q1", capability={"cpu": 2, "memory": "2G"}),
        queue("q2", capability={"cpu": 3, "memory": "3G"}),
        queue("q3", capability={"cpu": 3, "memory": "3G"}, state="Closed"),
        group("run1", queue="q1", phase="Running"),
        group("run2", queue="q2", phase="Running"),
        pod("r1", group="run1", cpu=1, memory="2G", node="n1"),
        pod("r2", group="run2", cpu=2, memory="1G", node="n2"),
        group("cpu-only", queue="q1", phase="Pending", min_resources={"cpu": 1, "memory": 0}),
        group("memory-only", queue="q2", phase="Pending", min_resources={"cpu": 0, "memory": "1G"}),
        group("both", queue="q1", phase="Pending", min_resources={"cpu": 1, "memory": "1G"}),
        group("closed", queue="q3", phase="Pending", min_resources={"cpu": 1, "memory": "1G"}),
        pod("p-cpu", group="cpu-only", cpu=1),
        pod("p-memory", group="memory-only", memory="1G"),
        pod("p-both", group="both", cpu=1, memory="1G"),
        pod("p-closed", group="closed", cpu=1, memory="1G"),
    )


def admission(known: Cluster, name: str) -> Refusal | None:
    current = session(known, tiers=PROPORTION)
    return current.job_enqueueable(known.jobs[f"default/{name}"])  # type: ignore[index]


def placing(known: Cluster, name: str) -> Refusal | None:
    current = session(known, tiers=PROPORTION)
    task = known.tasks[f"default/{name}"]  # type: ignore[index]
    assert task.job is not None
    return current.allocatable(task.job.queue, task.request)


# q1 has all the memory it may have, but the pod asks for none.
def test_a_resource_that_is_not_asked_for_does_not_count() -> None:
    known = two_queues_on_two_nodes()
    assert admission(known, "cpu-only") is None
    assert placing(known, "p-cpu") is None
    assert admission(known, "memory-only") is None
    assert placing(known, "p-memory") is None


# 2 GB are there and 2 GB are the most: 1 GB more is asked for.
def test_a_queue_at_its_capability_lets_nobody_in_and_places_nobody() -> None:
    known = two_queues_on_two_nodes()
    refusal = Refusal("QueueOverQuota", resource="memory", need=G, have=2 * G, total=2 * G, subject="q1")
    assert admission(known, "both") == refusal
    assert placing(known, "p-both") == refusal


def test_a_closed_queue_lets_nobody_in_and_places_nobody() -> None:
    known = two_queues_on_two_nodes()
    assert admission(known, "closed") == Refusal("QueueClosed", subject="q3")
    assert placing(known, "p-closed") == Refusal("QueueClosed", subject="q3")
    current = session(known, tiers=PROPORTION)
    closed = current.queues["q3"]  # type: ignore[index]
    assert current.preemptive(closed, request(current, cpu=1)) == Refusal("QueueClosed", subject="q3")  # type: ignore[arg-type]
    assert current.allocatable(closed, request(current), lending=True) is not None  # type: ignore[arg-type]


# 5 CPUs, 2500m each; pods of 2 CPUs. After one pod each, the CPU that is left fits in nobody's due: it is lent.
def test_what_is_lent_knows_only_hard_limits_and_is_no_claim() -> None:
    known = cluster(
        node("n1", cpu=5),
        queue("q1", capability={"cpu": 3}),
        queue("q2"),
        group("g1", queue="q1"),
        group("g2", queue="q2"),
        pod("r1", group="g1", cpu=2, node="n1"),
        pod("r2", group="g2", cpu=2, node="n1"),
        pods("w1", 2, group="g1", cpu=1),
        pods("w2", 2, group="g2", cpu=1),
    )
    current = session(known, tiers=PROPORTION)
    own = current.queues["q1"]  # type: ignore[index]
    one = known.tasks["default/w1-0"].request  # type: ignore[index]
    over = Refusal("QueueOverDeserved", resource="cpu", need=1_000, have=2_000, total=2_500, subject="q1")
    assert current.allocatable(own, one) == over
    assert current.preemptive(own, one) == over
    assert current.allocatable(own, one, lending=True) is None
    current.statement().allocate(known.tasks["default/w1-0"], known.nodes["n1"])  # type: ignore[index]
    quota = Refusal("QueueOverQuota", resource="cpu", need=1_000, have=3_000, total=3_000, subject="q1")
    assert current.allocatable(own, one, lending=True) == quota
    assert current.allocatable(own, one) == quota  # the harder of the two limits is named


# 2000m held of 2500m deserved; 1000m more fits once 500m of it are given back.
@pytest.mark.parametrize(("given_back", "fits"), [(499, False), (500, True), (2_000, True)])
def test_what_a_placement_gives_back_is_credited(given_back: int, fits: bool) -> None:
    known = cluster(
        node("n1", cpu=5),
        queue("q1"),
        group("g1", queue="q1"),
        pod("r1", group="g1", cpu=2, node="n1"),
        pod("w1", group="g1", cpu=3),
        demand("q2", 5),
    )
    current = session(known, tiers=PROPORTION)
    own = current.queues["q1"]  # type: ignore[index]
    credit = request(current, cpu=given_back)
    for answer in (
        current.allocatable(own, request(current, cpu=1_000), credit=credit),  # type: ignore[arg-type]
        current.preemptive(own, request(current, cpu=1_000), credit=credit),  # type: ignore[arg-type]
    ):
        assert (answer is None) is fits


# The queue states no limit, so 6 CPUs on a cluster of 4 are a matter of nodes, not of its quota.
def test_more_than_the_whole_cluster_is_not_blamed_on_the_queue() -> None:
    known = cluster(node("n1", cpu=4), demand("q1", 6))
    current = session(known, tiers=PROPORTION)
    own = current.queues["q1"]  # type: ignore[index]
    for lending in (True, False):
        assert current.allocatable(own, request(current, cpu=6_000), lending=lending) is None  # type: ignore[arg-type]
    assert not current.overused(own)  # type: ignore[arg-type]


# A pod of 2 CPUs should have been gone at the start. If nobody hears of its node, it counts until then, and no longer.
@pytest.mark.parametrize(("ready", "now", "counts"), [(True, -1, 2), (True, 1, 2), (False, -1, 2), (False, 1, 0)])
def test_a_pod_that_terminates_on_a_lost_node_counts_until_it_should_be_gone(
    ready: bool, now: float, counts: int
) -> None:
    known = cluster(
        node("n1", cpu=4, ready=ready),
        node("n2", cpu=4),
        queue("q"),
        group("g", queue="q", min_member=0),
        pod("leaves", group="g", cpu=2, node="n1", deleted=True),
    )
    current = session(known, tiers=PROPORTION, now=START + now)
    leaving = current.state(LeavingPods)
    assert int(leaving.of(current.queues[QueueName("q")])[0]) == leaving.everywhere(0) == counts * 1000
    assert current.cycle.next_due == (START if not ready and now < 0 else None)
