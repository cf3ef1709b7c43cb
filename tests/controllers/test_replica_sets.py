"""Replica sets keep their size; a pod that went is replaced a second later under a new name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import pod
from controllers.world import World, owned_by, replica_set
from stromboli.api import OwnerReference, Pod, ReplicaSet


def scale(world: World, replicas: int) -> None:
    present = world.replica_set("ns/web")
    world.put(replace(present, spec=replace(present.spec, replicas=replicas)))
    world.settle()


def test_missing_pods_are_made_from_the_template() -> None:
    world = World(replica_set("ns/web", 2))
    world.settle()
    assert world.names(Pod) == ("web-0", "web-1")
    made = world.pod("ns/web-0")
    assert made.metadata.labels == {"app": "web"}
    assert made.metadata.owner_references[0].uid == world.replica_set("ns/web").metadata.uid
    assert made.spec.containers[0].resources.requests == {"cpu": 1}


def test_pods_that_name_the_set_count_as_its_own() -> None:
    world = World(
        replica_set("ns/web", 3),
        pod("ns/web-4", cpu=1, node="n1", owner=owned_by("ReplicaSet", "web")),
        pod("ns/old", cpu=1, node="n1", owner=OwnerReference(kind="ReplicaSet", name="web")),
        pod("ns/other", cpu=1, node="n1", owner=owned_by("ReplicaSet", "other")),
    )
    world.settle()
    assert world.names(Pod) == ("old", "other", "web-4", "web-5")


def test_an_evicted_pod_is_replaced_one_second_later() -> None:
    world = World(replica_set("ns/web", 2), now=10.0)
    world.start()
    world.evict("ns/web-0")
    world.settle()
    assert world.names(Pod) == ("web-1",)
    assert world.next_due() == 11.0
    world.advance(0.5)
    assert world.names(Pod) == ("web-1",)
    world.advance(0.5)
    assert world.names(Pod) == ("web-1", "web-2")
    assert world.next_due() is None


def test_the_second_counts_from_the_eviction_not_from_the_end_of_the_grace_period() -> None:
    world = World(replica_set("ns/web", 1))
    world.grace = 30.0
    world.start()
    world.evict("ns/web-0")
    world.settle()
    world.advance(1)
    assert world.names(Pod) == ("web-0", "web-1")  # the first is still on its way out
    world.advance(29)
    assert world.names(Pod) == ("web-1",)
    world.advance(1)
    assert world.names(Pod) == ("web-1",)  # its end was no second departure


def test_a_pod_left_behind_by_an_eviction_is_replaced_too() -> None:
    world = World(replica_set("ns/web", 1))
    world.start()
    lost = world.pod("ns/web-0")
    world.put(replace(lost, status=replace(lost.status, phase="Failed", reason="Evicted")))
    world.settle()
    assert world.names(Pod) == ("web-0",)
    world.advance(1)
    assert world.names(Pod) == ("web-0", "web-1")


def test_a_finished_pod_keeps_its_place() -> None:
    world = World(replica_set("ns/web", 2))
    world.start()
    world.finish("ns/web-0")
    world.advance(10)
    assert world.names(Pod) == ("web-0", "web-1")
    assert world.next_due() is None


def test_scaling_down_removes_first_who_would_be_missed_least() -> None:
    world = World(replica_set("ns/web", 3))
    world.start()
    scale(world, 4)
    assert world.names(Pod) == ("web-0", "web-1", "web-2", "web-3")
    scale(world, 2)  # web-3 has no node; of the others web-2 is the youngest
    assert world.names(Pod) == ("web-0", "web-1")
    bound = world.pod("ns/web-0")
    world.put(replace(bound, status=replace(bound.status, phase="Pending")))
    scale(world, 1)  # web-0 is older, but web-1 runs
    assert world.names(Pod) == ("web-1",)
    scale(world, 2)  # a pod that the set itself removed holds nobody back
    assert world.names(Pod) == ("web-1", "web-4")


def test_after_a_restart_the_missing_are_made_at_once_and_no_name_comes_twice() -> None:
    world = World(replica_set("ns/web", 2))
    world.start()
    world.evict("ns/web-1")
    world.restart()
    world.settle()
    assert world.names(Pod) == ("web-0", "web-2")


def test_a_name_that_is_taken_is_passed_over() -> None:
    world = World(replica_set("ns/web", 2), pod("ns/web-1", cpu=1, node="n1"))
    world.settle()
    assert world.names(Pod) == ("web-0", "web-1", "web-2")


def test_status_counts_pods() -> None:
    world = World(replica_set("ns/web", 3))
    world.settle()
    world.run("ns/web-0")
    world.settle()
    status = world.replica_set("ns/web").status
    assert (status.replicas, status.ready_replicas) == (3, 1)


def test_pods_go_with_their_set() -> None:
    world = World(replica_set("ns/web", 2))
    world.start()
    world.remove(world.replica_set("ns/web"))
    world.settle()
    world.advance(5)
    assert world.names(Pod) == ()
    assert world.names(ReplicaSet) == ()


moves = st.lists(
    st.one_of(
        st.tuples(st.just("evict"), st.integers(0, 5)),
        st.tuples(st.just("scale"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=20,
)


@given(moves, st.sampled_from([0.0, 2.0]))
def test_whatever_happens_the_set_comes_back_to_its_size_and_never_reuses_a_name(
    story: list[tuple[str, int]], grace: float
) -> None:
    world = World(replica_set("ns/web", 3))
    world.grace = grace
    world.start()
    names_by_uid: dict[str, str] = {}
    for what, number in story:
        present = list(world.list(Pod))
        match what:
            case "evict" if number < len(present):
                world.evict(f"ns/{present[number].metadata.name}")
            case "scale":
                scale(world, number)
            case "wait":
                world.advance(float(number))
            case "restart":
                world.restart()
        world.settle()
        names_by_uid.update({p.metadata.uid: p.metadata.name for p in world.list(Pod)})
    world.advance(5.0)
    names_by_uid.update({p.metadata.uid: p.metadata.name for p in world.list(Pod)})
    assert len(world.names(Pod)) == world.replica_set("ns/web").spec.replicas
    assert len(set(names_by_uid.values())) == len(names_by_uid)
