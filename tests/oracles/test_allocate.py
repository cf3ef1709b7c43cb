"""Allocation, by cases whose answers are known beforehand (AL1 to AL11, guarantees, lending, fifo, shares).

The ids are those of the list of cases that schedulers of this family are tested with; the arithmetic stands above
each case. Amounts are CPUs unless something else is named.
"""

from __future__ import annotations

import pytest

from builders import group, node, plugin, pod, pods, priority_class, queue
from oracles.stories import FAIR, Story

MASTER, WORKER = {"nodeRole": "master"}, {"nodeRole": "worker"}


# AL1. p1 fits no node by its selector; the job needs one pod only, so p2 runs without it.
def test_al1_a_pod_without_a_node_does_not_hold_up_its_sibling() -> None:
    story = Story(
        node("n1", cpu=2, labels=WORKER),
        group("pg1", min_member=1),
        pod("p1", group="pg1", cpu=1, role="master", node_selector=MASTER),
        pod("p2", group="pg1", cpu=1, role="worker", node_selector=WORKER),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"p2": "n1"}
    assert story.why("p1") == "PredicateNodeAffinity"


# AL2. One of each role is needed and there is room for one of each: 1 + 1 on 1 + 1.
def test_al2_each_role_gets_its_minimum() -> None:
    story = Story(
        node("n1", cpu=1, labels=MASTER),
        node("n2", cpu=1, labels=WORKER),
        group("pg1", min_member=2, roles={"master": 1, "worker": 1}),
        [pod(f"p{i}", group="pg1", cpu=1, role="master", node_selector=MASTER) for i in (0, 1)],
        [pod(f"p{i}", group="pg1", cpu=1, role="worker", node_selector=WORKER) for i in (2, 3)],
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"p0": "n1", "p2": "n2"}


# AL3. Two masters are needed and one fits. That two workers would fit as well (2 pods, the gang's minimum) is no help.
def test_al3_a_role_below_its_minimum_keeps_the_whole_gang_back() -> None:
    story = Story(
        node("n1", cpu=1, labels=MASTER),
        node("n2", cpu=2, labels=WORKER),
        group("pg1", min_member=2, roles={"master": 2, "worker": 0}),
        [pod(f"p{i}", group="pg1", cpu=1, role="master", node_selector=MASTER) for i in (0, 1)],
        [pod(f"p{i}", group="pg1", cpu=1, role="worker", node_selector=WORKER) for i in (2, 3)],
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {}


# AL4. 1 + 1 = 2, and nothing is asked of the gang.
def test_al4_a_job_without_a_minimum_gets_what_fits() -> None:
    story = Story(
        node("n1", cpu=2), group("pg1", min_member=0), pods("p", 2, group="pg1", cpu=1), actions="allocate", tiers=FAIR
    ).run()
    assert story.binds == {"p-0": "n1", "p-1": "n1"}


# AL5. Each queue deserves 2 × 1/2 = 1: one pod each, the first by name.
def test_al5_two_queues_share_a_node() -> None:
    story = Story(
        node("n1", cpu=2),
        queue("q1"),
        queue("q2"),
        group("c1/pg1", queue="q1"),
        group("c2/pg2", queue="q2"),
        [pod(f"c1/pg1-p-{i}", group="pg1", cpu=1) for i in (1, 2)],
        [pod(f"c2/pg2-p-{i}", group="pg2", cpu=1) for i in (1, 2)],
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"c1/pg1-p-1": "n1", "c2/pg2-p-1": "n1"}


# AL6. 3 > 2, so the first queue's pod fits nowhere, by right or lent; 1 ≤ 2 of the other one does.
def test_al6_a_pod_that_is_too_big_does_not_block_others() -> None:
    story = Story(
        node("n1", cpu=2),
        queue("c1"),
        queue("c2"),
        group("pg1", queue="c1"),
        group("pg2", queue="c2"),
        pod("big", group="pg1", cpu=3),
        pod("small", group="pg2", cpu=1),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"small": "n1"}


# AL7. Both queues deserve 2.5 of 5. q1 has 1 (0.4), q2 nothing (0), so q2 goes first and takes 3; 5 - 1 - 3 = 1 is
# too little for q1's 2. (With the queues' own test, 3 would be more than 2.5: here only the order is looked at.)
def test_al7_the_queue_with_the_smaller_share_goes_first() -> None:
    story = Story(
        node("n1", cpu=5),
        queue("q1"),
        queue("q2"),
        group("run", queue="q1"),
        group("pg1", queue="q1"),
        group("pg2", queue="q2"),
        pod("r", group="run", cpu=1, node="n1"),
        pod("p1", group="pg1", cpu=2),
        pod("p2", group="pg2", cpu=3),
        actions="allocate",
        tiers=[["gang"], ["drf", plugin("proportion", allocatable=False), "predicates", "nodeorder"]],
    ).run()
    assert story.binds == {"p2": "n1"}


# AL8. As before; q2 (0) takes 2 and stands at 2/2.5 = 0.8; now q1 (0.4) comes first with its 2; 5 - 1 - 2 - 2 = 0 is
# left for q2's second job. Were q2 emptied first, its 1 would run and q1's 2 would not.
def test_al8_queues_are_put_in_order_again_after_each_job() -> None:
    story = Story(
        node("n1", cpu=5),
        queue("q1"),
        queue("q2"),
        group("run", queue="q1"),
        group("pg1", queue="q1"),
        group("pg2", queue="q2"),
        group("pg3", queue="q2"),
        pod("r", group="run", cpu=1, node="n1"),
        pod("p1", group="pg1", cpu=2),
        pod("p2", group="pg2", cpu=2),
        pod("p3", group="pg3", cpu=1),
        actions="allocate",
        tiers=[["gang"], ["drf", plugin("proportion", allocatable=False), "predicates", "nodeorder"]],
    ).run()
    assert story.binds == {"p2": "n1", "p1": "n1"}


# AL9. 1 of 5 runs; the queue's first job has nothing to place, the next one fits.
def test_al9_a_job_with_nothing_to_do_does_not_end_its_queue() -> None:
    story = Story(
        node("n1", cpu=5),
        queue("q1"),
        group("pg1", queue="q1"),
        group("pg2", queue="q1"),
        pod("r", group="pg1", cpu=1, node="n1"),
        pod("p", group="pg2", cpu=2),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"p": "n1"}


# AL10. 1000 pods of 1 on 10 nodes of 100: everybody has a place, and no node has more than it holds.
def test_al10_a_thousand_pods_of_one_job() -> None:
    story = Story(
        [node(f"n{i}", cpu=100) for i in range(10)],
        group("pg1", min_member=1000),
        pods("p", 1000, group="pg1", cpu=1),
        actions="allocate",
        tiers=FAIR,
    ).run()
    places = list(story.binds.values())
    assert len(places) == 1000
    assert {name: places.count(name) for name in set(places)} == {f"n{i}": 100 for i in range(10)}


# AL11. 1 is free. The important pod asks for 1.5 and fails; the other one asks for 0.5, and the job needs one pod.
def test_al11_the_less_important_pod_runs_if_the_important_one_cannot() -> None:
    story = Story(
        node("n1", cpu=1),
        group("pg1", min_member=1),
        pod("high", group="pg1", cpu="1500m", priority=100),
        pod("low", group="pg1", cpu="500m", priority=1),
        actions="allocate",
        tiers=[["priority", "gang"], ["drf", "proportion", "predicates", "nodeorder"]],
    ).run()
    assert story.binds == {"low": "n1"}


# SH1. 300 nodes, the only one with a GPU is the last by name: no sample of the nodes, all of them are looked at.
# And of many that fit, the best one is taken, wherever it stands: 7 of 8 idle beats 6 of 8 elsewhere.
def test_sh1_every_node_is_considered() -> None:
    plain = [node(f"n{i:03}", cpu=8, memory="8Gi") for i in range(299)]
    story = Story(
        plain,
        node("z", cpu=8, memory="8Gi", gpu=1),
        group("busy", min_member=0),
        [pod(f"b{i:03}", group="busy", cpu=2, memory="2Gi", node=f"n{i:03}") for i in range(299) if i != 271],
        pod("b271", group="busy", cpu=1, memory="1Gi", node="n271"),
        pod("bz", group="busy", cpu=4, memory="4Gi", node="z"),
        group("pg1"),
        pod("device", group="pg1", cpu=1, memory="1Gi", gpu=1),
        group("pg2"),
        pod("any", group="pg2", cpu=1, memory="1Gi"),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"device": "z", "any": "n271"}


# Dominant shares, the textbook: 9 CPUs and 18 GiB; A asks <1, 4>, B <3, 1>.
#   turn     A's share          B's share
#   A        4/18 = 0.222       0
#   B        0.222              3/9 = 0.333
#   A        8/18 = 0.444       0.333
#   B        0.444              6/9 = 0.667
#   A        12/18 = 0.667      0.667           then 0 CPUs are left (3 + 6 = 9)
def test_drf_textbook_takes_turns_a_b_a_b_a() -> None:
    story = Story(
        node("n1", cpu=9, memory="18Gi"),
        group("a"),
        group("b"),
        pods("a", 6, group="a", cpu=1, memory="4Gi"),
        pods("b", 6, group="b", cpu=3, memory="1Gi"),
        actions="allocate",
        tiers=[["gang"], ["drf"]],
    ).run()
    assert list(story.binds) == ["a-0", "b-0", "a-1", "b-1", "a-2"]


# GU1. All of the node is guaranteed to q1, which asks for nothing. 2 - 2 = 0 is left for q2: neither by right nor lent.
# GU2. 1 is guaranteed to q1; 2 - 1 = 1 < 1.5.
# GU2'. 2 - 1 = 1 ≥ 1: that much q2 may have.
@pytest.mark.parametrize(
    ("guaranteed", "asked", "runs"), [(2, "500m", False), (1, "1500m", False), (1, 1, True)], ids=["GU1", "GU2", "GU2'"]
)
def test_gu_a_guarantee_keeps_others_out(guaranteed: int, asked: str, runs: bool) -> None:
    story = Story(
        node("n1", cpu=2, memory="2Gi"),
        queue("q1", guarantee={"cpu": guaranteed, "memory": f"{guaranteed}Gi"}),
        queue("q2"),
        group("pg", queue="q2"),
        pod("p", group="pg", cpu=asked),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == ({"p": "n1"} if runs else {})
    assert runs or story.why("p") == "QueueOverQuota"


# -- lending ------------------------------------------------------------------------------------------------------


def ten_for_two(pods_of_q2: int) -> Story:
    return Story(
        node("n1", cpu=10),
        queue("q1"),
        queue("q2"),
        queue("q3"),
        group("pg1", queue="q1", min_member=1),
        group("pg2", queue="q2", min_member=1),
        pods("a", 3, group="pg1", cpu=3),
        pods("b", pods_of_q2, group="pg2", cpu=3),
        actions="reclaim, allocate",
        tiers=RECLAIM_AND_LEND,
    )


RECLAIM_AND_LEND = [["priority", "gang", "conformance"], ["drf", "proportion", "predicates", "nodeorder"]]


# Both deserve 5: one pod of 3 each by right, since 3 + 3 > 5. 10 - 6 = 4 lies idle for no other reason, so one more is
# lent, to q1: shares are even (3/5), and it is the older queue. 10 - 9 = 1 is too little for another.
def test_room_nobody_can_use_by_right_is_lent_in_queue_order() -> None:
    story = ten_for_two(3).run()
    assert story.binds == {"a-0": "n1", "b-0": "n1", "a-1": "n1"}


# q2 has 3 and 3 + 3 = 6 > 5: taking the lent room would put it above what it deserves. Nobody is evicted, ever.
def test_lent_room_is_not_taken_back_and_forth() -> None:
    story = ten_for_two(3)
    assert story.live(5, successors=True) == 0
    assert (story.cores("q1"), story.cores("q2")) == (6, 3)


# q3 arrives and asks for 3. Now q3 deserves 3, and q1 and q2 (10 - 3) / 2 = 3.5 each: q1 has 6 and gives its lent pod
# back, q2 has 3 and loses nothing. After that 3 + 3 + 3 = 9 and everybody is content.
def test_lent_room_is_taken_back_when_somebody_deserves_it() -> None:
    story = ten_for_two(3)
    story.live(1)
    story.add(group("pg3", queue="q3"), pod("c", group="pg3", cpu=3))
    story.run()
    assert story.evicted == ["a-1"]
    story.carry_out(successors=True)
    assert story.live(5, successors=True) == 0
    assert [story.cores(name) for name in ("q1", "q2", "q3")] == [3, 3, 3]


# q2 asks for 2 more: 3 + 2 = 5, just what it deserves. 1 is idle, so q1 (6 > 5) gives its lent pod back; it then lacks
# 5 - 3 = 2, no more than q2 lacked before (5 - 3 = 2).
def test_lent_room_is_taken_back_for_a_pod_that_fits_in_the_deserved_amount() -> None:
    story = ten_for_two(1)
    story.add(queue("q4"))
    story.live(1)
    assert (story.cores("q1"), story.cores("q2")) == (6, 3)
    story.add(group("pg4", queue="q2"), pod("c", group="pg4", cpu=2))
    story.run()
    assert story.evicted == ["a-1"]


# Lending stops at the hard limit: with a capability of 5 for q1, its second pod (6) is not lent; q2's is.
def test_lending_does_not_go_beyond_a_capability() -> None:
    story = Story(
        node("n1", cpu=10),
        queue("q1", capability={"cpu": 5}),
        queue("q2"),
        group("pg1", queue="q1"),
        group("pg2", queue="q2"),
        pods("a", 3, group="pg1", cpu=3),
        pods("b", 3, group="pg2", cpu=3),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"a-0": "n1", "b-0": "n1", "b-1": "n1"}


# -- first in, first out ------------------------------------------------------------------------------------------


def stuck_head(*, fifo: bool, actions: str = "allocate", head: float = 8) -> Story:
    """A queue whose first job is too big for the cluster (unless `head` says otherwise), with a small one behind."""
    return Story(
        node("n1", cpu=4),
        queue("q1", fifo=fifo),
        queue("q2"),
        group("first", queue="q1"),
        group("second", queue="q1"),
        group("other", queue="q2"),
        pod("first", group="first", cpu=head),
        pod("second", group="second", cpu=1),
        pod("other", group="other", cpu=1),
        actions=actions,
        tiers=RECLAIM_AND_LEND,
    )


def test_a_fifo_queue_stops_at_its_first_job_that_cannot_be_placed() -> None:
    assert stuck_head(fifo=False).run().binds == {"second": "n1", "other": "n1"}
    story = stuck_head(fifo=True).run()
    assert story.binds == {"other": "n1"}
    assert story.why("second") == "QueueFirstInLine"


def test_a_fifo_queue_goes_on_while_its_jobs_can_be_placed() -> None:
    assert set(stuck_head(fifo=True, head=2).run().binds) == {"first", "second", "other"}


# Idle room is not lent past the head either: q1 deserves 4 - 1 = 3, its head wants 8, the second only 1.
def test_a_fifo_queue_borrows_nothing_past_its_head() -> None:
    story = stuck_head(fifo=True)
    assert story.live(3) == 0
    assert story.running("second") == 0


# q1 has all of the 2 it deserves and is passed over in the first pass, head and all. 2 are idle, as nobody may use them
# by right (q2's pod asks for 3): the head, of 3, cannot borrow them, so the job behind it may not, either.
@pytest.mark.parametrize(("fifo", "binds"), [(False, {"second": "n1"}), (True, {})])
def test_a_fifo_queue_that_has_its_share_borrows_in_line(fifo: bool, binds: dict[str, str]) -> None:
    story = Story(
        node("n1", cpu=4),
        queue("q1", fifo=fifo),
        queue("q2"),
        group("runs", queue="q1"),
        pods("r", 2, group="runs", cpu=1, node="n1"),
        group("first", queue="q1"),
        group("second", queue="q1"),
        group("other", queue="q2"),
        pod("first", group="first", cpu=3),
        pod("second", group="second", cpu=1),
        pod("other", group="other", cpu=3),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == binds


# The head finds no node by its selector. The job behind it asks for 3, more than the 2 its queue deserves: it could
# only borrow, and must not do that past the head, either. So the 4 are lent to q2.
def test_a_fifo_queue_borrows_nothing_past_a_head_without_a_node() -> None:
    story = Story(
        node("n1", cpu=4),
        queue("q1", fifo=True),
        queue("q2"),
        group("first", queue="q1"),
        group("second", queue="q1"),
        group("other", queue="q2"),
        pod("first", group="first", cpu=1, node_selector={"disk": "ssd"}),
        pod("second", group="second", cpu=3),
        pod("other", group="other", cpu=4),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"other": "n1"}


# q2 fills the cluster with 4, where each queue deserves 2. q1's head asks for 8 and can never be placed; the job behind
# it asks for 1, which could be reclaimed by right, and is, but only if the queue may pass over its head.
@pytest.mark.parametrize(("fifo", "evictions"), [(False, 1), (True, 0)])
def test_nobody_is_evicted_for_a_job_behind_the_head_of_a_fifo_queue(fifo: bool, evictions: int) -> None:
    story = Story(
        node("n1", cpu=4),
        queue("q1", fifo=fifo),
        queue("q2"),
        group("full", queue="q2"),
        pods("r", 4, group="full", cpu=1, node="n1"),
        group("first", queue="q1"),
        pod("first", group="first", cpu=8),
        group("second", queue="q1"),
        pod("second", group="second", cpu=1),
        actions="reclaim, allocate",
        tiers=RECLAIM_AND_LEND,
    ).run()
    assert len(story.evicted) == evictions


# The same inside a queue: the head is of middle priority and stuck at 8; the job behind it could preempt.
@pytest.mark.parametrize(("fifo", "evictions"), [(False, 1), (True, 0)])
def test_nobody_is_preempted_for_a_job_behind_the_head_of_a_fifo_queue(fifo: bool, evictions: int) -> None:
    story = Story(
        priority_class("high", 100),
        node("n1", cpu=4),
        queue("q1", fifo=fifo),
        group("full", queue="q1"),
        pods("r", 4, group="full", cpu=1, node="n1"),
        group("first", queue="q1", priority_class="high"),
        pod("first", group="first", cpu=8),
        group("second", queue="q1", priority_class="high"),
        pod("second", group="second", cpu=1),
        actions="allocate, preempt",
        tiers=RECLAIM_AND_LEND,
    ).run()
    assert len(story.evicted) == evictions
