"""Which pods must stay: each filter of the default evictor, on a node that would be emptied otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from builders import START, budget, group, node, pod
from descheduling.plans import NOW, moves, plans_of, policy, replicas
from stromboli.api import Container, Job, ObjectMeta, OwnerReference, ReplicaSet, ResourceRequirements, decode
from stromboli.api.kinds.batch import JobState, JobStatus
from stromboli.descheduling.registry import Registry
from stromboli.scheduling.configuration import ConfigurationError

LOW = {
    "ResourceType": "cpu", "lowThresholds": {"cpu": 30}, "defragmentThresholds": {"cpu": 60},
    "protectionThresholds": {"cpu": 95},
}  # fmt: skip


def moved(candidate: list[Any], evictor: dict[str, Any] | None = None, *more: Any, **top: Any) -> list[str]:
    """The pods that leave b, which has 10 CPUs and the candidate; a has 6 of 10 in use."""
    objects = [node("a", cpu=10), node("b", cpu=10), *replicas("full", 6, on="a", cpu=1), *candidate, *more]
    plans = plans_of(objects, policy(LOW, evictor=evictor or {}, **top))
    return [name for plan in plans for name, _, _ in moves(plan)]


def one(**facts: Any) -> list[Any]:
    return replicas("y", 1, on="b", cpu=1, **facts)


def with_volume(source: str) -> list[Any]:
    found = one()
    found[-1].spec.volumes = [{"name": "data", source: {"claimName": "data"} if "Claim" in source else {}}]
    return [*_DATA, *found]


_DATA = [
    decode(
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default", "uid": "c"},
            "spec": {
                "volumeName": "disk", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound"},
        }
    ),
    decode(
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk", "uid": "v"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "default", "name": "data", "uid": "c"},
            },
            "status": {"phase": "Bound"},
        }
    ),
]  # fmt: skip


def test_an_ordinary_pod_moves() -> None:
    assert moved(one()) == ["y-0"]


def test_pods_that_nobody_replaces_stay() -> None:
    bare = [group("default/bare"), pod("default/y-0", cpu=1, node="b", group="bare")]
    assert moved(bare) == []
    orphan = one()[1:]  # its set is gone
    assert moved(orphan) == []


def test_pods_of_the_node_and_terminating_ones_stay() -> None:
    assert moved(one(annotations={"kubernetes.io/config.mirror": "x"})) == []
    assert moved(one(deleted=True)) == []
    daemon = one()
    daemon[-1].metadata.owner_references = [OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True)]
    # A DaemonSet's pod belongs to the node, so the node counts as empty: there is nothing to gain.
    assert moved(daemon) == []


def test_another_scheduler() -> None:
    assert moved(one(scheduler="default-scheduler")) == []


def test_preemptable_false() -> None:
    assert moved(one(preemptable=False)) == []


@pytest.mark.parametrize(
    ("facts", "arguments", "moves"),
    [
        ({"priority": 2_000_000_000}, {}, False),
        ({"priority": 2_000_000_000}, {"evictSystemCriticalPods": True}, True),
        ({"priority": 2_000_000_000}, {"podProtections": {"defaultDisabled": ["SystemCriticalPods"]}}, True),
        ({"priority": 100}, {"priorityThreshold": {"value": 100}}, False),
        ({"priority": 99}, {"priorityThreshold": {"value": 100}}, True),
        ({}, {"priorityThreshold": {"name": "unknown"}}, False),
        ({}, {"labelSelector": {"matchLabels": {"app": "y"}}}, True),
        ({}, {"labelSelector": {"matchLabels": {"app": "z"}}}, False),
        ({}, {"namespaces": {"exclude": ["default"]}}, False),
        ({}, {"namespaces": {"include": ["default"]}}, True),
        ({}, {"minReplicas": 2}, False),
        ({}, {"ignorePodsWithoutPDB": True}, False),
        ({"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}}, {}, True),
        (
            {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}},
            {"noEvictionPolicy": "Mandatory"},
            False,
        ),
        # The annotation overrides what is not about safety.
        ({"priority": 2_000_000_000, "annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}, {}, True),
    ],
)
def test_arguments(facts: dict[str, Any], arguments: dict[str, Any], moves: bool) -> None:
    assert bool(moved(one(**facts), arguments)) is moves


def test_local_and_persistent_storage() -> None:
    assert moved(with_volume("emptyDir")) == []
    assert moved(with_volume("hostPath")) == []
    assert moved(with_volume("emptyDir"), {"evictLocalStoragePods": True}) == ["y-0"]
    assert moved(with_volume("persistentVolumeClaim")) == ["y-0"]
    assert moved(with_volume("persistentVolumeClaim"), {"ignorePvcPods": True}) == []
    assert moved(with_volume("persistentVolumeClaim"), {"podProtections": {"extraEnabled": ["PodsWithPVC"]}}) == []


def test_minimum_age() -> None:
    from stromboli.api.timestamps import format_timestamp

    for age, expected in ((600, []), (3600, ["y-0"])):
        candidate = one()
        candidate[-1].status.start_time = format_timestamp(NOW - age)
        assert moved(candidate, {"minPodAge": "50m"}) == expected
    assert moved(one(), {"minPodAge": "50m"}) == []  # nobody knows when it started


def test_a_budget_without_disruptions() -> None:
    assert moved(one(), None, budget("default/y", allowed=0, selector={"app": "y"})) == []
    assert moved(one(), None, budget("default/y", allowed=1, selector={"app": "y"})) == ["y-0"]


def test_a_set_in_rollout_or_with_pods_missing() -> None:
    candidate = one()
    candidate[0].spec.replicas = 0
    assert moved(candidate) == []
    candidate = one()
    candidate[0].spec.replicas = 2
    assert moved(candidate) == []
    candidate = one()
    deployment = OwnerReference(kind="Deployment", name="d", uid="dep", controller=True)
    candidate[0].metadata.owner_references = [deployment]
    newer = ReplicaSet(metadata=ObjectMeta(name="y2", namespace="default", owner_references=[deployment]))
    assert moved(candidate, None, newer) == []


def test_run_to_completion_needs_consent() -> None:
    owner = OwnerReference(
        api_version="batch.volcano.sh/v1alpha1", kind="Job", name="train", uid="train", controller=True
    )
    job = Job(
        metadata=ObjectMeta(name="train", namespace="default", uid="train"),
        status=JobStatus(state=JobState(phase="Running")),
    )
    # Two pods with a minimum of one, so the gang could spare one.
    objects: list[Any] = [job, group("default/train", min_member=1, phase="Running")]
    pods = [pod(f"default/train-{n}", cpu=1, node=on, group="train", owner=owner) for n, on in enumerate("ba")]
    assert moved([*objects, *pods]) == []
    for each in pods:
        each.metadata.annotations["scheduling.stromboli.io/movable"] = "true"
    assert moved([*objects, *pods]) == ["train-0"]
    objects[1].metadata.annotations["scheduling.stromboli.io/goes-whole"] = "true"
    assert moved([*objects, *pods]) == []


@pytest.mark.parametrize(
    ("limit", "planned"),
    [
        ({"maxNoOfPodsToEvictTotal": 1}, 0),  # two pods would have to leave b
        ({"maxNoOfPodsToEvictPerNode": 1}, 0),
        ({"maxNoOfPodsToEvictPerNamespace": 1}, 0),
        ({"maxNoOfPodsToEvictPerWorkload": 1}, 0),
        ({"maxNoOfPodsToEvictTotal": 2}, 2),
    ],
)
def test_limits(limit: dict[str, int], planned: int) -> None:
    assert len(moved(replicas("y", 2, on="b", cpu=1), None, **limit)) == planned


def test_all_containers_and_overhead_count() -> None:
    # 1 + 1 CPUs in two containers, 3 in an init container, 1 of overhead: 4. a has 5 of 10, so 9 of 10 = 90 % after.
    def container(cpu: int) -> Container:
        return Container(name=f"c{cpu}", resources=ResourceRequirements(requests={"cpu": cpu}))

    for used, expected in ((5, ["y-0"]), (6, [])):
        candidate = replicas("y", 1, on="b", containers=[container(1), container(1)])
        candidate[-1].spec.init_containers = [container(3)]
        candidate[-1].spec.overhead = {"cpu": 1}
        objects = [node("a", cpu=10), node("b", cpu=20), *replicas("full", used, on="a", cpu=1), *candidate]
        plans = plans_of(objects, policy(LOW))
        assert [name for plan in plans for name, _, _ in moves(plan)] == expected


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"priorityThreshold": {"value": 1, "name": "x"}}, "either a value or a name"),
        ({"podProtections": {"defaultDisabled": ["Everything"]}}, "defaultDisabled must be a list of"),
        ({"podProtections": {}, "ignorePvcPods": True}, "cannot be combined"),
        ({"namespaces": {"include": ["a"], "exclude": ["b"]}}, "either include or exclude"),
        ({"minPodAge": "soon"}, "must be a duration"),
        ({"labelSelector": {"labels": {}}}, "must be a label selector"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        policy(LOW, evictor=arguments)


def test_every_plugin_is_found() -> None:
    registry = Registry(installed=())
    assert len([registry.plugin(name) for name in registry._paths]) == 13
    assert START < NOW
