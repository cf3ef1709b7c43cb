"""StatefulSets: numbers, order, partitions, and what is left of earlier templates."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import pod
from controllers.fake_cluster import FakeCluster, template
from stromboli.api import (
    ControllerRevision,
    LabelSelector,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    RollingUpdateStatefulSet,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
    key,
)
from stromboli.api.kinds.apps import Amount


def stateful(replicas: int = 3, **spec: Any) -> StatefulSet:
    return StatefulSet(
        metadata=ObjectMeta(name="db", namespace="ns", generation=1),
        spec=StatefulSetSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": "db"}),
            template=template(labels={"app": "db"}),
            **spec,
        ),
    )


def rolling(partition: int = 0, unavailable: Amount | None = None) -> StatefulSetUpdateStrategy:
    update = RollingUpdateStatefulSet(partition=partition, max_unavailable=unavailable)
    return StatefulSetUpdateStrategy(type="RollingUpdate", rolling_update=update)


def present(cluster: FakeCluster) -> StatefulSet:
    found = cluster.get(StatefulSet, "ns/db")
    assert found is not None
    return found


def change(cluster: FakeCluster, **spec: Any) -> None:
    """What a user does. `version` makes another template."""
    now = present(cluster)
    version = spec.pop("version", None)
    if version is not None:
        spec["template"] = template(labels={"app": "db"}, annotations={"version": version} if version else None)
    metadata = replace(now.metadata, generation=now.metadata.generation + 1)
    cluster.put(replace(now, metadata=metadata, spec=replace(now.spec, **spec)))
    cluster.settle()


def versions(cluster: FakeCluster) -> dict[str, str]:
    return {one.metadata.name: one.metadata.annotations.get("version", "") for one in cluster.list(Pod)}


def run_all(cluster: FakeCluster) -> None:
    for _ in range(40):
        cluster.run()
        cluster.settle()
        cluster.advance(1)


def test_pods_come_in_order_each_when_all_before_it_run() -> None:
    cluster = FakeCluster(stateful(3))
    cluster.settle()
    assert cluster.names(Pod) == ("db-0",)
    made = cluster.pod("ns/db-0")
    assert made.metadata.labels["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert made.metadata.labels["apps.kubernetes.io/pod-index"] == "0"
    assert made.spec.hostname == "db-0"
    for number in range(1, 3):
        cluster.run()
        cluster.settle()
        assert cluster.names(Pod) == tuple(f"db-{one}" for one in range(number + 1))
    cluster.run()
    cluster.settle()
    status = present(cluster).status
    assert (status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas) == (3, 3, 3, 3)
    assert status.current_revision == status.update_revision != ""
    assert status.current_replicas == 3


def test_in_parallel_nobody_waits() -> None:
    cluster = FakeCluster(stateful(3, pod_management_policy="Parallel"))
    cluster.settle()
    assert cluster.names(Pod) == ("db-0", "db-1", "db-2")
    change(cluster, replicas=0)
    assert cluster.names(Pod) == ()


def test_a_pod_counts_when_it_has_been_ready_for_long_enough() -> None:
    cluster = FakeCluster(stateful(2, min_ready_seconds=10))
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert cluster.names(Pod) == ("db-0",)
    assert cluster.next_due() == 10.0
    cluster.advance(10)
    assert cluster.names(Pod) == ("db-0", "db-1")


def test_numbers_may_begin_elsewhere() -> None:
    cluster = FakeCluster(stateful(2, ordinals=StatefulSetOrdinals(start=5), pod_management_policy="Parallel"))
    cluster.settle()
    assert cluster.names(Pod) == ("db-5", "db-6")


def test_the_highest_number_goes_first_and_the_next_when_it_is_gone() -> None:
    cluster = FakeCluster(stateful(3))
    run_all(cluster)
    cluster.grace = 5.0
    change(cluster, replicas=1)
    going = [one.metadata.name for one in cluster.list(Pod) if one.metadata.deletion_timestamp]
    assert going == ["db-2"]
    cluster.advance(5)
    going = [one.metadata.name for one in cluster.list(Pod) if one.metadata.deletion_timestamp]
    assert going == ["db-1"]
    cluster.advance(5)
    assert cluster.names(Pod) == ("db-0",)


def test_a_smaller_set_waits_for_a_pod_that_does_not_run() -> None:
    cluster = FakeCluster(stateful(3))
    run_all(cluster)
    waiting = cluster.pod("ns/db-0")
    cluster.put(replace(waiting, status=replace(waiting.status, phase="Pending")))
    change(cluster, replicas=2)
    assert cluster.names(Pod) == ("db-0", "db-1", "db-2")
    run_all(cluster)
    assert cluster.names(Pod) == ("db-0", "db-1")


def test_a_new_template_goes_from_the_highest_number_down() -> None:
    cluster = FakeCluster(stateful(3))
    run_all(cluster)
    before = present(cluster).status.current_revision
    change(cluster, version="2")
    assert versions(cluster) == {"db-0": "", "db-1": "", "db-2": "2"}
    status = present(cluster).status
    assert (status.current_revision, status.current_replicas, status.updated_replicas) == (before, 2, 1)
    cluster.advance(30)  # db-2 has found no place, so the others stay
    assert versions(cluster) == {"db-0": "", "db-1": "", "db-2": "2"}
    run_all(cluster)
    assert set(versions(cluster).values()) == {"2"}
    status = present(cluster).status
    assert (status.current_revision, status.current_replicas) == (status.update_revision, 3)
    assert status.update_revision != before


def test_pods_below_the_partition_keep_their_template_also_when_they_are_made_again() -> None:
    cluster = FakeCluster(stateful(4, update_strategy=rolling(partition=2)))
    run_all(cluster)
    change(cluster, version="2")
    run_all(cluster)
    assert versions(cluster) == {"db-0": "", "db-1": "", "db-2": "2", "db-3": "2"}
    cluster.evict("ns/db-0")
    cluster.evict("ns/db-3")
    run_all(cluster)
    assert versions(cluster) == {"db-0": "", "db-1": "", "db-2": "2", "db-3": "2"}
    change(cluster, update_strategy=rolling())
    run_all(cluster)
    assert set(versions(cluster).values()) == {"2"}


def test_several_may_be_replaced_at_a_time() -> None:
    # Half of 5, rounded up, is 3.
    cluster = FakeCluster(stateful(5, update_strategy=rolling(unavailable="50%"), pod_management_policy="Parallel"))
    run_all(cluster)
    change(cluster, version="2")
    assert list(versions(cluster).values()) == ["", "", "2", "2", "2"]


def test_on_delete_only_pods_that_go_come_back_with_the_new_template() -> None:
    cluster = FakeCluster(stateful(2, update_strategy=StatefulSetUpdateStrategy(type="OnDelete")))
    run_all(cluster)
    change(cluster, version="2")
    run_all(cluster)
    assert versions(cluster) == {"db-0": "", "db-1": ""}
    cluster.evict("ns/db-0")
    run_all(cluster)
    assert versions(cluster) == {"db-0": "2", "db-1": ""}


def test_revisions_are_kept_and_come_back_with_a_higher_number() -> None:
    cluster = FakeCluster(stateful(1, revision_history_limit=1))
    run_all(cluster)
    first = present(cluster).status.current_revision
    for version in ("2", "3"):
        change(cluster, version=version)
        run_all(cluster)
    assert sorted(one.revision for one in cluster.list(ControllerRevision)) == [2, 3]
    assert first not in cluster.names(ControllerRevision)
    change(cluster, version="2")
    run_all(cluster)
    assert sorted(one.revision for one in cluster.list(ControllerRevision)) == [3, 4]


def test_a_set_copied_without_its_revisions_goes_on_with_those_that_its_status_names() -> None:
    copied = stateful(2, pod_management_policy="Parallel")
    copied.status.observed_generation = 1
    copied.status.update_revision = copied.status.current_revision = "db-12345"
    pods = []
    for number in range(2):
        one = pod(f"ns/db-{number}", cpu=1, node="n1")
        one.metadata.labels["controller-revision-hash"] = "db-12345"
        one.metadata.owner_references = [owner_of(copied)]
        pods.append(one)
    cluster = FakeCluster(copied, *pods)
    cluster.settle()
    assert cluster.names(Pod) == ("db-0", "db-1")
    assert cluster.names(ControllerRevision) == ()
    assert present(cluster).status.updated_replicas == 2


def owner_of(owner: StatefulSet) -> Any:
    from controllers.fake_cluster import owned_by

    return owned_by("StatefulSet", owner.metadata.name)


def test_claims_are_made_once_and_stay() -> None:
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name="data"))
    claim.spec.resources.requests = {"storage": "1Gi"}
    cluster = FakeCluster(stateful(2, volume_claim_templates=[claim], pod_management_policy="Parallel"))
    cluster.settle()
    assert cluster.names(PersistentVolumeClaim) == ("data-db-0", "data-db-1")
    assert cluster.pod("ns/db-1").spec.volumes == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}
    ]
    change(cluster, replicas=1)
    assert cluster.names(PersistentVolumeClaim) == ("data-db-0", "data-db-1")
    change(cluster, replicas=2)
    assert cluster.names(Pod) == ("db-0", "db-1")


def test_a_name_that_somebody_else_has_is_waited_for() -> None:
    cluster = FakeCluster(stateful(2), pod("ns/db-0", cpu=1, node="n1"))
    cluster.settle()
    assert cluster.names(Pod) == ("db-0",)
    cluster.remove(cluster.pod("ns/db-0"))
    cluster.settle()
    cluster.put(replace(present(cluster)))
    cluster.settle()
    assert key(cluster.pod("ns/db-0")) == "ns/db-0"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("version"), st.integers(1, 3)),
        st.tuples(st.just("scale"), st.integers(0, 5)),
        st.tuples(st.just("partition"), st.integers(0, 4)),
        st.tuples(st.just("run"), st.integers(0, 5)),
        st.tuples(st.just("evict"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=15,
)


@given(steps, st.sampled_from([0.0, 2.0]), st.booleans())
def test_whatever_happens_all_numbers_are_there_in_the_end(
    story: list[tuple[str, int]], grace: float, in_order: bool
) -> None:
    cluster = FakeCluster(stateful(3, pod_management_policy="OrderedReady" if in_order else "Parallel"))
    cluster.grace = grace
    cluster.start()
    for what, number in story:
        pods = list(cluster.list(Pod))
        match what:
            case "version":
                change(cluster, version=str(number))
            case "scale":
                change(cluster, replicas=number)
            case "partition":
                change(cluster, update_strategy=rolling(partition=number))
            case "run" if number < len(pods) and pods[number].status.phase == "Pending":
                cluster.run(key(pods[number]))
            case "evict" if number < len(pods):
                cluster.evict(key(pods[number]))
            case "wait":
                cluster.advance(float(number))
            case "restart":
                cluster.restart()
        cluster.settle()
    change(cluster, update_strategy=rolling())
    run_all(cluster)
    wanted = present(cluster).spec
    version = wanted.template.metadata.annotations.get("version", "")
    assert versions(cluster) == {f"db-{number}": version for number in range(wanted.replicas)}
