"""Reclaiming between queues, by cases whose answers are known beforehand (RC1 to RC9).

Amounts are CPUs unless something else is named, weights are 1 unless stated.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from builders import group, node, pod, pods, priority_class, queue
from oracles.stories import RECLAIMING, Story
from stromboli.api import KObject


def story(*objects: KObject | Iterable[KObject], actions: str = "reclaim") -> Story:
    return Story(*objects, actions=actions, tiers=RECLAIMING).run()


# RC1. q2 asks for 1 and deserves it (half of 3 is 1.5), q1 deserves the other 2 and has 3: it is to give one back, and
# just one of its pods may go.
def test_rc1_the_only_pod_that_may_go() -> None:
    told = story(
        node("n1", cpu=3),
        queue("q1"),
        queue("q2"),
        group("pg1", queue="q1", min_member=1),
        group("pg2", queue="q2", min_member=1),
        [pod(f"r{i}", group="pg1", cpu=1, node="n1", preemptable=i == 1) for i in range(3)],
        pod("p", group="pg2", cpu=1),
    )
    assert told.evicted == ["r1"]
    assert told.nominated == {"p": "n1"}


# RC2. q3 asks for 1 of 4, so q1 and q2 deserve 1.5 each and have 2. Both have too much by the same amount; q2 is the
# later queue and goes first, with the pod that may go. Its job is of lower priority than q1's, too.
def test_rc2_the_preemptable_pod_of_the_queue_that_comes_last() -> None:
    told = story(
        priority_class("mid", 50),
        priority_class("low", 10),
        node("n1", cpu=4),
        queue("q1"),
        queue("q2"),
        queue("q3"),
        group("pg1", queue="q1", min_member=1, priority_class="mid"),
        group("pg2", queue="q2", min_member=1, priority_class="low"),
        group("pg3", queue="q3", min_member=1, priority_class="low"),
        pods("a", 2, group="pg1", cpu=1, node="n1"),
        pod("b0", group="pg2", cpu=1, node="n1", preemptable=False),
        pod("b1", group="pg2", cpu=1, node="n1", preemptable=True),
        pod("p", group="pg3", cpu=1),
    )
    assert told.evicted == ["b1"]


# RC3. As before, but the queues have priorities: 5, 10, and 1 for the one that asks. The queue of priority 5 is served
# after that of 10, so it loses first, although it is older.
@pytest.mark.parametrize(("q1", "q2", "evicted"), [(5, 10, "a"), (10, 5, "b")])
def test_rc3_the_queue_of_lower_priority_loses_first(q1: int, q2: int, evicted: str) -> None:
    told = story(
        node("n1", cpu=4),
        queue("q1", priority=q1),
        queue("q2", priority=q2),
        queue("q3", priority=1),
        group("pg1", queue="q1", min_member=1),
        group("pg2", queue="q2", min_member=1),
        group("pg3", queue="q3", min_member=1),
        pods("a", 2, group="pg1", cpu=1, node="n1"),
        pods("b", 2, group="pg2", cpu=1, node="n1"),
        pod("p", group="pg3", cpu=1),
    )
    assert [name[0] for name in told.evicted] == [evicted]


# RC4. The claimant's own policy forbids it to evict. RC5. A queue that is not open takes nothing back.
# And a queue whose pods are not to be reclaimed loses nothing.
@pytest.mark.parametrize(
    ("may_preempt", "state", "reclaimable", "evictions"),
    [(True, "Open", True, 1), (False, "Open", True, 0), (True, "Closed", True, 0), (True, "Open", False, 0)],
    ids=["all may", "RC4", "RC5", "not reclaimable"],
)
def test_rc4_rc5_who_may_not_reclaim(may_preempt: bool, state: str, reclaimable: bool, evictions: int) -> None:
    told = story(
        node("n1", cpu=2),
        queue("q1", reclaimable=reclaimable),
        queue("q2", state=state),
        group("pg1", queue="q1", min_member=1),
        group("pg2", queue="q2", min_member=1),
        pods("r", 2, group="pg1", cpu=1, node="n1"),
        pod("p", group="pg2", cpu=1, may_preempt=may_preempt),
    )
    assert len(told.evicted) == evictions


# RC6. 10 CPUs, 2 GiB; q1 and q2 have 1 and 1 GiB each, q3 asks for 2 and 1 GiB. CPUs are idle, only memory is short.
# With weight 2, q3 deserves 2 × 2/4 = 1 GiB and the others 0.5: one eviction, from q1, whose priority is lower, gives
# the memory; the CPUs are taken from what is idle (8 + 1 ≥ 2).
# With weight 1, everybody deserves 0.67 GiB, and q3 would have more than that with 1: whoever lost the room to it would
# have the same claim in the next cycle. So nobody is evicted.
@pytest.mark.parametrize(("weight", "evicted"), [(2, ["a"]), (1, [])])
def test_rc6_idle_room_counts_beside_what_is_reclaimed(weight: int, evicted: list[str]) -> None:
    told = story(
        node("n1", cpu=10, memory="2Gi"),
        queue("q1", priority=1),
        queue("q2", priority=5),
        queue("q3", weight=weight),
        group("pg1", queue="q1", min_member=0),
        group("pg2", queue="q2", min_member=0),
        group("pg3", queue="q3", min_member=1),
        pod("a", group="pg1", cpu=1, memory="1Gi", node="n1"),
        pod("b", group="pg2", cpu=1, memory="1Gi", node="n1"),
        pod("p", group="pg3", cpu=2, memory="1Gi"),
    )
    assert told.evicted == evicted


# RC7. One pod of the job must not evict, the other one may, and there is one pod to evict. If one pod is enough for the
# job to start, it goes. If both are needed it stays: nothing is evicted unless the whole gang then has a place.
@pytest.mark.parametrize(("min_member", "evicted"), [(1, ["r0"]), (2, [])])
def test_rc7_a_gang_that_can_only_be_half_placed(min_member: int, evicted: list[str]) -> None:
    told = story(
        node("n1", cpu=2),
        queue("q1"),
        queue("q2"),
        group("pg1", queue="q1", min_member=0),
        group("pg2", queue="q2", min_member=min_member),
        pod("r0", group="pg1", cpu=1, node="n1", preemptable=True),
        pod("r1", group="pg1", cpu=1, node="n1", preemptable=False),
        pod("p0", group="pg2", cpu=1, may_preempt=False),
        pod("p1", group="pg2", cpu=1),
    )
    assert told.evicted == evicted


# RC8. q1 has 2 and by its weight would deserve 1 of 10, but 10 - 2 = 8 are idle and q2 asks for 3: nobody has to go.
def test_rc8_nobody_goes_while_there_is_room() -> None:
    told = story(
        node("n1", cpu=10),
        queue("q1", weight=1),
        queue("q2", weight=9),
        group("pg1", queue="q1", min_member=0),
        group("pg2", queue="q2", min_member=1),
        pods("r", 2, group="pg1", cpu=1, node="n1"),
        pod("p", group="pg2", cpu=3),
    )
    assert told.evicted == []


# RC9. 12 CPUs, all used by q1, whose job needs 1 to run. q2, of the same weight (then of twice as much), asks for 12:
# each ends with its part, 6 and 6 (4 and 8), and then nobody is evicted any more. The evicted pods wait again.
@pytest.mark.parametrize(("weight", "parts"), [(1, [6, 6]), (2, [4, 8])])
@pytest.mark.parametrize("min_member", [1, 4])
def test_rc9_queues_end_with_what_they_deserve(weight: int, parts: list[int], min_member: int) -> None:
    told = Story(
        [node(f"n{i}", cpu=4) for i in range(3)],
        queue("q1"),
        queue("q2", weight=weight),
        group("pg1", queue="q1", min_member=1),
        [pod(f"a-{i}", group="pg1", cpu=1, node=f"n{i % 3}") for i in range(12)],
        group("pg2", queue="q2", min_member=min_member),
        pods("b", 12, group="pg2", cpu=1),
        actions="reclaim, allocate",
        tiers=RECLAIMING,
    )
    told.live(6, successors=True)
    assert [told.cores("q1"), told.cores("q2")] == parts
    assert told.live(4, successors=True) == 0


# A gang of 4 in q1 has all of the cluster, q2 asks for 2 and deserves them: q1 (4 > 2) may lose 2, but then the other
# two of its gang would do nothing. All of it would have to go, and would leave q1 with 0, lacking 2 that it deserves:
# no more than q2 lacks now. So it does.
def test_a_gang_is_reclaimed_as_a_whole() -> None:
    told = story(
        node("n1", cpu=4),
        queue("q1"),
        queue("q2"),
        group("pg1", queue="q1", min_member=4),
        group("pg2", queue="q2", min_member=2),
        pods("r", 4, group="pg1", cpu=1, node="n1"),
        pods("p", 2, group="pg2", cpu=1),
    )
    assert told.evicted == ["r-0", "r-1", "r-2", "r-3"]
