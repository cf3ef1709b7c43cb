"""News in another order than things happened in: watches of different kinds know nothing of each other."""

from __future__ import annotations

from builders import cluster, established, group, node, pod, queue
from stromboli.api import Pod, PodGroup
from stromboli.api.waiting_reservations import waiting_pod_of, waiting_reservation
from stromboli.cluster import Applied, BindFailed, Deleted, Status, TaskKey


def test_a_bound_pod_keeps_its_place_when_its_reservation_goes_before_its_node_is_known() -> None:
    """The pod is on n1, with all 2 CPUs of it. The scheduler that comes hears of n1 last."""
    known = cluster(queue("default"), group("gang", min_member=1, phase="Inqueue"))
    gang = established(group("gang", min_member=1, phase="Inqueue"))
    waiting = established(pod("a", group="gang", cpu=2))
    bound = established(pod("a", group="gang", cpu=2, node="n1"))
    assert isinstance(gang, PodGroup)
    assert isinstance(waiting, Pod)
    reservation = waiting_reservation(waiting, gang, "n1")
    assert waiting_pod_of(reservation) == "default/a"

    for event in (Applied(reservation), Applied(bound), Deleted(reservation), Applied(node("n1", cpu=2))):
        known.apply(event)

    table = known.snapshot().nodes
    task = known.tasks[TaskKey("default/a")]
    assert task.status is Status.RUNNING
    assert task.node is table.by_name["n1"]
    assert table.axis.amounts(table.idle[task.node.row]).get("cpu", 0) == 0
    known.validate()


def test_a_reservation_without_a_status_counts_from_the_first_moment() -> None:
    """A scheduler was killed between writing the object and its status."""
    gang = established(group("gang", min_member=1, phase="Inqueue"))
    waiting = established(pod("a", group="gang", cpu=2))
    assert isinstance(gang, PodGroup)
    assert isinstance(waiting, Pod)
    reservation = waiting_reservation(waiting, gang, "n1")
    reservation.status.phase, reservation.status.node_name = "", ""
    known = cluster(queue("default"), gang, waiting, node("n1", cpu=2), reservation)

    known.snapshot()
    task = known.tasks[TaskKey("default/a")]
    assert task.status is Status.RESERVED
    assert task.node is known.nodes["n1"]


def test_a_reservation_of_a_user_does_not_wait_for_its_status() -> None:
    gang = established(group("gang", min_member=1, phase="Inqueue"))
    waiting = established(pod("a", group="gang", cpu=2))
    assert isinstance(gang, PodGroup)
    assert isinstance(waiting, Pod)
    reservation = waiting_reservation(waiting, gang, "n1")
    reservation.metadata.name = "mine"
    reservation.status.phase = ""
    assert waiting_pod_of(reservation) is None


def test_a_pod_that_is_being_bound_to_lent_room_stays_marked_though_old_news_does_not_say_so() -> None:
    known = cluster(queue("default"), group("gang", min_member=1, phase="Inqueue"), pod("a", group="gang", cpu=2))
    known.apply(Applied(established(node("n1", cpu=2))))
    known.snapshot()
    task = known.tasks[TaskKey("default/a")]
    known.ledger.leave(task)
    task.backfill = True
    known.ledger.enter(task)
    known.ledger.settle(task, Status.BINDING, known.nodes["n1"])

    known.apply(Applied(task.pod))  # as it was before the bind
    assert task.backfill
    known.validate()

    known.apply(BindFailed(task.key))
    assert not task.backfill
    assert task.status is Status.PENDING
    known.validate()
