"""The inbox: which events reach the scheduler, and which are urgent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace

from builders import budget, established, group, node, pod, priority_class, queue, quota
from stromboli.api import (
    Condition,
    KObject,
    Node,
    Pod,
    PodGroup,
    Queue,
    Reservation,
    ReservationSpec,
    ReservationStatus,
    key,
    names,
)
from stromboli.api.kinds.metadata import ObjectMeta
from stromboli.api.waiting_reservations import waiting_reservation
from stromboli.cluster import Applied, BindFailed, Cluster, ClusterEvent, Deleted, EvictFailed, TaskKey
from stromboli.kube.scheduler.inbox import Inbox

K = TypeVar("K", bound=KObject)


def established_as(obj: K, uid: str) -> K:
    obj.metadata.uid = uid
    established(obj)
    return obj


def told(*events: ClusterEvent) -> Inbox:
    """An inbox after this news, all of it taken."""
    inbox = Inbox()
    for event in events:
        inbox.put(event)
    inbox.drain()
    return inbox


def described(events: list[ClusterEvent]) -> list[str]:
    signs = {Applied: "+", Deleted: "-", BindFailed: "!", EvictFailed: "?"}
    return [
        signs[type(event)] + (key(event.object) if isinstance(event, Applied | Deleted) else event.task)
        for event in events
    ]


def test_events_are_delivered_once_and_in_order() -> None:
    inbox = Inbox()
    a, b = established(pod("ns/a")), established(pod("ns/b"))
    inbox.put(Applied(a))
    inbox.put(Applied(b))
    inbox.put(Deleted(a))
    inbox.put(BindFailed(TaskKey("ns/b")))
    assert len(inbox) == 4
    assert described(inbox.drain()) == ["+ns/a", "+ns/b", "-ns/a", "!ns/b"]
    assert inbox.drain() == []


def test_all_objects_has_no_deleted_objects() -> None:
    a, b = established(pod("ns/a")), established(pod("ns/b"))
    inbox = told(Applied(a), Applied(b), Deleted(a), Applied(established(node("n1", cpu=1))))
    assert described(inbox.all_objects()) == ["+ns/b", "+n1"]


def changed_node(change: Callable[[Node], None]) -> tuple[Node, Node]:
    forms = []
    for version in ("1", "2"):
        form = established(node("n1", cpu=4))
        assert isinstance(form, Node)
        form.metadata.resource_version = version
        forms.append(form)
    change(forms[1])
    return forms[0], forms[1]


def test_a_heartbeat_is_dropped() -> None:
    before, after = changed_node(lambda one: None)
    inbox = told(Applied(before))
    for _ in range(1000):
        inbox.put(Applied(after))
    assert len(inbox) == 0
    assert not inbox.urgent.is_set()
    # And yet it is what is there.
    assert inbox.all_objects() == [Applied(after)]


def cordon(one: Node) -> None:
    one.spec.unschedulable = True


def shrink(one: Node) -> None:
    one.status.allocatable["cpu"] = 2


def fail(one: Node) -> None:
    one.status.conditions = [Condition(type="Ready", status="Unknown")]


def relabel(one: Node) -> None:
    one.metadata.labels["zone"] = "b"


def annotate(one: Node) -> None:
    one.metadata.annotations["what"] = "else"


@pytest.mark.parametrize("change", [cordon, shrink, fail, relabel, annotate])
def test_any_other_change_of_a_node_is_urgent(change: Callable[[Node], None]) -> None:
    before, after = changed_node(change)
    inbox = told(Applied(before))
    inbox.put(Applied(after))
    assert described(inbox.drain()) == ["+n1"]


GROUPED = {"group": "g"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, pod("ns/p", cpu=1, group="g")),
        (None, node("n1", cpu=1)),
        (None, group("ns/g")),
        (None, queue("q")),
        (None, budget("ns/b", allowed=1)),
        (pod("ns/p", cpu=1), pod("ns/p", cpu=2)),
        (pod("ns/p", gated=True), pod("ns/p")),
        (pod("ns/p"), pod("ns/p", annotations=GROUPED)),
        (pod("ns/p", node="n1"), pod("ns/p", node="n1", deleted=True)),
        (pod("ns/p", node="n1"), pod("ns/p", node="n1", phase="Succeeded")),
        (pod("ns/p", node="n1"), pod("ns/p", node="n1", phase="Failed")),
        (group("ns/g", min_member=2), group("ns/g", min_member=1)),
        (queue("q", state="Closed"), queue("q", state="Open")),
        (queue("q", weight=1), queue("q", weight=2)),
        (quota("ns/x", weight=1), quota("ns/x", weight=2)),
        (priority_class("p", 1), priority_class("p", 2)),
        (budget("ns/b", allowed=0), budget("ns/b", allowed=1)),
    ],
)
def test_what_a_decision_may_depend_on_is_urgent(before: KObject | None, after: KObject) -> None:
    inbox = told() if before is None else told(Applied(established_as(before, "u1")))
    inbox.put(Applied(established_as(after, "u1")))
    assert inbox.urgent.is_set()
    assert described(inbox.drain()) == [f"+{key(after)}"]
    assert not inbox.urgent.is_set()


def waiting_with(message: str) -> Pod:
    made = pod("ns/p", cpu=1)
    made.status.conditions = [Condition(type="PodScheduled", status="False", message=message)]
    return made


def group_with(phase: str) -> PodGroup:
    made = group("ns/g")
    made.status.phase = phase
    return made


def queue_with(allocated: int) -> Queue:
    made = queue("q")
    made.status.allocated = {"cpu": allocated}
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, pod("ns/p", node="n1")),
        (pod("ns/p"), pod("ns/p", node="n1", phase="Pending")),
        (pod("ns/p", node="n1", phase="Pending"), pod("ns/p", node="n1")),
        (waiting_with("no room"), waiting_with("still no room")),
        (group_with("Pending"), group_with("Running")),
        (queue_with(1), queue_with(2)),
    ],
)
def test_echoes_of_our_own_writes_are_not_urgent(before: KObject | None, after: KObject) -> None:
    inbox = told() if before is None else told(Applied(established_as(before, "u1")))
    inbox.put(Applied(established_as(after, "u1")))
    assert not inbox.urgent.is_set()
    assert described(inbox.drain()) == [f"+{key(after)}"]


def test_a_pod_that_has_no_group_yet_is_not_urgent() -> None:
    inbox = told()
    inbox.put(Applied(established_as(pod("ns/p", cpu=1), "u1")))
    assert not inbox.urgent.is_set()
    inbox.put(Applied(established_as(pod("ns/p", cpu=1, group="g"), "u1")))
    assert inbox.urgent.is_set()


def test_room_that_comes_free_is_urgent() -> None:
    runs = established(pod("ns/p", node="n1"))
    inbox = told(Applied(runs))
    inbox.put(Deleted(runs))
    assert inbox.urgent.is_set()


def test_a_second_object_of_the_same_name_is_not_compared_with_the_first() -> None:
    inbox = told(Applied(established_as(node("n1", cpu=4), "u1")))
    inbox.put(Applied(established_as(node("n1", cpu=4), "u2")))
    assert inbox.urgent.is_set()
    assert described(inbox.drain()) == ["+n1"]


def test_the_deletion_of_a_reservation_does_not_delete_its_successor() -> None:
    """It is moved: deleted, and made again under the same name. The watch is later with the first than we with both."""
    old, new = (waiting_reservation(established_as(pod("ns/p", cpu=1), "p"), group("ns/g"), "n1") for _ in range(2))
    old.metadata.uid, name = "u1", key(old)
    inbox = told(Applied(old))
    inbox.put(Deleted(old))
    inbox.put(Applied(new))
    inbox.put(Deleted(old))  # by the watch
    assert described(inbox.drain()) == [f"-{name}", f"+{name}"]
    assert inbox.all_objects() == [Applied(new)]
    # And when it is given up before the watch has shown it, there is no other it could mean.
    inbox.put(Deleted(new))
    assert described(inbox.drain()) == [f"-{name}"]


# -- orders that failed ---------------------------------------------------------------------------------------------


def test_a_failed_request_is_not_urgent() -> None:
    inbox = told(Applied(established_as(pod("ns/p"), "u1")))
    inbox.failed(BindFailed(TaskKey("ns/p")), "u1")
    inbox.failed(EvictFailed(TaskKey("ns/p")), "u1")
    assert described(inbox.drain()) == ["!ns/p", "?ns/p"]
    assert not inbox.urgent.is_set()


def test_the_failed_bind_of_a_pod_does_not_affect_a_successor() -> None:
    inbox = told(Applied(established_as(pod("ns/p"), "u1")))
    inbox.put(Deleted(established_as(pod("ns/p"), "u1")))
    inbox.put(Applied(established_as(pod("ns/p"), "u2")))
    inbox.drain()
    inbox.failed(BindFailed(TaskKey("ns/p")), "u1")
    assert inbox.drain() == []


def test_the_failed_bind_of_a_deleted_pod_is_dropped() -> None:
    inbox = told(Applied(established_as(pod("ns/p"), "u1")), Deleted(established_as(pod("ns/p"), "u1")))
    inbox.failed(BindFailed(TaskKey("ns/p")), "u1")
    assert inbox.drain() == []


# -- objects that break the rules -----------------------------------------------------------------------------------


class Complaints:
    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def __call__(self, obj: KObject, why: str) -> None:
        self.heard.append((key(obj), why))


BROKEN = [
    (queue("q", weight=-1), queue("q", weight=1)),
    (group("ns/g", min_member=-1), group("ns/g", min_member=1)),
]


@pytest.mark.parametrize(("bad", "good"), BROKEN)
def test_an_invalid_object_is_hidden_until_it_is_corrected(bad: KObject, good: KObject) -> None:
    complaints = Complaints()
    inbox = Inbox(refused=complaints)
    bad, good = established_as(replace(bad), "u1"), established_as(replace(good), "u1")
    inbox.put(Applied(bad))
    assert inbox.drain() == []
    assert inbox.all_objects() == []
    [(who, why)] = complaints.heard
    assert who == key(bad)
    assert why
    inbox.put(Applied(good))
    assert inbox.urgent.is_set()
    assert described(inbox.drain()) == [f"+{key(good)}"]
    inbox.put(Applied(bad))
    assert described(inbox.drain()) == [f"-{key(good)}"]
    assert len(complaints.heard) == 2
    inbox.put(Deleted(bad))
    assert inbox.drain() == []


def test_a_queue_that_the_controllers_reject_is_hidden_until_they_accept_it() -> None:
    refused: list[str] = []
    inbox = Inbox(refused=lambda obj, why: refused.append(why))
    good = established(queue("q"))
    condition = Condition(type="Accepted", status="False", reason="Invalid", message="it does not fit its parent")
    bad = replace(good, status=replace(good.status, conditions=[condition]))
    for news in (good, bad, good):
        inbox.put(Applied(news))
    assert described(inbox.drain()) == ["+q", "-q", "+q"]
    inbox.put(Applied(bad))
    assert inbox.hidden == {(Queue, "q"): "it does not fit its parent"}
    assert refused == []  # the controllers have sent an event


def test_an_invalid_reservation_is_hidden() -> None:
    complaints = Complaints()
    inbox = Inbox(refused=complaints)
    bad = Reservation(metadata=ObjectMeta(name="r"), spec=ReservationSpec(ttl="soon"), status=ReservationStatus())
    inbox.put(Applied(bad))
    assert inbox.drain() == []
    assert len(complaints.heard) == 1


def test_all_objects_builds_the_same_cluster_as_the_events() -> None:
    inbox, fed = Inbox(), Cluster(scheduler_name=names.DEFAULT_SCHEDULER)
    news = [
        Applied(established(pod("ns/late", node="n1", cpu=1, group="g"))),  # before its node is known
        Applied(established(queue("default"))),
        Applied(established(node("n1", cpu=4))),
        Applied(established(group("ns/g", min_member=2))),
        Applied(established(pod("ns/a", cpu=1, group="g"))),
        Applied(established(pod("ns/gone", cpu=1, group="g"))),
        Applied(established(pod("ns/late", node="n1", cpu=1, group="g", phase="Succeeded"))),
        Deleted(established(pod("ns/gone", cpu=1, group="g"))),
    ]
    for event in news:
        inbox.put(event)
    for event in inbox.drain():
        fed.apply(event)
    afresh = Cluster(scheduler_name=names.DEFAULT_SCHEDULER)
    for event in inbox.all_objects():
        afresh.apply(event)
    for cluster in (fed, afresh):
        cluster.validate()
    assert {task.key: task.true_status for task in fed.tasks.values()} == {
        task.key: task.true_status for task in afresh.tasks.values()
    }
    assert (fed.ledger.table.idle == afresh.ledger.table.idle).all()
