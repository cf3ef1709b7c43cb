"""Queues open and close, and parents rule their children."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import group
from controllers.fake_cluster import FakeCluster
from stromboli.api import Command, ObjectMeta, OwnerReference, PodGroup, Queue, QueueSpec, QueueStatus, names


def queue(name: str, *, parent: str = "", state: str = "") -> Queue:
    return Queue(
        metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1, parent=parent), status=QueueStatus(state=state)
    )


def state(cluster: FakeCluster, name: str) -> str:
    return cluster.queue(name).status.state


def closed_by_parent(cluster: FakeCluster, name: str) -> bool:
    return names.CLOSED_BY_PARENT in cluster.queue(name).metadata.annotations


def tell(cluster: FakeCluster, action: str, name: str) -> None:
    cluster.command(action, cluster.queue(name))
    cluster.settle()


def test_a_new_queue_is_open_and_default_is_always_there() -> None:
    cluster = FakeCluster(queue("q"))
    cluster.settle()
    assert state(cluster, "q") == "Open"
    assert state(cluster, "default") == "Open"
    assert cluster.queue("default").spec.weight == 1
    assert cluster.queue("q").status == QueueStatus(state="Open")


def test_closing_an_empty_queue_closes_it() -> None:
    cluster = FakeCluster(queue("q"))
    cluster.settle()
    tell(cluster, "CloseQueue", "q")
    assert state(cluster, "q") == "Closed"
    tell(cluster, "OpenQueue", "q")
    assert state(cluster, "q") == "Open"


def test_closing_takes_as_long_as_there_are_groups() -> None:
    cluster = FakeCluster(queue("q"), group("ns/pg", queue="q"))
    cluster.settle()
    tell(cluster, "CloseQueue", "q")
    assert state(cluster, "q") == "Closing"
    cluster.remove(cluster.group("ns/pg"))
    cluster.settle()
    assert state(cluster, "q") == "Closed"


def test_a_closing_queue_can_be_opened_again() -> None:
    cluster = FakeCluster(queue("q"), group("ns/pg", queue="q"))
    cluster.settle()
    tell(cluster, "CloseQueue", "q")
    tell(cluster, "OpenQueue", "q")
    assert state(cluster, "q") == "Open"


@pytest.mark.parametrize(("action", "leads_to"), [("OpenQueue", "Open"), ("CloseQueue", "Closed")])
def test_a_state_nobody_knows_becomes_unknown_and_can_be_left(action: str, leads_to: str) -> None:
    cluster = FakeCluster(queue("q", state="Ajar"))
    cluster.settle()
    assert state(cluster, "q") == "Unknown"
    tell(cluster, action, "q")
    assert state(cluster, "q") == leads_to


def test_commands_are_deleted_and_obeyed_in_the_order_given() -> None:
    cluster = FakeCluster(queue("q"))
    cluster.settle()
    cluster.command("CloseQueue", cluster.queue("q"), name="z-first")
    cluster.now = 1.0
    cluster.command("OpenQueue", cluster.queue("q"), name="a-second")
    cluster.settle()
    assert state(cluster, "q") == "Open"
    assert cluster.names(Command) == ()


def test_a_command_for_nobody_is_deleted_too() -> None:
    cluster = FakeCluster(
        Command(
            metadata=ObjectMeta(name="c", namespace="default"),
            action="CloseQueue",
            target=OwnerReference(kind="Queue", name="nowhere"),
        )
    )
    cluster.settle()
    assert cluster.names(Command) == ()


def test_closing_a_parent_closes_its_children_and_opening_reopens_just_those() -> None:
    cluster = FakeCluster(
        queue("top"),
        queue("a", parent="top"),
        queue("a-child", parent="a"),
        queue("b", parent="top"),
        queue("elsewhere"),
    )
    cluster.settle()
    tell(cluster, "CloseQueue", "b")
    tell(cluster, "CloseQueue", "top")
    assert [state(cluster, q) for q in ("top", "a", "a-child", "b", "elsewhere")] == [*["Closed"] * 4, "Open"]
    assert [closed_by_parent(cluster, q) for q in ("top", "a", "a-child", "b")] == [False, True, True, False]

    tell(cluster, "OpenQueue", "top")
    assert [state(cluster, q) for q in ("top", "a", "a-child", "b")] == ["Open", "Open", "Open", "Closed"]
    assert not closed_by_parent(cluster, "a-child")


def test_children_with_groups_close_slowly() -> None:
    cluster = FakeCluster(queue("top"), queue("a", parent="top"), group("ns/pg", queue="a"))
    cluster.settle()
    tell(cluster, "CloseQueue", "top")
    assert [state(cluster, q) for q in ("top", "a")] == ["Closed", "Closing"]
    cluster.remove(cluster.group("ns/pg"))
    cluster.settle()
    assert state(cluster, "a") == "Closed"
    tell(cluster, "OpenQueue", "top")
    assert state(cluster, "a") == "Open"


def test_a_child_of_a_closed_parent_cannot_be_opened() -> None:
    cluster = FakeCluster(queue("top", state="Closed"), queue("a", parent="top"))
    cluster.settle()
    assert state(cluster, "a") == "Closed"
    tell(cluster, "OpenQueue", "a")
    assert state(cluster, "a") == "Closed"
    assert "Open top first" in cluster.notices[-1].message
    assert cluster.notices[-1].warning


def test_the_root_cannot_be_closed() -> None:
    cluster = FakeCluster(queue("root"), queue("q", parent="root"))
    cluster.settle()
    tell(cluster, "CloseQueue", "root")
    assert state(cluster, "root") == "Open"
    assert state(cluster, "q") == "Open"
    assert "root cannot be closed" in cluster.notices[-1].message


def test_a_queue_is_told_to_open_or_close_and_nothing_else() -> None:
    cluster = FakeCluster(queue("q"))
    cluster.settle()
    tell(cluster, "AbortJob", "q")
    assert state(cluster, "q") == "Open"
    assert "not AbortJob" in cluster.notices[-1].message


def test_a_patched_state_cascades_as_a_command_would() -> None:
    cluster = FakeCluster(queue("top"), queue("a", parent="top"))
    cluster.settle()
    top = cluster.queue("top")
    cluster.put(replace(top, status=replace(top.status, state="Closed")))
    cluster.settle()
    assert (state(cluster, "a"), closed_by_parent(cluster, "a")) == ("Closed", True)


def test_parents_in_a_circle_do_no_harm() -> None:
    cluster = FakeCluster(queue("a", parent="b"), queue("b", parent="a"))
    cluster.settle()
    assert state(cluster, "a") == "Open"


def test_groups_are_counted_by_phase() -> None:
    phases = ("Pending", "Pending", "Inqueue", "Running", "Completed", "Unknown")
    cluster = FakeCluster(queue("q"), *(group(f"ns/pg{n}", queue="q", phase=p) for n, p in enumerate(phases)))
    cluster.settle()
    status = cluster.queue("q").status
    counts = (status.pending, status.inqueue, status.running, status.completed, status.unknown)
    assert counts == (2, 1, 1, 1, 1)


def test_a_group_that_names_no_queue_counts_in_default() -> None:
    cluster = FakeCluster(group("ns/pg", phase="Running"))
    cluster.settle()
    assert cluster.queue("default").status.running == 1


TREE = {"top": "", "a": "top", "b": "top", "a1": "a", "a2": "a"}


@given(st.lists(st.tuples(st.sampled_from(["OpenQueue", "CloseQueue"]), st.sampled_from(sorted(TREE)))))
def test_below_a_queue_that_is_not_open_no_queue_is_open(orders: list[tuple[str, str]]) -> None:
    cluster = FakeCluster(*(queue(name, parent=parent) for name, parent in TREE.items()), group("ns/pg", queue="a1"))
    cluster.settle()
    for action, name in orders:
        tell(cluster, action, name)
        for child, parent in TREE.items():
            if parent and state(cluster, parent) != "Open":
                assert state(cluster, child) != "Open"
    for name in TREE:
        tell(cluster, "OpenQueue", name)
    assert {state(cluster, name) for name in TREE} == {"Open"}
    assert cluster.names(PodGroup) == ("pg",)
