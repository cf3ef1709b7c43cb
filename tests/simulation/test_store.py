"""The store by itself: identity, order and conflicts, and controllers that would never stop."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from simulation.scenario_runner import run_text
from stromboli.api import Node, ObjectMeta, OwnerReference, Pod, ReplicaSet, key
from stromboli.cluster import Applied, ClusterEvent, Deleted
from stromboli.controllers import Change, Create, Objects, Update
from stromboli.simulation.engine import ControllerLoopError
from stromboli.simulation.store import Conflict, Store
from stromboli.simulation.virtual_time import START, microseconds


def pod(name: str, *owners: OwnerReference) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ns1", owner_references=list(owners)))


def test_objects_come_in_the_order_of_their_keys_whatever_the_order_of_their_birth() -> None:
    store = Store()
    for name in ("b", "c", "a"):
        store.create(pod(name), START)
    assert [key(found) for found in store.list(Pod)] == ["ns1/a", "ns1/b", "ns1/c"]


def test_a_uid_depends_on_the_story_only_and_a_second_life_has_another() -> None:
    one, other = Store(), Store()
    first = one.create(pod("a"), START)
    one.create(pod("b"), START)
    other.create(pod("b"), START)
    assert other.create(pod("a"), microseconds(9)).metadata.uid == first.metadata.uid
    one.delete(first)
    assert one.create(pod("a"), START).metadata.uid != first.metadata.uid
    assert one.create(Node(metadata=ObjectMeta(name="a")), START).metadata.uid != first.metadata.uid


def test_an_owner_is_known_by_its_name_even_before_it_is_there() -> None:
    store = Store()
    reference = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="made-up", controller=True)
    early = store.create(pod("early", reference), START)
    owner = store.create(ReplicaSet(metadata=ObjectMeta(name="web", namespace="ns1")), START)
    late = store.create(pod("late", reference), START)
    assert [found.metadata.name for found in store.dependents(owner.metadata.uid)] == ["early", "late"]
    store.delete(late)
    assert store.dependents(owner.metadata.uid) == [early]


def test_a_stranger_keeps_the_uid_it_came_with() -> None:
    store = Store()
    reference = OwnerReference(api_version="apps.example.com/v1", kind="CloneSet", name="db", uid="abc")
    assert store.create(pod("db-0", reference), START).metadata.owner_references == [reference]


def test_a_change_made_from_an_old_state_is_a_conflict() -> None:
    store = Store()
    created = store.create(pod("a"), START)
    store.update(replace(created, spec=replace(created.spec, node_name="n1")))
    with pytest.raises(Conflict, match="has changed"):
        store.update(replace(created, spec=replace(created.spec, node_name="n2")))
    with pytest.raises(Conflict, match="exists already"):
        store.create(pod("a"), START)
    current = store.current(created)
    assert current is not None
    assert current.spec.node_name == "n1"
    store.delete(current)
    with pytest.raises(Conflict, match="was deleted"):
        store.update(current)


def test_the_listener_hears_of_every_change_and_of_nothing_else() -> None:
    store = Store()
    heard: list[ClusterEvent] = []
    store.listener = heard.append
    created = store.create(pod("a"), START)
    version = store.version
    store.update(created)
    assert store.version == version
    store.delete(created)
    assert heard == [Applied(created), Deleted(created)]


def test_controllers_that_never_stop_are_stopped_with_the_name_of_what_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Restless:
        def __init__(self, **options: object) -> None: ...

        def time_limit(self) -> float | None:
            return None

        def reconcile(self, objects: Objects, now: float) -> list[Change]:
            node = objects.get(Node, "n1")
            if node is None:
                return [Create(Node(metadata=ObjectMeta(name="n1")))]
            return [Update(replace(node, spec=replace(node.spec, unschedulable=not node.spec.unschedulable)))]

        def pod_deleted(self, pod: Pod, now: float, *, evicted: bool) -> None: ...

        def observe(self, event: Applied | Deleted) -> None: ...

        def next_due(self, now: float) -> float | None:
            return None

    monkeypatch.setattr("stromboli.simulation.engine.ControllerManager", Restless)
    with pytest.raises(ControllerLoopError, match="Node n1"):
        run_text(tmp_path, "")
