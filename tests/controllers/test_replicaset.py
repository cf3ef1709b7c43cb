"""Replica sets keep their size; a pod that went is replaced a second later under a new name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import pod
from controllers.fake_cluster import FakeCluster, owned_by, replica_set
from stromboli.api import OwnerReference, Pod, ReplicaSet


def scale(cluster: FakeCluster, replicas: int) -> None:
    present = cluster.replica_set("ns/web")
    cluster.put(replace(present, spec=replace(present.spec, replicas=replicas)))
    cluster.settle()


def test_missing_pods_are_made_from_the_template() -> None:
    cluster = FakeCluster(replica_set("ns/web", 2))
    cluster.settle()
    assert cluster.names(Pod) == ("web-0", "web-1")
    made = cluster.pod("ns/web-0")
    assert made.metadata.labels == {"app": "web"}
    assert made.metadata.owner_references[0].uid == cluster.replica_set("ns/web").metadata.uid
    assert made.spec.containers[0].resources.requests == {"cpu": 1}


def test_pods_that_name_the_set_count_as_its_own() -> None:
    cluster = FakeCluster(
        replica_set("ns/web", 3),
        pod("ns/web-4", cpu=1, node="n1", owner=owned_by("ReplicaSet", "web")),
        pod("ns/old", cpu=1, node="n1", owner=OwnerReference(kind="ReplicaSet", name="web")),
        pod("ns/other", cpu=1, node="n1", owner=owned_by("ReplicaSet", "other")),
    )
    cluster.settle()
    assert cluster.names(Pod) == ("old", "other", "web-4", "web-5")


def test_an_evicted_pod_is_replaced_one_second_later() -> None:
    cluster = FakeCluster(replica_set("ns/web", 2), now=10.0)
    cluster.start()
    cluster.evict("ns/web-0")
    cluster.settle()
    assert cluster.names(Pod) == ("web-1",)
    assert cluster.next_due() == 11.0
    cluster.advance(0.5)
    assert cluster.names(Pod) == ("web-1",)
    cluster.advance(0.5)
    assert cluster.names(Pod) == ("web-1", "web-2")
    assert cluster.next_due() is None


def test_the_second_counts_from_the_eviction_not_from_the_end_of_the_grace_period() -> None:
    cluster = FakeCluster(replica_set("ns/web", 1))
    cluster.grace = 30.0
    cluster.start()
    cluster.evict("ns/web-0")
    cluster.settle()
    cluster.advance(1)
    assert cluster.names(Pod) == ("web-0", "web-1")  # the first is still on its way out
    cluster.advance(29)
    assert cluster.names(Pod) == ("web-1",)
    cluster.advance(1)
    assert cluster.names(Pod) == ("web-1",)  # its end was no second departure


def test_a_pod_left_behind_by_an_eviction_is_replaced_too() -> None:
    cluster = FakeCluster(replica_set("ns/web", 1))
    cluster.start()
    lost = cluster.pod("ns/web-0")
    cluster.put(replace(lost, status=replace(lost.status, phase="Failed", reason="Evicted")))
    cluster.settle()
    assert cluster.names(Pod) == ("web-0",)
    cluster.advance(1)
    assert cluster.names(Pod) == ("web-0", "web-1")


def test_a_finished_pod_keeps_its_place() -> None:
    cluster = FakeCluster(replica_set("ns/web", 2))
    cluster.start()
    cluster.finish("ns/web-0")
    cluster.advance(10)
    assert cluster.names(Pod) == ("web-0", "web-1")
    assert cluster.next_due() is None


def test_scaling_down_removes_first_who_would_be_missed_least() -> None:
    cluster = FakeCluster(replica_set("ns/web", 3))
    cluster.start()
    scale(cluster, 4)
    assert cluster.names(Pod) == ("web-0", "web-1", "web-2", "web-3")
    scale(cluster, 2)  # web-3 has no node; of the others web-2 is the youngest
    assert cluster.names(Pod) == ("web-0", "web-1")
    bound = cluster.pod("ns/web-0")
    cluster.put(replace(bound, status=replace(bound.status, phase="Pending")))
    scale(cluster, 1)  # web-0 is older, but web-1 runs
    assert cluster.names(Pod) == ("web-1",)
    scale(cluster, 2)  # a pod that the set itself removed holds nobody back
    assert cluster.names(Pod) == ("web-1", "web-4")


def test_a_restart_changes_neither_the_time_of_a_replacement_nor_its_name() -> None:
    cluster = FakeCluster(replica_set("ns/web", 2))
    cluster.start()
    cluster.evict("ns/web-1")
    cluster.restart()
    cluster.settle()
    assert cluster.names(Pod) == ("web-0",)
    cluster.restart()
    cluster.advance(1)
    assert cluster.names(Pod) == ("web-0", "web-2")


def test_a_name_that_is_taken_is_passed_over() -> None:
    cluster = FakeCluster(replica_set("ns/web", 2), pod("ns/web-1", cpu=1, node="n1"))
    cluster.settle()
    assert cluster.names(Pod) == ("web-0", "web-1", "web-2")


def test_status_counts_pods() -> None:
    cluster = FakeCluster(replica_set("ns/web", 3))
    cluster.settle()
    cluster.run("ns/web-0")
    cluster.settle()
    status = cluster.replica_set("ns/web").status
    assert (status.replicas, status.ready_replicas) == (3, 1)


def test_pods_go_with_their_set() -> None:
    cluster = FakeCluster(replica_set("ns/web", 2))
    cluster.start()
    cluster.remove(cluster.replica_set("ns/web"))
    cluster.settle()
    cluster.advance(5)
    assert cluster.names(Pod) == ()
    assert cluster.names(ReplicaSet) == ()


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
    cluster = FakeCluster(replica_set("ns/web", 3))
    cluster.grace = grace
    cluster.start()
    names_by_uid: dict[str, str] = {}
    for what, number in story:
        present = list(cluster.list(Pod))
        match what:
            case "evict" if number < len(present):
                cluster.evict(f"ns/{present[number].metadata.name}")
            case "scale":
                scale(cluster, number)
            case "wait":
                cluster.advance(float(number))
            case "restart":
                cluster.restart()
        cluster.settle()
        names_by_uid.update({p.metadata.uid: p.metadata.name for p in cluster.list(Pod)})
    cluster.advance(5.0)
    names_by_uid.update({p.metadata.uid: p.metadata.name for p in cluster.list(Pod)})
    assert len(cluster.names(Pod)) == cluster.replica_set("ns/web").spec.replicas
    assert len(set(names_by_uid.values())) == len(names_by_uid)
