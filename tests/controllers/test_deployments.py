"""Deployments: the steps from one template to the next, scaling in the middle, history, and pauses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import pod
from controllers.fake_cluster import FakeCluster, template
from stromboli.api import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    LabelSelector,
    ObjectMeta,
    Pod,
    ReplicaSet,
    RollingUpdateDeployment,
    default,
    key,
)
from stromboli.api.kinds.apps import Amount
from stromboli.api.timestamps import format_timestamp

REVISION = "deployment.kubernetes.io/revision"


def deployment(
    replicas: int = 4, *, surge: Amount = 1, unavailable: Amount = 1, recreate: bool = False, **spec: Any
) -> Deployment:
    rolling = None if recreate else RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    made = Deployment(
        metadata=ObjectMeta(name="web", namespace="ns", generation=1),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": "web"}),
            template=template(labels={"app": "web"}),
            strategy=DeploymentStrategy(type="Recreate" if recreate else "RollingUpdate", rolling_update=rolling),
            **spec,
        ),
    )
    default(made)
    return made


def present(cluster: FakeCluster) -> Deployment:
    found = cluster.get(Deployment, "ns/web")
    assert found is not None
    return found


def change(cluster: FakeCluster, **spec: Any) -> None:
    """What a user does. `version` makes another template."""
    now = present(cluster)
    version = spec.pop("version", None)
    if version is not None:
        labels = {"app": "web"}
        spec["template"] = template(labels=labels, annotations={"version": version} if version else None)
    metadata = replace(now.metadata, generation=now.metadata.generation + 1)
    cluster.put(replace(now, metadata=metadata, spec=replace(now.spec, **spec)))
    cluster.settle()


def sets(cluster: FakeCluster) -> dict[str, ReplicaSet]:
    """By revision."""
    return {one.metadata.annotations[REVISION]: one for one in cluster.list(ReplicaSet)}


def sizes(cluster: FakeCluster) -> dict[str, int]:
    return {number: one.spec.replicas for number, one in sets(cluster).items()}


def progress(cluster: FakeCluster) -> tuple[str, str]:
    found = [one for one in present(cluster).status.conditions if one.type == "Progressing"]
    return found[0].status, found[0].reason


def roll(cluster: FakeCluster) -> list[int]:
    """Let one waiting pod start at a time, to the end. The numbers of pods in between."""
    numbers = []
    for _ in range(100):
        waiting = [key(one) for one in cluster.list(Pod) if one.status.phase == "Pending"]
        numbers.append(len(cluster.names(Pod)))
        if not waiting:
            return numbers
        cluster.run(waiting[0])
        cluster.settle()
    raise AssertionError("it never ends")


def running(cluster: FakeCluster) -> int:
    return sum(one.status.phase == "Running" for one in cluster.list(Pod))


def test_a_deployment_makes_a_set_that_makes_its_pods() -> None:
    cluster = FakeCluster(deployment(3))
    cluster.settle()
    (made,) = cluster.list(ReplicaSet)
    mark = made.metadata.labels["pod-template-hash"]
    assert made.metadata.name == f"web-{mark}"
    assert made.spec.selector is not None
    assert made.spec.selector.match_labels == {"app": "web", "pod-template-hash": mark}
    assert cluster.names(Pod) == tuple(f"web-{mark}-{number}" for number in range(3))
    assert cluster.pod(f"ns/web-{mark}-0").metadata.labels == {"app": "web", "pod-template-hash": mark}
    assert progress(cluster) == ("True", "ReplicaSetUpdated")
    cluster.run()
    cluster.settle()
    status = present(cluster).status
    assert (status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas) == (3, 3, 3, 3)
    assert (status.unavailable_replicas, status.observed_generation) == (0, 1)
    assert progress(cluster) == ("True", "NewReplicaSetAvailable")
    assert present(cluster).metadata.annotations[REVISION] == "1"


def test_a_new_template_replaces_pods_step_by_step() -> None:
    # 4 replicas, maxSurge 1, maxUnavailable 1: 4 + 1 = 5 pods at most, and 4 - 1 = 3 run at any time.
    cluster = FakeCluster(deployment(4))
    cluster.start()
    change(cluster, version="2")
    # The new set got 1, which is 5 in all; then an old one may go (3 left); then 1 more is free for the new set.
    assert sizes(cluster) == {"1": 3, "2": 2}
    assert running(cluster) == 3
    assert progress(cluster)[0] == "True"
    waiting = [key(one) for one in cluster.list(Pod) if one.status.phase == "Pending"]
    cluster.run(waiting[0])
    cluster.settle()
    # One of the two runs: 3 + 1 = 4 run, so another old one may go, and another new one may come.
    assert sizes(cluster) == {"1": 2, "2": 3}
    assert running(cluster) == 3
    roll(cluster)
    assert sizes(cluster) == {"1": 0, "2": 4}
    assert progress(cluster) == ("True", "NewReplicaSetAvailable")
    assert all(one.metadata.annotations.get("version") == "2" for one in cluster.list(Pod))


def test_pods_that_cannot_start_do_not_replace_those_that_run() -> None:
    cluster = FakeCluster(deployment(4, unavailable=0, progress_deadline_seconds=60))
    cluster.start()
    change(cluster, version="2")
    assert sizes(cluster) == {"1": 4, "2": 1}
    assert cluster.next_due() == 60.0
    cluster.advance(59)
    assert progress(cluster)[0] == "True"
    cluster.advance(1)
    assert progress(cluster) == ("False", "ProgressDeadlineExceeded")
    assert sizes(cluster) == {"1": 4, "2": 1}
    assert cluster.next_due() is None
    # Room comes after all.
    cluster.run()
    cluster.settle()
    roll(cluster)
    assert progress(cluster) == ("True", "NewReplicaSetAvailable")


def test_pods_that_do_not_run_go_first() -> None:
    # Of the first template two of four never started: they may go although the limit is reached.
    cluster = FakeCluster(deployment(4, surge=0, unavailable=2))
    cluster.settle()
    waiting = cluster.names(Pod)
    cluster.run(f"ns/{waiting[0]}", f"ns/{waiting[1]}")
    cluster.settle()
    change(cluster, version="2")
    assert sizes(cluster) == {"1": 2, "2": 2}
    assert running(cluster) == 2


def test_pods_count_when_they_have_been_ready_for_long_enough() -> None:
    cluster = FakeCluster(deployment(2, surge=1, unavailable=0, min_ready_seconds=10))
    cluster.settle()
    for one in list(cluster.list(Pod)):
        cluster.run(key(one))
        cluster.put(
            replace(cluster.pod(key(one)), status=replace(one.status, phase="Running", start_time=start(cluster)))
        )
    cluster.settle()
    assert present(cluster).status.available_replicas == 0
    assert cluster.next_due() == 10.0
    cluster.advance(10)
    assert present(cluster).status.available_replicas == 2
    assert progress(cluster) == ("True", "NewReplicaSetAvailable")


def start(cluster: FakeCluster) -> str:
    return format_timestamp(cluster.now)


def test_recreate_waits_until_the_last_pod_has_gone() -> None:
    cluster = FakeCluster(deployment(3, recreate=True))
    cluster.start()
    cluster.grace = 5.0
    change(cluster, version="2")
    assert sizes(cluster) == {"1": 0, "2": 0}
    assert len(cluster.names(Pod)) == 3
    cluster.advance(5)
    assert sizes(cluster) == {"1": 0, "2": 3}
    cluster.run()
    cluster.settle()
    assert progress(cluster) == ("True", "NewReplicaSetAvailable")


def test_a_template_that_comes_back_gets_its_set_and_a_new_number() -> None:
    cluster = FakeCluster(deployment(2))
    cluster.start()
    first = cluster.names(ReplicaSet)
    change(cluster, version="2")
    roll(cluster)
    assert sorted(sets(cluster)) == ["1", "2"]
    change(cluster, version="")
    roll(cluster)
    assert sizes(cluster) == {"2": 0, "3": 2}
    assert sets(cluster)["3"].metadata.name == first[0]
    assert present(cluster).metadata.annotations[REVISION] == "3"


def test_old_sets_beyond_the_history_go() -> None:
    cluster = FakeCluster(deployment(1, revision_history_limit=2))
    cluster.start()
    for version in ("2", "3", "4", "5"):
        change(cluster, version=version)
        roll(cluster)
    assert sorted(sets(cluster)) == ["3", "4", "5"]


def test_a_paused_deployment_is_scaled_and_not_rolled_out() -> None:
    cluster = FakeCluster(deployment(2))
    cluster.start()
    change(cluster, paused=True)
    change(cluster, version="2")
    assert sizes(cluster) == {"1": 2}
    change(cluster, replicas=3)
    assert sizes(cluster) == {"1": 3}
    change(cluster, paused=False)
    assert sorted(sets(cluster)) == ["1", "2"]
    roll(cluster)
    assert sizes(cluster) == {"1": 0, "2": 3}


def test_a_pause_in_the_middle_of_a_rollout_stops_it() -> None:
    cluster = FakeCluster(deployment(4))
    cluster.start()
    change(cluster, version="2")
    before = sizes(cluster)
    change(cluster, paused=True)
    assert progress(cluster) == ("Unknown", "DeploymentPaused")
    roll(cluster)
    assert sizes(cluster) == before
    change(cluster, paused=False)
    roll(cluster)
    assert sizes(cluster) == {"1": 0, "2": 4}


def test_scaling_in_the_middle_of_a_rollout_keeps_the_proportion() -> None:
    # 10 replicas and maxSurge 2: 12 in all, of which 8 old and 4 new when it stops. 20 replicas: 20 + 2 = 22 in all, so
    # the old set gets 8 * 22 / 12 = 14.67, which is 15, and the new one the other 7.
    cluster = FakeCluster(deployment(10, surge=2, unavailable=2))
    cluster.start()
    change(cluster, version="2")
    assert sizes(cluster) == {"1": 8, "2": 4}
    change(cluster, paused=True)
    change(cluster, replicas=20)
    assert sizes(cluster) == {"1": 15, "2": 7}
    change(cluster, paused=False)
    roll(cluster)
    assert sizes(cluster) == {"1": 0, "2": 20}


def test_a_deployment_without_pods_grows_from_nothing() -> None:
    cluster = FakeCluster(deployment(0))
    cluster.settle()
    assert sizes(cluster) == {"1": 0}
    change(cluster, replicas=3)
    assert sizes(cluster) == {"1": 3}
    change(cluster, replicas=0)
    assert cluster.names(Pod) == ()


def test_a_name_that_somebody_else_has_is_passed_over() -> None:
    cluster = FakeCluster(deployment(1))
    cluster.settle()
    (taken,) = cluster.names(ReplicaSet)
    foreign = ReplicaSet(metadata=ObjectMeta(name=taken, namespace="ns"))
    foreign.spec.replicas = 0
    other = FakeCluster(foreign, deployment(1))
    other.settle()
    assert present(other).status.collision_count == 1
    assert len(other.names(ReplicaSet)) == 2
    assert len(other.names(Pod)) == 1


def test_what_a_deployment_says_about_a_change_is_in_the_history() -> None:
    made = deployment(1)
    made.metadata.annotations["kubernetes.io/change-cause"] = "first"
    cluster = FakeCluster(made)
    cluster.start()
    assert sets(cluster)["1"].metadata.annotations["kubernetes.io/change-cause"] == "first"


def test_sets_and_pods_go_with_their_deployment() -> None:
    cluster = FakeCluster(deployment(2), pod("ns/other", cpu=1, node="n1"))
    cluster.start()
    cluster.remove(present(cluster))
    cluster.settle()
    cluster.advance(5)
    assert cluster.names(ReplicaSet) == ()
    assert cluster.names(Pod) == ("other",)


@pytest.mark.parametrize("surge", [0, 1, "50%"])
@pytest.mark.parametrize("unavailable", [0, 1, "50%"])
@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_the_two_limits_hold_in_every_step(replicas: int, unavailable: Amount, surge: Amount) -> None:
    # Half of the pods is rounded up for the surge and down for those that may be missing; both 0 means 1 missing.
    above = (replicas + 1) // 2 if surge == "50%" else int(surge)
    below = replicas // 2 if unavailable == "50%" else int(unavailable)
    below = below if above or below else 1
    cluster = FakeCluster(deployment(replicas, surge=surge, unavailable=unavailable))
    cluster.start()
    change(cluster, version="2")
    for _ in range(50):
        assert len(cluster.names(Pod)) <= replicas + above
        assert running(cluster) >= replicas - below
        waiting = [key(one) for one in cluster.list(Pod) if one.status.phase == "Pending"]
        if not waiting:
            break
        cluster.run(waiting[0])
        cluster.settle()
    assert sizes(cluster) == {"1": 0, "2": replicas}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("version"), st.integers(1, 3)),
        st.tuples(st.just("scale"), st.integers(0, 6)),
        st.tuples(st.just("pause"), st.integers(0, 1)),
        st.tuples(st.just("run"), st.integers(0, 5)),
        st.tuples(st.just("evict"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=15,
)


@given(steps, st.sampled_from([0.0, 2.0]), st.booleans())
def test_whatever_happens_the_last_template_wins(story: list[tuple[str, int]], grace: float, recreate: bool) -> None:
    cluster = FakeCluster(deployment(3, recreate=recreate))
    cluster.grace = grace
    cluster.start()
    for what, number in story:
        pods = list(cluster.list(Pod))
        match what:
            case "version":
                change(cluster, version=str(number))
            case "scale":
                change(cluster, replicas=number)
            case "pause":
                change(cluster, paused=bool(number))
            case "run" if number < len(pods) and pods[number].status.phase == "Pending":
                cluster.run(key(pods[number]))
            case "evict" if number < len(pods):
                cluster.evict(key(pods[number]))
            case "wait":
                cluster.advance(float(number))
            case "restart":
                cluster.restart()
        cluster.settle()
    change(cluster, paused=False)
    wanted = present(cluster).spec
    for _ in range(40):
        cluster.run()
        cluster.settle()
        cluster.advance(3.0)
    assert len(cluster.names(Pod)) == wanted.replicas
    assert all(
        one.metadata.annotations.get("version") == wanted.template.metadata.annotations.get("version")
        for one in cluster.list(Pod)
    )
    if wanted.replicas:
        assert progress(cluster) == ("True", "NewReplicaSetAvailable")
