"""Queues open and close, and parents rule their children."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import group
from controllers.world import World
from stromboli.api import Command, ObjectMeta, OwnerReference, PodGroup, Queue, QueueSpec, QueueStatus, names


def queue(name: str, *, parent: str = "", state: str = "") -> Queue:
    return Queue(
        metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1, parent=parent), status=QueueStatus(state=state)
    )


def state(world: World, name: str) -> str:
    return world.queue(name).status.state


def closed_by_parent(world: World, name: str) -> bool:
    return names.CLOSED_BY_PARENT in world.queue(name).metadata.annotations


def tell(world: World, action: str, name: str) -> None:
    world.command(action, world.queue(name))
    world.settle()


def test_a_new_queue_is_open_and_default_is_always_there() -> None:
    world = World(queue("q"))
    world.settle()
    assert state(world, "q") == "Open"
    assert state(world, "default") == "Open"
    assert world.queue("default").spec.weight == 1
    assert world.queue("q").status == QueueStatus(state="Open")


def test_closing_an_empty_queue_closes_it() -> None:
    world = World(queue("q"))
    world.settle()
    tell(world, "CloseQueue", "q")
    assert state(world, "q") == "Closed"
    tell(world, "OpenQueue", "q")
    assert state(world, "q") == "Open"


def test_closing_takes_as_long_as_there_are_groups() -> None:
    world = World(queue("q"), group("ns/pg", queue="q"))
    world.settle()
    tell(world, "CloseQueue", "q")
    assert state(world, "q") == "Closing"
    world.remove(world.group("ns/pg"))
    world.settle()
    assert state(world, "q") == "Closed"


def test_a_closing_queue_can_be_opened_again() -> None:
    world = World(queue("q"), group("ns/pg", queue="q"))
    world.settle()
    tell(world, "CloseQueue", "q")
    tell(world, "OpenQueue", "q")
    assert state(world, "q") == "Open"


@pytest.mark.parametrize(("action", "leads_to"), [("OpenQueue", "Open"), ("CloseQueue", "Closed")])
def test_a_state_nobody_knows_becomes_unknown_and_can_be_left(action: str, leads_to: str) -> None:
    world = World(queue("q", state="Ajar"))
    world.settle()
    assert state(world, "q") == "Unknown"
    tell(world, action, "q")
    assert state(world, "q") == leads_to


def test_commands_are_deleted_and_obeyed_in_the_order_given() -> None:
    world = World(queue("q"))
    world.settle()
    world.command("CloseQueue", world.queue("q"), name="z-first")
    world.now = 1.0
    world.command("OpenQueue", world.queue("q"), name="a-second")
    world.settle()
    assert state(world, "q") == "Open"
    assert world.names(Command) == ()


def test_a_command_for_nobody_is_deleted_too() -> None:
    world = World(
        Command(
            metadata=ObjectMeta(name="c", namespace="default"),
            action="CloseQueue",
            target=OwnerReference(kind="Queue", name="nowhere"),
        )
    )
    world.settle()
    assert world.names(Command) == ()


def test_closing_a_parent_closes_its_children_and_opening_reopens_just_those() -> None:
    world = World(
        queue("top"),
        queue("a", parent="top"),
        queue("a-child", parent="a"),
        queue("b", parent="top"),
        queue("elsewhere"),
    )
    world.settle()
    tell(world, "CloseQueue", "b")
    tell(world, "CloseQueue", "top")
    assert [state(world, q) for q in ("top", "a", "a-child", "b", "elsewhere")] == [*["Closed"] * 4, "Open"]
    assert [closed_by_parent(world, q) for q in ("top", "a", "a-child", "b")] == [False, True, True, False]

    tell(world, "OpenQueue", "top")
    assert [state(world, q) for q in ("top", "a", "a-child", "b")] == ["Open", "Open", "Open", "Closed"]
    assert not closed_by_parent(world, "a-child")


def test_children_with_groups_close_slowly() -> None:
    world = World(queue("top"), queue("a", parent="top"), group("ns/pg", queue="a"))
    world.settle()
    tell(world, "CloseQueue", "top")
    assert [state(world, q) for q in ("top", "a")] == ["Closed", "Closing"]
    world.remove(world.group("ns/pg"))
    world.settle()
    assert state(world, "a") == "Closed"
    tell(world, "OpenQueue", "top")
    assert state(world, "a") == "Open"


def test_a_child_of_a_closed_parent_cannot_be_opened() -> None:
    world = World(queue("top", state="Closed"), queue("a", parent="top"))
    world.settle()
    assert state(world, "a") == "Closed"
    tell(world, "OpenQueue", "a")
    assert state(world, "a") == "Closed"
    assert "open top first" in world.notices[-1].message
    assert world.notices[-1].warning


def test_the_root_cannot_be_closed() -> None:
    world = World(queue("root"), queue("q", parent="root"))
    world.settle()
    tell(world, "CloseQueue", "root")
    assert state(world, "root") == "Open"
    assert state(world, "q") == "Open"
    assert "root cannot be closed" in world.notices[-1].message


def test_a_queue_is_told_to_open_or_close_and_nothing_else() -> None:
    world = World(queue("q"))
    world.settle()
    tell(world, "AbortJob", "q")
    assert state(world, "q") == "Open"
    assert "not AbortJob" in world.notices[-1].message


def test_a_patched_state_cascades_as_a_command_would() -> None:
    world = World(queue("top"), queue("a", parent="top"))
    world.settle()
    top = world.queue("top")
    world.put(replace(top, status=replace(top.status, state="Closed")))
    world.settle()
    assert (state(world, "a"), closed_by_parent(world, "a")) == ("Closed", True)


def test_parents_in_a_circle_do_no_harm() -> None:
    world = World(queue("a", parent="b"), queue("b", parent="a"))
    world.settle()
    assert state(world, "a") == "Open"


def test_groups_are_counted_by_phase() -> None:
    phases = ("Pending", "Pending", "Inqueue", "Running", "Completed", "Unknown")
    world = World(queue("q"), *(group(f"ns/pg{n}", queue="q", phase=p) for n, p in enumerate(phases)))
    world.settle()
    status = world.queue("q").status
    counts = (status.pending, status.inqueue, status.running, status.completed, status.unknown)
    assert counts == (2, 1, 1, 1, 1)


def test_a_group_that_names_no_queue_counts_in_default() -> None:
    world = World(group("ns/pg", phase="Running"))
    world.settle()
    assert world.queue("default").status.running == 1


TREE = {"top": "", "a": "top", "b": "top", "a1": "a", "a2": "a"}


@given(st.lists(st.tuples(st.sampled_from(["OpenQueue", "CloseQueue"]), st.sampled_from(sorted(TREE)))))
def test_below_a_queue_that_is_not_open_no_queue_is_open(orders: list[tuple[str, str]]) -> None:
    world = World(*(queue(name, parent=parent) for name, parent in TREE.items()), group("ns/pg", queue="a1"))
    world.settle()
    for action, name in orders:
        tell(world, action, name)
        for child, parent in TREE.items():
            if parent and state(world, parent) != "Open":
                assert state(world, child) != "Open"
    for name in TREE:
        tell(world, "OpenQueue", name)
    assert {state(world, name) for name in TREE} == {"Open"}
    assert world.names(PodGroup) == ("pg",)
