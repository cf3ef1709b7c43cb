"""Queues that state what they deserve: how much each may take, and what it may take back (CA1 to CA10, CA12).

Amounts are CPUs unless something else is named.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import pytest

from builders import GPU, cluster, group, node, pod, pods, priority_class, queue, session
from oracles.stories import Story
from stromboli.api import KObject
from stromboli.cluster import Cluster
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.configuration.arguments import ConfigurationError
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

CAPACITY = [["priority", "gang", "conformance"], ["capacity", "predicates", "nodeorder"]]


def story(*objects: KObject | Iterable[KObject], actions: str = "allocate, reclaim") -> Story:
    return Story(*objects, actions=actions, tiers=CAPACITY).run()


def opened(*objects: KObject | Iterable[KObject]) -> Session:
    return session(cluster(*objects), tiers=[["capacity"]])


def amount(current: Session, **amounts: int) -> object:
    return current.axis.vector({GPU if name == "gpu" else name: n for name, n in amounts.items()})


# -- how much a queue may take ----------------------------------------------------------------------------------------


# CA1. q1 may have 2 and has 1; one more makes 2. CA2. It may have 1.5: 1 + 1 is more.
@pytest.mark.parametrize(("limit", "binds"), [("2", {"w": "n1"}), ("1500m", {})])
def test_ca1_ca2_a_queue_takes_pods_up_to_its_capability(limit: str, binds: dict[str, str]) -> None:
    told = story(
        node("n1", cpu=2, memory="4Gi"),
        queue("q1", capability={"cpu": limit, "memory": "2Gi"}),
        group("running", queue="q1"),
        group("waiting", queue="q1"),
        pod("r", group="running", cpu=1, memory="1Gi", node="n1"),
        pod("w", group="waiting", cpu=1, memory="1Gi"),
    )
    assert told.binds == binds
    if not binds:
        assert told.why("w") == "QueueOverQuota"
        assert told.message("w").startswith("Queue q1 would exceed its quota: 1 cpu requested, 1 allocated, at most")


# q1 deserves 1 of 4 and nobody else wants any: it has all 4.
def test_idle_room_is_borrowed_without_asking() -> None:
    told = story(
        node("n1", cpu=4), queue("q1", deserved={"cpu": 1}), group("g", queue="q1", min_member=1),
        pods("w", 4, group="g", cpu=1),
    )  # fmt: skip
    assert len(told.binds) == 4
    assert told.cycle.deserved["q1"] == {"cpu": 1000}  # type: ignore[index]


# 30 less 5 and 10 that are guaranteed, and one's own guarantee on top: 20, 15, 25; and q3 may have 10 at most.
# 4, 20, 30 and 12 are deserved by the text: 5 for the guarantee of q1, 15 and 10 for the limits of q2 and q3.
def test_deserved_amounts_lie_between_guarantee_and_real_capability() -> None:
    current = opened(
        node("n1", cpu=30),
        queue("q1", guarantee={"cpu": 5}, deserved={"cpu": 4}),
        queue("q2", deserved={"cpu": 20}),
        queue("q3", capability={"cpu": 10}, deserved={"cpu": 30}),
        queue("q4", guarantee={"cpu": 10}, deserved={"cpu": 12}),
    )
    cpu = current.axis.index["cpu"]
    found = {name: int(vector[cpu]) for name, vector in current.deserved.items()}
    assert found == {"q1": 5_000, "q2": 15_000, "q3": 10_000, "q4": 12_000, "default": 0}
    for name, limit in (("q1", 20_000), ("q2", 15_000), ("q3", 10_000), ("q4", 25_000)):
        own = current.queues[name]  # type: ignore[index]
        assert current.allocatable(own, amount(current, cpu=limit)) is None  # type: ignore[arg-type]
        refusal = current.allocatable(own, amount(current, cpu=limit + 1))  # type: ignore[arg-type]
        over = Refusal("QueueOverQuota", resource="cpu", need=limit + 1, have=0, total=limit, subject=name)
        assert refusal == over


# A queue may have 2, has 2 and would give 1 back: then 1 more fits.
@pytest.mark.parametrize(("given_back", "fits"), [(999, False), (1000, True)])
def test_what_a_placement_gives_back_is_credited(given_back: int, fits: bool) -> None:
    current = opened(
        node("n1", cpu=4), queue("q1", capability={"cpu": 2}, deserved={"cpu": 2}), group("g", queue="q1"),
        pod("r", group="g", cpu=2, node="n1"),
    )  # fmt: skip
    own, more = current.queues["q1"], amount(current, cpu=1000)  # type: ignore[index]
    credit = amount(current, cpu=given_back)
    assert (current.allocatable(own, more, credit=credit) is None) is fits  # type: ignore[arg-type]
    assert (current.preemptive(own, more, credit=credit) is None) is fits  # type: ignore[arg-type]


def test_a_closed_queue_takes_nothing_and_claims_nothing() -> None:
    current = opened(node("n1", cpu=4), queue("q1", deserved={"cpu": 2}, state="Closed"))
    own, one = current.queues["q1"], amount(current, cpu=1000)  # type: ignore[index]
    closed = Refusal("QueueClosed", subject="q1")
    assert current.allocatable(own, one) == closed  # type: ignore[arg-type]
    assert current.allocatable(own, one, lending=True) == closed  # type: ignore[arg-type]
    assert current.preemptive(own, one) == closed  # type: ignore[arg-type]


# The queue states no limit, so 6 of 4 CPUs are a matter of nodes, not of its quota.
def test_more_than_the_whole_cluster_is_not_called_over_quota() -> None:
    current = opened(node("n1", cpu=4), queue("q1"))
    assert current.allocatable(current.queues["q1"], amount(current, cpu=6000)) is None  # type: ignore[arg-type, index]


# -- letting in -------------------------------------------------------------------------------------------------------


# q1 may have 3, has 1 and promised 1 to the first job: the second may be let in with 1, not with 2.
@pytest.mark.parametrize(("asks", "refused"), [(1, False), (2, True)])
def test_a_queue_lets_jobs_in_up_to_its_capability(asks: int, refused: bool) -> None:
    told = story(
        node("n1", cpu=8),
        queue("q1", capability={"cpu": 3}),
        group("running", queue="q1", phase="Running"),
        pod("r", group="running", cpu=1, node="n1"),
        group("first", queue="q1", phase="Pending", min_resources={"cpu": 1}),
        group("second", queue="q1", phase="Pending", min_resources={"cpu": asks}),
        actions="enqueue",
    )
    assert told.phase("first") == "Inqueue"
    assert told.phase("second") == ("Pending" if refused else "Inqueue")


# The queue may have 2 and has 2, of a job of low priority: what it has can be preempted, if somebody preempts.
@pytest.mark.parametrize(("actions", "phase"), [("enqueue", "Pending"), ("enqueue, preempt", "Inqueue")])
def test_what_can_be_preempted_keeps_nobody_out(actions: str, phase: str) -> None:
    told = story(
        node("n1", cpu=8),
        priority_class("high", 100),
        queue("q1", capability={"cpu": 2}),
        group("low", queue="q1", phase="Running", min_member=0),
        pods("r", 2, group="low", cpu=1, node="n1"),
        group("urgent", queue="q1", phase="Pending", priority_class="high", min_resources={"cpu": 2}),
        actions=actions,
    )
    assert told.phase("urgent") == phase


# -- order ------------------------------------------------------------------------------------------------------------


def sharing(**deserved: int) -> Session:
    """q1 deserves what is said and has 1, or 4 if it is `big`."""
    big = deserved.pop("big", 0)
    return opened(
        node("n1", cpu=8, gpu=8),
        queue("q1", deserved={GPU if name == "gpu" else name: n for name, n in deserved.items()}),
        group("g", queue="q1"),
        pod("r", group="g", cpu=4 if big else 1, node="n1"),
    )


# CA12. Nothing deserved counts as all of it: 1. 1 of 2 is a half, 4 of 2 are twice as much. What a queue has of a
# resource it states nothing of is not counted: it may still be waiting for its GPUs.
@pytest.mark.parametrize(
    ("current", "share"),
    [
        (sharing(), 1),
        (sharing(big=1), 1),
        (sharing(cpu=2), Fraction(1, 2)),
        (sharing(cpu=2, big=1), 2),
        (sharing(gpu=2), 0),
    ],
)
def test_ca12_shares(current: Session, share: Fraction) -> None:
    ((_, (_, ratio), *_),) = current.queue_key(current.queues["q1"])[0]  # type: ignore[index]
    assert Fraction(ratio.top, ratio.bottom) == share


# a has 1 of 4, b has 3 of 4, c exactly what it deserves, and d, which deserves nothing, has nothing: as much as c by
# its share, and after c. e has a priority.
def test_queues_are_served_by_priority_then_share_then_those_that_deserve_something() -> None:
    current = opened(
        node("n1", cpu=20),
        queue("d"),
        queue("c", deserved={"cpu": 2}),
        queue("b", deserved={"cpu": 4}),
        queue("a", deserved={"cpu": 4}),
        queue("e", deserved={"cpu": 1}, priority=1),
        *[group(name, queue=name) for name in "abcde"],
        *[pod(name, group=name, cpu=cpu, node="n1") for name, cpu in (("a", 1), ("b", 3), ("c", 2), ("e", 5))],
    )
    ordered = sorted(current.queues.values(), key=current.queue_key)
    assert [own.name for own in ordered if own.name != "default"] == ["e", "a", "b", "c", "d"]


# -- taking back ------------------------------------------------------------------------------------------------------


# CA3. q3 deserves 2 and has 4, of which one pod is not to be evicted. q4 deserves 2 and has none. Without the pod on
# n2, q3 has its 2.
def test_ca3_what_was_borrowed_is_taken_back() -> None:
    told = story(
        node("n1", cpu=2, memory="4Gi"),
        node("n2", cpu=2, memory="4Gi"),
        queue("q3", deserved={"cpu": 2, "memory": "4Gi"}),
        queue("q4", deserved={"cpu": 2, "memory": "4Gi"}),
        group("pg5", queue="q3"),
        group("pg6", queue="q4"),
        pod("p5", group="pg5", cpu=2, memory="4Gi", node="n1", preemptable=False),
        pod("p6", group="pg5", cpu=2, memory="4Gi", node="n2"),
        pod("p7", group="pg6", cpu=2, memory="4Gi"),
    )
    assert told.evicted == ["p6"]
    assert told.nominated == {"p7": "n2"}


# CA4. Of CPU q6 has 4 and deserves 2, but the pod asks for 10 GPUs only, and of those q6 deserves 10 and has none.
# q5 has 20 GPUs and deserves 10.
def test_ca4_too_much_cpu_is_no_matter_to_a_pod_that_asks_for_gpus() -> None:
    due = {"cpu": 2, GPU: 10}
    told = story(
        node("n3", cpu=2, gpu=10),
        node("n4", cpu=2, gpu=10),
        queue("q5", deserved=due),
        queue("q6", deserved=due),
        group("pg7", queue="q5"),
        group("pg8", queue="q6"),
        group("pg9", queue="q6"),
        pod("p8", group="pg7", gpu=10, node="n3", preemptable=False),
        pod("p9", group="pg7", gpu=10, node="n4"),
        pod("p10", group="pg8", cpu=2, node="n3"),
        pod("p11", group="pg8", cpu=2, node="n4"),
        pod("p12", group="pg9", gpu=10),
    )
    assert told.evicted == ["p9"]
    assert told.nominated == {"p12": "n4"}


def one_resource_within(*, deserved: dict[str, object], pends: tuple[int, str]) -> Story:
    """CA5 and CA6: a node of 2 CPUs and 4 GiB, full of a pod of the queue and one of a queue that deserves nothing."""
    cpu, memory = pends
    return story(
        node("n1", cpu=2, memory="4Gi"),
        queue("q10", deserved=deserved, capability={"cpu": 4, "memory": "8Gi"}),  # type: ignore[arg-type]
        queue("q11", capability={"cpu": 2, "memory": "2Gi"}),
        group("pg16", queue="q10"),
        group("pg17", queue="q10"),
        group("pg18", queue="q11", min_member=0),
        pod("p16", group="pg16", cpu=1, memory="3Gi", node="n1"),
        pod("p17", group="pg17", cpu=cpu, memory=memory),
        pod("p18", group="pg18", cpu=1, memory="1Gi", node="n1"),
    )


# CA5. With the pod q10 has 2 CPUs, just what it deserves, and 4 GiB of the 2 it deserves: one of the two is enough.
def test_ca5_a_claim_needs_one_resource_within_what_is_deserved() -> None:
    told = one_resource_within(deserved={"cpu": 2, "memory": "2Gi"}, pends=(1, "1Gi"))
    assert told.evicted == ["p18"]
    assert told.nominated == {"p17": "n1"}


# CA6. It would have 2 CPUs of 1 and 4 GiB of 2: none.
def test_ca6_beyond_all_that_is_deserved_there_is_no_claim() -> None:
    assert one_resource_within(deserved={"cpu": 1, "memory": "2Gi"}, pends=(1, "1Gi")).evicted == []


def gpu_story(*, victims: list[KObject], theirs: dict[str, object], asks: dict[str, object]) -> Story:
    """A node of 4 CPUs and 4 GPUs; q1 deserves 2 of each and has none, q2 deserves and runs what is said."""
    return story(
        node("n1", cpu=4, gpu=4),
        queue("q1", deserved={"cpu": 2, GPU: 2}),
        queue("q2", deserved=theirs),  # type: ignore[arg-type]
        group("claims", queue="q1"),
        group("holds", queue="q2", min_member=0),
        *victims,
        pod("w", group="claims", **asks),  # type: ignore[arg-type]
    )


# CA7. q2 has 4 CPUs and deserves 1, and it deserves 2 GPUs of which it has none. The node's GPUs are all with a pod of
# no queue's. The claimant wants GPUs: nothing that q2 has is of use.
def test_ca7_pods_without_the_resource_are_not_taken_for_it() -> None:
    told = gpu_story(
        victims=[*pods("c", 4, group="holds", cpu=1, node="n1"), pod("stranger", gpu=4, node="n1")],
        theirs={"cpu": 1, GPU: 2},
        asks={"gpu": 1},
    )
    assert told.evicted == []


# CA8. q2 has 3 CPUs and 4 GPUs, deserves 1 and 2. The claimant wants 1 and 2; a CPU is idle. One pod with 2 GPUs makes
# room, and no pod without any is taken.
def test_ca8_only_the_pod_with_gpus_goes_for_a_pod_that_wants_cpu_and_gpus() -> None:
    told = gpu_story(
        victims=[
            pod("cpu-0", group="holds", cpu=1, node="n1"),
            pod("cpu-1", group="holds", cpu=1, node="n1"),
            pod("gpu-0", group="holds", gpu=2, node="n1", preemptable=False),
            pod("gpu-1", group="holds", cpu=1, gpu=2, node="n1"),
        ],
        theirs={"cpu": 1, GPU: 2},
        asks={"cpu": 1, "gpu": 2},
    )
    assert told.evicted == ["gpu-1"]


# CA9. q2 states GPUs only. Its pods have 4 CPUs, of which it states nothing, and 4 GPUs. If it deserves 4, they are its
# own, CPUs and all; if it deserves 2, two of them are borrowed.
@pytest.mark.parametrize(("deserved", "evictions"), [(4, 0), (2, 1)])
def test_ca9_gpus_that_are_deserved_protect_their_pods(deserved: int, evictions: int) -> None:
    told = gpu_story(
        victims=[*pods("g", 4, group="holds", cpu=1, gpu=1, node="n1")],
        theirs={GPU: deserved},
        asks={"cpu": 1, "gpu": 1},
    )
    assert len(told.evicted) == evictions


# CA10. q1 deserves 2, may have 2 at most and has 2 of a kind that is not asked for now; of CPU it may have 1.
def test_ca10_nothing_is_taken_that_the_claimant_may_not_have() -> None:
    told = story(
        node("n1", cpu=2, memory="2Gi"),
        queue("q1", deserved={"cpu": 1, "memory": "2Gi"}, capability={"cpu": 1, "memory": "2Gi"}),
        queue("q2"),
        group("claims", queue="q1"),
        group("holds", queue="q2", min_member=0),
        pods("r", 2, group="holds", cpu=1, memory="1Gi", node="n1"),
        pod("w", group="claims", cpu=2, memory="1Gi"),
    )
    assert told.evicted == []


def may_take(known: Cluster, evictor: str, candidate: str, *, whole: bool = False) -> bool:
    current = session(known, tiers=[["capacity"]])
    tasks = known.tasks
    return current.may_evict(
        "reclaimable",
        tasks[f"default/{evictor}"],  # type: ignore[index]
        tasks[f"default/{candidate}"],  # type: ignore[index]
        whole=whole,
    )


def two_queues(*, first: dict[str, object], second: dict[str, object], objects: list[KObject]) -> Cluster:
    return cluster(
        node("n1", cpu=10, memory=10),
        queue("q1", **first),  # type: ignore[arg-type]
        queue("q2", **second),  # type: ignore[arg-type]
        group("g1", queue="q1", min_member=0),
        group("g2", queue="q2", min_member=0),
        *objects,
    )


# q2 has 8 of the 5 it deserves, in pods of 4. One of them is within the 5, the other is on lent room, however little q1
# lacks. It may not claim beyond its own 5.
@pytest.mark.parametrize(
    ("has", "asks", "allowed"), [("3", "1", True), ("4", "1", True), ("4500m", "500m", True), ("4500m", "501m", False)]
)
def test_a_queue_may_lose_more_than_it_borrowed(has: str, asks: str, allowed: bool) -> None:
    known = two_queues(
        first={"deserved": {"cpu": 5}},
        second={"deserved": {"cpu": 5}},
        objects=[
            pod("r", group="g1", cpu=has, node="n1"),
            pod("w", group="g1", cpu=asks),
            *pods("big", 2, group="g2", cpu=4, node="n1"),
        ],
    )
    assert may_take(known, "w", "big-0") is allowed


# Each lacks what the other has too much of: q1 has 8 of CPU and 2 of memory, q2 the reverse, both deserve 5 of each.
# One large pod of each is within the 5 and stays. The other one is on lent room, and a pod of 1 and 1 may have its
# place. But the large pod that went does not come back in place of the small one: one large and one small are 5 and 2,
# two large and nothing else are 8.
def test_what_each_other_lacks_is_not_traded_back_and_forth() -> None:
    due = {"deserved": {"cpu": 5, "memory": 5}}
    known = two_queues(
        first=due,
        second=due,
        objects=[
            *pods("a", 2, group="g1", cpu=4, memory=1, node="n1"),
            *pods("b", 2, group="g2", cpu=1, memory=4, node="n1"),
            group("small1", queue="q1"),
            group("small2", queue="q2"),
            pod("wa", group="small1", cpu=1, memory=1),
            pod("wb", group="small2", cpu=1, memory=1),
        ],
    )
    assert may_take(known, "wa", "b-0")
    assert may_take(known, "wb", "a-0")
    told = Story(actions="reclaim, allocate", tiers=CAPACITY, known=known)
    assert told.live(10, successors=True) == 2
    assert [told.running(name) for name in ("g1", "g2", "small1", "small2")] == [1, 1, 1, 1]
    assert told.live(20, successors=True) == 0


# q2 borrowed all 10 as one gang and deserves 5, as does q1. Without the gang q2 lacks 5, as much as q1 lacks now. q1
# gets them if its pods stay within what it deserves. A gang of its own that needs 6 has to wait.
@pytest.mark.parametrize(("members", "evictions"), [(5, 10), (6, 0)])
def test_a_gang_that_borrowed_everything_gives_back_as_a_whole(members: int, evictions: int) -> None:
    told = story(
        node("n1", cpu=10),
        queue("q1", deserved={"cpu": 5}),
        queue("q2", deserved={"cpu": 5}),
        group("g1", queue="q1", min_member=members),
        group("g2", queue="q2", min_member=10),
        pods("w", members, group="g1", cpu=1),
        pods("r", 10, group="g2", cpu=1, node="n1"),
    )
    assert len(told.evicted) == evictions
    told.carry_out(successors=True)
    assert told.live(20, successors=True) == 0


# q2 is guaranteed 3 and has 4: of pods of 1 one may go, of pods of 2 none.
@pytest.mark.parametrize(("size", "allowed"), [(1, True), (2, False)])
def test_nobody_is_taken_below_a_guarantee(size: int, allowed: bool) -> None:
    known = two_queues(
        first={"deserved": {"cpu": 7}},
        second={"guarantee": {"cpu": 3}},
        objects=[pod("w", group="g1", cpu=1), *pods("r", 4 // size, group="g2", cpu=size, node="n1")],
    )
    assert may_take(known, "w", "r-0") is allowed


# A gang of 4 of a queue that deserves 3: without it 3 are lacking. q1 deserves 5 and lacks 4. One after the other the
# pods go, and the last is judged like the first: as part of what was borrowed, not by what is left.
def test_a_gang_that_goes_as_a_whole_is_judged_as_a_whole() -> None:
    known = two_queues(
        first={"deserved": {"cpu": 5}},
        second={"deserved": {"cpu": 3}},
        objects=[
            pod("r", group="g1", cpu=1, node="n1"),
            pod("w", group="g1", cpu=4),
            *pods("member", 4, group="g2", cpu=1, node="n1"),
        ],
    )
    known.jobs["default/g2"].min_available = 4  # type: ignore[index]
    current = session(known, tiers=[["capacity"]])
    statement = current.statement()
    evictor = known.tasks["default/w"]  # type: ignore[index]
    for number in range(4):
        victim = known.tasks[f"default/member-{number}"]  # type: ignore[index]
        assert current.may_evict("reclaimable", evictor, victim, whole=True)
        statement.evict(victim, reason="Reclaimed", message="")


# q1 lacks memory and q2 has more CPU than its due: what is borrowed is of no use here.
def test_only_pods_that_give_back_what_is_claimed_are_taken() -> None:
    known = two_queues(
        first={"deserved": {"memory": 5}},
        second={"deserved": {"cpu": 1}},
        objects=[
            pod("w", group="g1", memory=1),
            pod("cpu", group="g2", cpu=2, node="n1"),
            pod("nothing", group="g2", node="n1"),
            pod("memory", group="g2", memory=2, node="n1"),
        ],
    )
    assert not may_take(known, "w", "cpu")
    assert not may_take(known, "w", "nothing")
    assert may_take(known, "w", "memory")


def test_pods_of_the_same_queue_and_strangers_are_no_business_of_queues() -> None:
    known = two_queues(
        first={"deserved": {"cpu": 5}},
        second={},
        objects=[
            pod("w", group="g1", cpu=1),
            pod("own", group="g1", cpu=2, node="n1"),
            pod("stranger", cpu=2, node="n1"),
        ],
    )
    assert not may_take(known, "w", "own")
    assert not may_take(known, "w", "stranger")


def test_a_queue_that_deserves_nothing_claims_nothing() -> None:
    known = two_queues(first={}, second={}, objects=[pod("w", group="g1", cpu=1), pod("r", group="g2", cpu=9)])
    current = session(known, tiers=[["capacity"]])
    refusal = current.preemptive(current.queues["q1"], known.tasks["default/w"].request)  # type: ignore[index]
    assert refusal == Refusal("QueueOverDeserved", resource="cpu", need=1000, have=0, total=0, subject="q1")
    assert not may_take(known, "w", "r")


# -- configuration ----------------------------------------------------------------------------------------------------


def test_capacity_and_proportion_exclude_each_other() -> None:
    registry = Registry(installed_plugins=(), installed_actions=())
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n- plugins:\n  - name: proportion\n"
    with pytest.raises(ConfigurationError) as caught:
        registry.load(text, where="scheduler.yaml")
    assert str(caught.value) == (
        'scheduler.yaml, line 6: plugins "capacity" and "proportion" both divide the queues, by different rules; '
        "remove one of them"
    )
    assert registry.load(text.replace("proportion", "gang")).warnings == ()


def test_levels_are_counted_from_nothing_upwards() -> None:
    registry = Registry(installed_plugins=(), installed_actions=())
    with pytest.raises(ConfigurationError, match='"ancestorReclaimLevel" must be 0 or more'):
        registry.load(
            "actions: allocate\ntiers: [{plugins: [{name: capacity, arguments: {ancestorReclaimLevel: -1}}]}]"
        )
