"""Pods that nobody put into a group get one."""

from __future__ import annotations

from msgspec.structs import replace

from builders import group, pod
from controllers.fake_cluster import FakeCluster, owned_by, replica_set
from stromboli.api import (
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    StatefulSet,
    StatefulSetSpec,
    is_generated_group,
    names,
)


def test_a_bare_pod_gets_a_group_of_its_own() -> None:
    cluster = FakeCluster()
    lone = cluster.add(pod("ns/lone", cpu=2, memory="1Gi", priority_class="high"))
    cluster.settle()
    made = cluster.group(f"ns/podgroup-{lone.metadata.uid}")
    assert made.spec.min_member == 1
    assert made.spec.min_resources == {"cpu": "2", "memory": "1Gi"}
    assert made.spec.queue == "default"
    assert made.spec.priority_class_name == "high"
    assert made.metadata.owner_references[0].kind == "Pod"
    assert is_generated_group(made)
    assert cluster.pod("ns/lone").metadata.annotations[names.GROUP_NAME] == made.metadata.name


def test_a_pod_that_already_runs_gets_one_as_well() -> None:
    cluster = FakeCluster(pod("ns/running", cpu=1, node="n1"))
    cluster.settle()
    assert len(cluster.names(PodGroup)) == 1


def test_what_a_pod_says_about_itself_holds_for_its_group() -> None:
    # 4 members of 500m each: 2 cores must be free before the first may start.
    said = {
        names.GROUP_MIN_MEMBER: "4",
        names.QUEUE_NAME: "research",
        names.PREEMPTABLE: "true",
        "team.example.com/note": "for people",
    }
    cluster = FakeCluster(pod("ns/p", cpu="500m", annotations=said))
    cluster.settle()
    (made,) = cluster.list(PodGroup)
    assert made.spec.min_member == 4
    assert made.spec.min_resources == {"cpu": "2"}
    assert made.spec.queue == "research"
    assert made.metadata.annotations == {names.PREEMPTABLE: "true"}


def test_a_minimum_that_cannot_be_read_is_one() -> None:
    for nonsense in ("many", "-2", "1e9", "9" * 40):
        cluster = FakeCluster(pod("ns/p", cpu=1, annotations={names.GROUP_MIN_MEMBER: nonsense}))
        cluster.settle()
        assert next(iter(cluster.list(PodGroup))).spec.min_member == 1


def test_a_pod_with_more_resources_than_a_group_may_name_gets_its_group() -> None:
    # The schema of a PodGroup has room for 64 names: cpu, and 63 of the others.
    cluster = FakeCluster(pod("ns/p", cpu=1, resources={f"example.com/n{number:03}": 1 for number in range(70)}))
    cluster.settle()
    (made,) = cluster.list(PodGroup)
    assert list(made.spec.min_resources)[:2] == ["cpu", "example.com/n000"]
    assert len(made.spec.min_resources) == 64


def test_what_is_too_much_or_too_long_is_not_copied_to_a_group() -> None:
    # 999,999,999 times 32Ti does not fit 64 bits.
    said = {names.GROUP_MIN_MEMBER: "999999999", "volcano.sh/note": "x" * 5000, "volcano.sh/short": "y"}
    cluster = FakeCluster(pod("ns/p", memory="32Ti", annotations=said))
    cluster.settle()
    (made,) = cluster.list(PodGroup)
    assert made.spec.min_resources == {}
    assert "volcano.sh/note" not in made.metadata.annotations


def test_a_request_that_nobody_can_reckon_with_keeps_nobody_else_from_a_group() -> None:
    # An API server takes it: in millicores it is more than 2**63.
    cluster = FakeCluster(pod("ns/absurd", cpu="9223372036854775807"), pod("ns/sane", cpu=1))
    cluster.settle()
    assert [made.spec.min_resources for made in cluster.list(PodGroup)] == [{}, {"cpu": "1"}]


def test_resources_can_be_stated_outright() -> None:
    stated = FakeCluster(pod("ns/p", cpu=1, annotations={names.GROUP_MIN_RESOURCES: '{"cpu": "7"}'}))
    stated.settle()
    assert next(iter(stated.list(PodGroup))).spec.min_resources == {"cpu": "7"}
    for nonsense in ("7 cores", '{"cpu": "seven"}'):
        cluster = FakeCluster(pod("ns/p", cpu=1, annotations={names.GROUP_MIN_RESOURCES: nonsense}))
        cluster.settle()
        assert next(iter(cluster.list(PodGroup))).spec.min_resources == {"cpu": "1"}


def test_pods_of_one_owner_share_a_group() -> None:
    cluster = FakeCluster(replica_set("ns/web", 3, annotations={names.GROUP_MIN_MEMBER: "2"}))
    cluster.settle()
    owner = cluster.replica_set("ns/web")
    (made,) = cluster.list(PodGroup)
    assert made.metadata.name == f"podgroup-{owner.metadata.uid}"
    assert made.spec.min_member == 2
    assert {p.metadata.annotations[names.GROUP_NAME] for p in cluster.list(Pod)} == {made.metadata.name}


def test_an_owner_is_recognised_by_name_where_its_uid_cannot_be_known() -> None:
    # The author of the pods wrote a uid that the set did not get. All three pods are still of one set.
    cluster = FakeCluster(
        replica_set("ns/web", 3),
        pod("ns/web-1", cpu=1, node="n1", owner=owned_by("ReplicaSet", "web", "made-up")),
        pod("ns/web-2", cpu=1, node="n1", owner=owned_by("ReplicaSet", "web")),
    )
    cluster.settle()
    assert cluster.names(Pod) == ("web-1", "web-2", "web-3")
    assert len(cluster.names(PodGroup)) == 1


def test_owners_we_cannot_see_are_told_apart_by_what_is_written() -> None:
    cluster = FakeCluster(
        pod("ns/a-0", cpu=1, owner=owned_by("StatefulSet", "a", "uid-of-a")),
        pod("ns/a-1", cpu=1, owner=owned_by("StatefulSet", "a", "uid-of-a")),
        pod("ns/b-0", cpu=1, owner=owned_by("StatefulSet", "b")),
    )
    cluster.settle()
    assert cluster.names(PodGroup) == ("podgroup-statefulset-b", "podgroup-uid-of-a")


def test_a_job_of_kubernetes_own_is_an_owner_like_any_other() -> None:
    """It has the kind of ours, but we do not see it, and its pods are not ours to place in a Job."""
    theirs = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="uid-of-j", controller=True)
    cluster = FakeCluster(pod("ns/j-main-0", cpu=1, node="n1", owner=theirs))
    cluster.settle()
    assert cluster.names(PodGroup) == ("podgroup-uid-of-j",)
    cluster.evict("ns/j-main-0")
    cluster.settle()
    assert cluster.names(PodGroup) == ()


def test_an_owner_that_does_not_control_is_none() -> None:
    reference = OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="uid-of-c")
    cluster = FakeCluster()
    lone = cluster.add(pod("ns/p", cpu=1, owner=reference))
    cluster.settle()
    assert cluster.names(PodGroup) == (f"podgroup-{lone.metadata.uid}",)


def test_pods_with_a_group_or_another_scheduler_are_left_alone() -> None:
    cluster = FakeCluster(
        group("ns/mine"),
        pod("ns/p", cpu=1, group="mine"),
        pod("ns/q", cpu=1, annotations={names.GROUP_NAME_VOLCANO: "mine"}),
        pod("ns/foreign", cpu=1, scheduler="other-scheduler"),
    )
    cluster.settle()
    assert cluster.names(PodGroup) == ("mine",)
    assert not is_generated_group(cluster.group("ns/mine"))


def test_the_group_of_a_bare_pod_goes_with_it() -> None:
    cluster = FakeCluster(pod("ns/p", cpu=1, node="n1"))
    cluster.settle()
    cluster.evict("ns/p")
    cluster.settle()
    assert cluster.names(PodGroup) == ()


def test_the_group_of_a_set_stays_while_the_set_wants_pods() -> None:
    cluster = FakeCluster(replica_set("ns/web", 1))
    cluster.start()
    cluster.evict("ns/web-0")
    cluster.settle()
    assert len(cluster.names(PodGroup)) == 1

    scaled = cluster.replica_set("ns/web")
    cluster.put(replace(scaled, spec=replace(scaled.spec, replicas=0)))
    cluster.settle()
    assert cluster.names(PodGroup) == ()


def test_the_group_of_a_set_that_is_gone_goes_with_the_last_pod() -> None:
    cluster = FakeCluster(replica_set("ns/web", 1))
    cluster.start()
    cluster.collects_garbage = False
    cluster.remove(cluster.replica_set("ns/web"))
    cluster.settle()
    assert len(cluster.names(PodGroup)) == 1
    cluster.remove(cluster.pod("ns/web-0"))
    cluster.settle()
    assert cluster.names(PodGroup) == ()


def test_a_new_set_of_the_same_name_does_not_keep_the_old_group() -> None:
    cluster = FakeCluster(replica_set("ns/web", 1))
    cluster.start()
    cluster.collects_garbage = False
    cluster.remove(cluster.replica_set("ns/web"))
    cluster.remove(cluster.pod("ns/web-0"))
    successor = cluster.add(replica_set("ns/web", 1))
    cluster.advance(1)
    assert cluster.names(PodGroup) == (f"podgroup-{successor.metadata.uid}",)


def test_the_group_of_an_unseen_owner_goes_with_its_last_pod() -> None:
    cluster = FakeCluster(pod("ns/a-0", cpu=1, node="n1", owner=owned_by("StatefulSet", "a", "uid-of-a")))
    cluster.settle()
    assert len(cluster.names(PodGroup)) == 1
    cluster.evict("ns/a-0")
    cluster.settle()
    assert cluster.names(PodGroup) == ()


def test_a_group_that_was_lost_is_made_again() -> None:
    """A crash may come between the group and the annotation, and somebody may delete the group."""
    cluster = FakeCluster(pod("ns/p", cpu=1, node="n1"))
    cluster.settle()
    (made,) = cluster.list(PodGroup)
    cluster.remove(made)
    cluster.settle()
    assert cluster.names(PodGroup) == (made.metadata.name,)


def test_finished_pods_need_no_group() -> None:
    cluster = FakeCluster(pod("ns/done", cpu=1, phase="Succeeded"))
    cluster.settle()
    assert cluster.names(PodGroup) == ()


def stateful_set(*, replicas: int = 1) -> StatefulSet:
    metadata = ObjectMeta(name="db", namespace="ns", annotations={names.QUEUE_NAME: "research"})
    return StatefulSet(metadata=metadata, spec=StatefulSetSpec(replicas=replicas))


def test_a_stateful_set_names_the_queue_of_its_pods() -> None:
    cluster = FakeCluster(stateful_set(), pod("ns/db-0", cpu=1, owner=owned_by("StatefulSet", "db")))
    cluster.settle()
    (made,) = cluster.list(PodGroup)
    assert made.spec.queue == "research"


def test_the_group_of_a_stateful_set_goes_when_that_has_no_replicas_any_more() -> None:
    cluster = FakeCluster(stateful_set())
    cluster.settle()
    assert len(cluster.names(PodGroup)) == 1
    (scaled,) = cluster.list(StatefulSet)
    cluster.put(replace(scaled, spec=replace(scaled.spec, replicas=0)))
    cluster.settle()
    assert not cluster.names(PodGroup)


def test_a_stateful_set_of_another_api_group_is_not_taken_for_one_of_kubernetes() -> None:
    other = OwnerReference(
        api_version="apps.kruise.io/v1beta1", kind="StatefulSet", name="db", uid="7", controller=True
    )
    cluster = FakeCluster(stateful_set(), pod("ns/db-0", cpu=1, owner=other))
    cluster.settle()
    (made,) = cluster.list(PodGroup)
    assert (made.spec.queue, made.metadata.owner_references[0].uid) == ("default", "7")
