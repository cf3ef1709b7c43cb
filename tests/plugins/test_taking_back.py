"""When a queue may take room back from another one, and why that comes to an end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import GPU, cluster, group, node, pod, pods, priority_class, queue, session
from stromboli.api import names
from stromboli.cluster import Cluster, Status, Task
from stromboli.scheduling.session import Session

PROPORTION = [["proportion"]]


def may_take(current: Session, known: Cluster, evictor: str, candidate: str, *, whole: bool = False) -> bool:
    tasks = known.tasks
    return current.may_evict("reclaimable", tasks[evictor], tasks[candidate], whole=whole)  # type: ignore[index]


# Three CPUs: q2 wants 1 and deserves it, q1 deserves the other 2 and has 3. After one eviction q1 has its 2.
# In memory (3 GiB = 3.22 GB) q1 deserves 2.22 GB and keeps 2 GB: it then lacks 0.22 GB, q2 lacked 1 GB before.
def test_a_queue_with_more_than_it_deserves_gives_back() -> None:
    known = cluster(
        node("n1", cpu=3, memory="3Gi"),
        queue("q1"),
        queue("q2"),
        group("g1", queue="q1"),
        group("g2", queue="q2"),
        pod("r1", group="g1", cpu=1, memory="1G", node="n1", preemptable=False),
        pod("r2", group="g1", cpu=1, memory="1G", node="n1", preemptable=True),
        pod("r3", group="g1", cpu=1, memory="1G", node="n1", preemptable=False),
        pod("w", group="g2", cpu=1, memory="1G"),
    )
    current = session(known, tiers=[["conformance", "gang"], ["proportion"]])
    assert [name for name in ("r1", "r2", "r3") if may_take(current, known, "default/w", f"default/{name}")] == ["r2"]
    current.statement().evict(known.tasks["default/r2"], reason="Reclaimed", message="")  # type: ignore[index]
    assert not may_take(current, known, "default/w", "default/r1", whole=True)


# Four CPUs: q3 wants 1; the other 3 are 1.5 for q1 and for q2, which have 2 each. Whoever loses a pod keeps 1 and lacks
# 0.5. What it has then is within what it deserves, and stays.
def test_a_pod_larger_than_the_surplus_may_go() -> None:
    known = cluster(
        node("n1", cpu=4, memory="4Gi"),
        priority_class("low", 10),
        priority_class("mid", 100),
        *[queue(name) for name in ("q1", "q2", "q3")],
        group("g1", queue="q1", priority_class="mid"),
        group("g2", queue="q2", priority_class="low"),
        group("g3", queue="q3", priority_class="mid"),
        pods("a", 2, group="g1", cpu=1, memory="1G", node="n1"),
        pods("b", 2, group="g2", cpu=1, memory="1G", node="n1"),
        pod("w", group="g3", cpu=1, memory="1G"),
    )
    current = session(known, tiers=[["gang", "priority"], ["proportion"]])
    assert may_take(current, known, "default/w", "default/a-0")
    assert may_take(current, known, "default/w", "default/b-0")
    current.statement().evict(known.tasks["default/b-0"], reason="Reclaimed", message="")  # type: ignore[index]
    assert not may_take(current, known, "default/w", "default/b-1", whole=True)


# 2 GiB of memory by weights 1, 1 and 3: q3 wants 1 GB and deserves it, 0.57 GB are left for each of the others, which
# have 1 GB. One of them has to lose all it has; it then lacks 0.57 GB, and q3 lacked 1.
def test_a_queue_may_lose_its_only_pod_if_it_is_more_than_its_due() -> None:
    known = cluster(
        node("n1", cpu=10, memory="2Gi"),
        queue("q1", priority=1),
        queue("q2", priority=2),
        queue("q3", weight=3),
        *[group(f"g{n}", queue=f"q{n}", min_member=0) for n in (1, 2, 3)],
        pod("a", group="g1", cpu=1, memory="1G", node="n1"),
        pod("b", group="g2", cpu=1, memory="1G", node="n1"),
        pod("w", group="g3", cpu=2, memory="1G"),
    )
    current = session(known, tiers=PROPORTION)
    assert may_take(current, known, "default/w", "default/a")
    assert current.preemptive(current.queues["q3"], known.tasks["default/w"].request) is None  # type: ignore[index]


# Ten CPUs by weights 9 and 1, and both want more: 9 and 1. q2 has a single pod of 4, so it stands on lent room and can
# be had back, however little q1 lacks: 4 of its 9, or 0.1.
@pytest.mark.parametrize("has", ["5", "8900m"])
def test_lent_room_can_be_had_back_from_a_large_pod(has: str) -> None:
    known = cluster(
        node("n1", cpu=10),
        queue("q1", weight=9),
        queue("q2"),
        group("g1", queue="q1"),
        group("g2", queue="q2", min_member=0),
        pod("r", group="g1", cpu=has, node="n1"),
        pod("big", group="g2", cpu=4, node="n1"),
        pod("w", group="g1", cpu="100m"),
        pod("more", group="g1", cpu=10),
    )
    assert may_take(session(known, tiers=PROPORTION), known, "default/w", "default/big")


def test_a_queue_with_no_more_than_it_deserves_keeps_it() -> None:
    known = cluster(
        node("n1", cpu=4),
        queue("q1"),
        queue("q2"),
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2", min_member=0),
        pods("a", 2, group="g1", cpu=1, node="n1"),
        pods("wa", 2, group="g1", cpu=1),
        pods("b", 2, group="g2", cpu=1, node="n1"),
        pods("wb", 2, group="g2", cpu=1),
    )
    current = session(known, tiers=PROPORTION)
    assert not may_take(current, known, "default/wb-0", "default/a-0")
    assert not may_take(current, known, "default/wa-0", "default/b-0")


# q2 has 5 of 10 CPUs, its due, and wants one more, while q1 has 5 as well: both stay.
# And a claimant must stay within its due even if the other has more: 2 of 2.5 and a pod of 1.
def test_a_claim_beyond_its_own_due_takes_nothing() -> None:
    known = cluster(
        node("n1", cpu=5),
        queue("q1"),
        queue("q2"),
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2", min_member=0),
        pods("a", 3, group="g1", cpu=1, node="n1"),
        pod("b", group="g2", cpu=2, node="n1"),
        pod("wide", group="g2", cpu=1),
        pod("narrow", group="g2", cpu="500m"),
    )
    current = session(known, tiers=PROPORTION)
    assert not may_take(current, known, "default/wide", "default/a-0")
    assert may_take(current, known, "default/narrow", "default/a-0")


# The claimant wants GPUs. q1 has more than its due of CPU and of GPUs; a pod that only gives back CPU is of no use.
def test_only_pods_that_give_back_what_is_needed_are_taken() -> None:
    known = cluster(
        node("n1", cpu=4, gpu=4),
        queue("q1"),
        queue("q2"),
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2"),
        pods("c", 4, group="g1", cpu=1, node="n1"),
        pods("g", 4, group="g1", gpu=1, node="n1"),
        pod("best-effort", group="g1", node="n1"),
        pod("w", group="g2", gpu=2),
        pod("w2", group="g2", cpu=2),
    )
    current = session(known, tiers=PROPORTION)
    assert GPU in current.axis.index
    assert may_take(current, known, "default/w", "default/g-0")
    assert not may_take(current, known, "default/w", "default/c-0")
    assert not may_take(current, known, "default/w", "default/best-effort")


# q1 has 4 CPUs, is guaranteed 3 and deserves 3, as q2 wants 1: one may go and no more. With pods of 2 CPUs none may.
@pytest.mark.parametrize(("size", "allowed"), [(1, True), (2, False)])
def test_nobody_is_taken_below_a_guarantee(size: int, allowed: bool) -> None:
    known = cluster(
        node("n1", cpu=4),
        queue("q1", guarantee={"cpu": 3}),
        queue("q2"),
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2"),
        pods("a", 4 // size, group="g1", cpu=size, node="n1"),
        pod("w", group="g2", cpu=1),
    )
    assert may_take(session(known, tiers=PROPORTION), known, "default/w", "default/a-0") is allowed


# A gang of four fills four CPUs; q2 wants some and deserves up to 2. Whatever it wants, the gang is larger than what is
# left for q1, so all of it is on lent room. A gang of 3 would be more than q2 deserves, and a gang of 2 beside two pods
# is within q1's 3: the pods go, one by one.
@pytest.mark.parametrize(("wanted", "members", "allowed"), [(2, 4, True), (1, 4, True), (3, 4, False), (1, 2, False)])
def test_a_gang_that_goes_as_a_whole_is_judged_as_a_whole(wanted: int, members: int, allowed: bool) -> None:
    known = cluster(
        node("n1", cpu=4),
        queue("q1"),
        queue("q2"),
        group("g1", queue="q1", min_member=members),
        group("rest", queue="q1", min_member=0),
        group("g2", queue="q2", min_member=wanted),
        pods("a", members, group="g1", cpu=1, node="n1"),
        pods("b", 4 - members, group="rest", cpu=1, node="n1"),
        pods("w", wanted, group="g2", cpu=1),
    )
    current = session(known, tiers=[["gang"], ["proportion"]])
    gang = [f"default/a-{number}" for number in range(members)]
    assert not any(may_take(current, known, "default/w-0", name) for name in gang)
    statement = current.statement()
    for name in gang:  # one after the other: the last is judged like the first
        assert may_take(current, known, "default/w-0", name, whole=True) is allowed
        if allowed:
            statement.evict(known.tasks[name], reason="Reclaimed", message="")  # type: ignore[index]


def test_pods_of_the_same_queue_and_strangers_are_no_business_of_queues() -> None:
    known = cluster(
        node("n1", cpu=4),
        queue("q2"),
        group("g1", queue="q2", min_member=0),
        pods("a", 2, group="g1", cpu=1, node="n1"),
        pod("stranger", cpu=2, node="n1"),
        pod("w", group="g1", cpu=1),
    )
    current = session(known, tiers=PROPORTION)
    assert not may_take(current, known, "default/w", "default/a-0")
    assert not may_take(current, known, "default/w", "default/stranger")


# 10 CPUs and 4 GPUs. q1 deserves 4 and 2, and has 4 and 4: two pods of 2 CPUs and a GPU, and two of a GPU alone.
# Without one of the first two, it holds 2 CPUs less by right, a fifth of the cluster; without both, 4. Each GPU that q2
# gets is a quarter. So two pods may go for a gang of two (4/10 < 2/4), and neither is counted twice when it is the
# second's turn. And once the first is gone for good, the second alone may go for a pod of its own (2/10 < 1/4).
@pytest.mark.parametrize("is_settled", [False, True])
def test_what_a_queue_loses_by_right_is_weighed_against_what_the_other_gains(is_settled: bool) -> None:
    known = cluster(
        node("n1", cpu=10, gpu=4),
        queue("q1", deserved={"cpu": 4, GPU: 2}),
        queue("q2", deserved={GPU: 2}),
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2", min_member=1 if is_settled else 2),
        pods("both", 2, group="g1", cpu=2, gpu=1, node="n1"),
        pods("one", 2, group="g1", gpu=1, node="n1"),
        pods("w", 2, group="g2", gpu=1),
    )
    current = session(known, tiers=[["capacity"]])
    assert may_take(current, known, "default/w-0", "default/both-0")
    statement = current.statement()
    statement.evict(known.tasks["default/both-0"], reason="Reclaimed", message="")  # type: ignore[index]
    if is_settled:
        statement.commit()
    assert may_take(current, known, "default/w-1", "default/both-1")


# q2 deserves 4 CPUs and 2 GPUs. A pod that wants 5 CPUs besides a GPU would never be held by right, so nobody goes for
# it, not even a gang on lent room whose owner restarts it all.
@pytest.mark.parametrize(("cpus", "may"), [(4, True), (5, False)])
@pytest.mark.parametrize("restarts", [False, True])
def test_nobody_goes_for_a_pod_that_is_larger_than_what_its_queue_deserves(
    cpus: int, may: bool, restarts: bool
) -> None:
    gang = group("g1", queue="q1", min_member=1)
    gang.metadata.annotations[names.GOES_WHOLE] = str(restarts).lower()
    known = cluster(
        node("n1", cpu=10, gpu=4),
        queue("q1", deserved={"cpu": 4, GPU: 2}),
        queue("q2", deserved={"cpu": 4, GPU: 2}),
        gang,
        group("g2", queue="q2"),
        pod("lent", group="g1", gpu=4, node="n1"),
        pod("w", group="g2", cpu=cpus, gpu=1),
    )
    assert may_take(session(known, tiers=[["capacity"]]), known, "default/w", "default/lent") is may


# q2 deserves 2 GPUs. Of a gang of which two must run, three wait. Beside the first, those count that come next in their
# order: the small one with the higher priority, although the large one is older.
@pytest.mark.parametrize(("small", "large", "may"), [(9, 1, True), (1, 9, False)])
def test_a_gang_claims_for_the_pods_that_come_first(small: int, large: int, may: bool) -> None:
    known = cluster(
        node("n1", gpu=4),
        queue("q1", deserved={GPU: 2}),
        queue("q2", deserved={GPU: 2}),
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2", min_member=2),
        pods("a", 4, group="g1", gpu=1, node="n1"),
        pod("w", group="g2", gpu=1, priority=10),
        pod("large", group="g2", gpu=2, priority=large),
        pod("small", group="g2", gpu=1, priority=small),
    )
    current = session(known, tiers=[["priority", "gang"], ["capacity"]])
    assert may_take(current, known, "default/w", "default/a-0") is may


# q2 deserves 2 GPUs. Of a gang of three, one pod is behind a gate: it does not come with the others and claims nothing.
def test_gated_pods_of_a_gang_claim_nothing() -> None:
    known = cluster(
        node("n1", gpu=4),
        queue("q1", deserved={GPU: 2}),
        queue("q2", deserved={GPU: 2}),
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2", min_member=3),
        pods("a", 4, group="g1", gpu=1, node="n1"),
        pods("w", 2, group="g2", gpu=1),
        pod("gated", group="g2", gpu=1, gated=True),
    )
    assert may_take(session(known, tiers=[["gang"], ["capacity"]]), known, "default/w-0", "default/a-0")


# -- no going back ------------------------------------------------------------------------------------------------

sizes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(any), max_size=6)
queues_of_any_kind = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), sizes, sizes), min_size=2, max_size=3)


def make_cluster(specs: list[tuple[int, int, list[tuple[int, int]], list[tuple[int, int]]]]) -> Cluster:
    """Queues of (weight, guaranteed CPUs, pods that run, pods that wait), on a node that is full."""
    objects = []
    for number, (weight, guaranteed, running, waiting) in enumerate(specs):
        name = f"q{number}"
        objects.append(queue(name, weight=weight, guarantee={"cpu": guaranteed} if guaranteed else None))
        objects.append(group(name, queue=name, min_member=0))
        for kind, amounts in (("r", running), ("w", waiting)):
            for index, (cpu, memory) in enumerate(amounts):
                where = "n1" if kind == "r" else ""
                objects.append(pod(f"{name}-{kind}-{index}", group=name, cpu=cpu, memory=memory, node=where))
    room = [max(1, sum(size[axis] for spec in specs for size in spec[2])) for axis in (0, 1)]
    return cluster(node("n1", cpu=room[0], memory=room[1], pods=1000), *objects)


def waiting(known: Cluster) -> list[Task]:
    return [task for _, task in sorted(known.tasks.items()) if task.status is Status.PENDING]


def swap(current: Session, known: Cluster, evictor: Task, victim: Task) -> None:
    """The victim's pod is made again and waits; the evictor runs in its place."""
    victim_node = victim.node
    current.ledger.move(victim, Status.PENDING, None)
    current.ledger.move(evictor, Status.RUNNING, victim_node)


@given(specs=queues_of_any_kind)
def test_an_evicted_pod_cannot_take_its_place_back(
    specs: list[tuple[int, int, list[tuple[int, int]], list[tuple[int, int]]]],
) -> None:
    known = make_cluster(specs)
    current = session(known, tiers=PROPORTION)
    running = [task for _, task in sorted(known.tasks.items()) if task.status is Status.RUNNING]
    for evictor in waiting(known):
        for victim in running:
            if current.may_evict("reclaimable", evictor, victim):
                place = victim.node
                swap(current, known, evictor, victim)
                assert not current.may_evict("reclaimable", victim, evictor)
                current.ledger.move(evictor, Status.PENDING, None)
                current.ledger.move(victim, Status.RUNNING, place)


@given(specs=queues_of_any_kind)
def test_taking_back_comes_to_an_end(
    specs: list[tuple[int, int, list[tuple[int, int]], list[tuple[int, int]]]],
) -> None:
    known = make_cluster(specs)
    current = session(known, tiers=PROPORTION)
    moves = 0
    limit = 4 * len(known.tasks) + 4
    moved = True
    while moved:
        moved = False
        for evictor in waiting(known):
            for _, victim in sorted(known.tasks.items()):
                if victim.status is Status.RUNNING and current.may_evict("reclaimable", evictor, victim):
                    swap(current, known, evictor, victim)
                    moves += 1
                    moved = True
                    assert moves <= limit, "queues go on evicting each other"
                    break
    known.validate()


# q1 deserves 6 of 12 GPUs and has 4; q2 deserves 2 and has 8. A pod of 6 in place of the pod of 4 would be the better
# packing of q1's 6, by 2. But both together are 10: q1 would take what it does not deserve. A pod of 2 is within 6.
@pytest.mark.parametrize(("gpus", "may"), [(2, True), (3, False), (6, False)])
def test_a_queue_takes_back_only_up_to_what_it_deserves(gpus: int, may: bool) -> None:
    known = cluster(
        node("n1", gpu=8),
        node("n2", gpu=4),
        queue("q1", deserved={GPU: 6}),
        queue("q2", deserved={GPU: 2}),
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2", min_member=0),
        group("g3", queue="q1"),
        pod("a", group="g1", gpu=4, node="n2"),
        pods("b", 8, group="g2", gpu=1, node="n1"),
        pod("w", group="g3", gpu=gpus),
    )
    current = session(known, tiers=[["capacity"]])
    assert may_take(current, known, "default/w", "default/b-0") is may
