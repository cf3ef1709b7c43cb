"""The smallest cases of what random ones have found, one by one."""

from __future__ import annotations

import numpy as np

from builders import START, cluster, established, group, node, pod, priority_class, queue, session
from properties.random_clusters import World, scheduler
from stromboli.cluster import Deleted, Holding
from stromboli.scheduling.decisions import Bind, Evict
from stromboli.scheduling.operations.set_aside import give_up, set_aside
from stromboli.scheduling.reservations.reservation_operations import consume


def test_a_hungry_gang_whose_own_pods_may_not_go_looks_on_elsewhere() -> None:
    """One of two pods runs, and nobody's eviction is allowed; there is no plan, which is no reason to stop."""
    world = cluster(
        node("n1", cpu=1, pods=2),
        group("ns1/j", min_member=2),
        pod("ns1/j-0", group="j"),
        pod("ns1/j-1", group="j", node="n1"),
    )
    decisions = scheduler().run(world, START + 1000).decisions
    assert [d.task for d in decisions if isinstance(d, Bind)] == ["ns1/j-0"]


def test_waiting_pods_are_explained_in_the_order_of_their_names() -> None:
    objects = [
        node("n1", cpu=1),
        group("ns1/j", min_member=2),
        pod("ns1/j-0", group="j", cpu=4),
        pod("ns1/j-1", group="j", cpu=4),
    ]
    objects = [established(obj, position) for position, obj in enumerate(objects)]
    forwards, backwards = cluster(objects), cluster(objects[::-1])
    assert scheduler().run(forwards, START).decisions == scheduler().run(backwards, START).decisions


def test_what_a_session_only_tried_to_take_from_a_reservation_is_there_again() -> None:
    """A job that waits for leaving pods keeps its statement open to the end of the cycle: it consumed nothing."""
    world = cluster(node("n1", cpu=4), group("ns1/j"), pod("ns1/j-0", group="j", cpu=1))
    world.snapshot()
    held = world.axis.vector({"cpu": 2000})
    world.ledger.set_holding("r", Holding(world.nodes["n1"], held, None))
    statement = session(world).statement()
    task = world.tasks["ns1/j-0"]
    statement.allocate(task, world.nodes["n1"])
    consume(statement, task, "r", task.request)
    world.snapshot()
    assert np.array_equal(world.ledger.holdings["r"].remainder, held)
    world.validate()


def test_a_pod_that_fits_evicts_no_sibling() -> None:
    """The gang of three is short by one, which is BestEffort and fits: its lower sibling has no reason to go."""
    world = cluster(
        node("n1", cpu=1),
        group("ns1/j", min_member=3),
        pod("ns1/j-0", group="j", priority=50),
        pod("ns1/j-1", group="j", priority=5, node="n1"),
        pod("ns1/j-2", group="j", cpu=1, gated=True),
    )
    decisions = scheduler().run(world, START + 1000).decisions
    assert [d.task for d in decisions if isinstance(d, Evict)] == []


def test_a_big_pod_is_lent_room_although_its_small_sibling_started() -> None:
    """4 CPUs, two queues of equal weight that want 4 and 2: each deserves 2. The pod of 3 is more than that, its
    sibling of 1 is not; but nobody else can use the 3 CPUs that are left, so they are lent."""
    world = cluster(
        node("n1", cpu=4),
        queue("q1"),
        queue("q2"),
        group("ns1/j", queue="q1"),
        pod("ns1/j-0", group="j", cpu=3),
        pod("ns1/j-1", group="j", cpu=1),
        group("ns1/k", queue="q2"),
        pod("ns1/k-0", group="k", cpu=2, node_selector={"zone": "nowhere"}),
    )
    decisions = scheduler().run(world, START + 1000).decisions
    assert {d.task for d in decisions if isinstance(d, Bind)} == {"ns1/j-0", "ns1/j-1"}


def test_nobody_takes_the_idle_part_of_a_promised_room() -> None:
    """The big pod was promised 4 CPUs: 2 that are idle and 2 that a victim is leaving. If a newcomer took the idle 2,
    the victim would have gone for nothing."""
    world = World(
        established(obj, position)
        for position, obj in enumerate([
            node("n1", cpu=4),
            queue("default"),
            priority_class("high", 100),
            group("ns1/low"),
            pod("ns1/low-0", group="low", cpu=2, node="n1"),
            group("ns1/big", priority_class="high"),
            pod("ns1/big-0", group="big", cpu=4),
        ])
    )  # fmt: skip
    world.grace = 2
    decisions = world.cycle(scheduler())
    assert [d.task for d in decisions if isinstance(d, Evict)] == ["ns1/low-0"]
    world.carry_out(decisions)
    world.put(established(group("ns1/new"), 20))
    world.put(established(pod("ns1/new-0", group="new", cpu=2), 21))
    started = []
    for _ in range(3):
        decisions = world.cycle(scheduler())
        started += [d.task for d in decisions if isinstance(d, Bind)]
        world.carry_out(decisions)
    assert started == ["ns1/big-0"]


def test_a_gang_that_waits_for_leaving_pods_starts_with_all_it_holds_or_not_at_all() -> None:
    """A gang of 2 evicted somebody from n1 for its first pod and keeps n2 for its second. While it waits, a new node
    takes its third pod: with n2 that makes 2, so both start; the third alone would run below the minimum."""
    world = World([
        established(obj, position)
        for position, obj in enumerate([
            node("n1", cpu=2),
            node("n2", cpu=1),
            queue("default"),
            priority_class("high", 100),
            group("ns1/low"),
            pod("ns1/low-0", group="low", cpu=2, node="n1"),
            group("ns1/gang", min_member=2, priority_class="high"),
            pod("ns1/gang-0", group="gang", cpu=2),
            pod("ns1/gang-1", group="gang", cpu=1),
            pod("ns1/gang-2", group="gang", cpu=1),
        ])
    ], grace=3)  # fmt: skip
    world.carry_out(world.cycle(scheduler()))
    assert world.pod("ns1/gang-0").status.nominated_node_name == "n1"
    world.put(established(node("n3", cpu=1), 20))
    decisions = world.cycle(scheduler())
    assert {d.task for d in decisions if isinstance(d, Bind)} == {"ns1/gang-1", "ns1/gang-2"}


def test_a_role_is_filled_by_whichever_of_its_pods_fits() -> None:
    """One worker is needed. The first is too large for any node, which says nothing about the second."""
    world = cluster(
        node("n1", cpu=1),
        group("ns1/j", min_member=1, roles={"worker": 1}),
        pod("ns1/j-0", group="j", role="worker", cpu=3),
        pod("ns1/j-1", group="j", role="worker", cpu=1),
    )
    decisions = scheduler().run(world, START + 1000).decisions
    assert [d.task for d in decisions if isinstance(d, Bind)] == ["ns1/j-1"]


def test_a_queue_that_pays_for_a_reservation_is_remembered() -> None:
    """The queue is deleted and its last job goes, but the Reservation stays and counts in the queue's books."""
    world = cluster(node("n1", cpu=4), queue("q1"), group("ns1/j", queue="q1"))
    world.snapshot()
    payer = world.queues["q1"]
    world.ledger.set_holding("r", Holding(world.nodes["n1"], world.axis.vector({"cpu": 2000}), payer))
    world.apply(Deleted(queue("q1")))
    world.apply(Deleted(group("ns1/j")))
    world.validate()
    assert world.queues["q1"] is payer


def test_a_gang_does_not_count_on_a_pod_that_asks_for_nothing_and_fits_nowhere() -> None:
    """Two are needed; one fits, the other asks for no room but for a zone that does not exist."""
    world = cluster(
        node("n1", cpu=1),
        group("ns1/j", min_member=2),
        pod("ns1/j-0", group="j", cpu=1),
        pod("ns1/j-1", group="j", node_selector={"zone": "nowhere"}),
    )
    decisions = scheduler().run(world, START + 1000).decisions
    assert [d.task for d in decisions if isinstance(d, Bind)] == []


def test_a_place_that_is_reserved_and_taken_in_one_statement_is_counted_once() -> None:
    world = cluster(node("n1", cpu=4), group("ns1/j"), pod("ns1/j-0", group="j", cpu=1))
    current = session(world)
    statement, task = current.statement(), world.tasks["ns1/j-0"]  # type: ignore[index]
    set_aside(statement, task, world.nodes["n1"])
    statement.allocate(task, world.nodes["n1"])
    statement.commit()
    world.validate()


def test_what_is_set_aside_and_given_up_in_one_statement_is_no_decision() -> None:
    world = cluster(node("n1", cpu=4), group("ns1/j"), pod("ns1/j-0", group="j", cpu=1))
    world.snapshot()
    opened = session(world)
    statement, task = opened.statement(), world.tasks["ns1/j-0"]
    set_aside(statement, task, world.nodes["n1"])
    give_up(statement, task)
    statement.commit()
    assert opened.cycle.decisions == []
    assert task.true_node is None


def test_a_pod_that_moves_what_is_set_aside_gives_up_where_it_was() -> None:
    world = cluster(node("n1", cpu=4), node("n2", cpu=4), group("ns1/j"), pod("ns1/j-0", group="j", cpu=1))
    world.snapshot()
    opened = session(world)
    task = world.tasks["ns1/j-0"]
    for name in ("n1", "n2"):
        statement = opened.statement()
        set_aside(statement, task, world.nodes[name])
        statement.commit()
    kinds = [(type(decision).__name__, decision.node) for decision in opened.cycle.decisions]  # type: ignore[union-attr]
    assert kinds == [("Reserve", "n1"), ("Unreserve", "n1"), ("Reserve", "n2")]
