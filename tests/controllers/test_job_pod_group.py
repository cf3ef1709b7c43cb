"""What a job's PodGroup asks for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import priority_class
from controllers.fake_cluster import FakeCluster, job, task
from stromboli.api import (
    LabelSelector,
    NetworkTopology,
    PartitionPolicy,
    Pod,
    PodGroup,
    SubGroupPolicy,
    is_generated_group,
    names,
)
from stromboli.controllers.job.pod_group import minimum_resources

# A master asks for 10 cores and a worker for 1, so that the sum tells who was counted:
# "21" is two masters and a worker.
HIGH, LOW = "high", "low"
VALUES = {HIGH: 100, LOW: 1}


def cores(minimum: int | None, *tasks: Any) -> str:
    return str(minimum_resources(job("ns/j", *tasks, min_available=minimum), VALUES).get("cpu", "0"))


def master(replicas: int, least: int | None, priority: str = "") -> Any:
    return task("master", replicas, min_available=least, cpu=10, priority_class=priority)


def worker(replicas: int, least: int | None, priority: str = "") -> Any:
    return task("worker", replicas, min_available=least, cpu=1, priority_class=priority)


@pytest.mark.parametrize(
    ("minimum", "tasks", "expected"),
    [
        # The job's minimum is the sum of the tasks'.
        (None, [master(1, 1), worker(3, 3)], "13"),
        (None, [master(1, None), worker(3, None)], "13"),
        (None, [master(2, 1), worker(3, 2)], "12"),
        # It is more: other replicas fill up, by priority.
        (3, [master(2, 1, HIGH), worker(2, 1)], "21"),
        (3, [master(2, 1), worker(2, 1, HIGH)], "12"),
        (4, [master(2, 1, HIGH), worker(2, 1)], "22"),
        (3, [master(2, 0, HIGH), worker(2, 0)], "21"),
        (2, [master(1, 0, LOW), worker(3, 0, HIGH)], "2"),
        # It is less: minimums in order of priority until it is reached.
        (1, [master(2, 1, HIGH), worker(2, 1, LOW)], "10"),
        (1, [master(2, 1, LOW), worker(2, 1, HIGH)], "1"),
        (3, [master(5, 2, HIGH), worker(5, 2, LOW)], "21"),
        # Equal priorities: as written.
        (1, [worker(2, 1), master(2, 1)], "1"),
        (3, [master(2, 1), worker(2, 1)], "21"),
        # A class that nobody knows counts as 0, below any that is positive.
        (1, [master(1, 1, "unheard-of"), worker(1, 1, LOW)], "1"),
        (0, [master(2, 0), worker(2, 0)], "0"),
    ],
)
def test_minimum_resources(minimum: int | None, tasks: list[Any], expected: str) -> None:
    assert cores(minimum, *tasks) == expected


def made_for(*tasks: Any, **facts: Any) -> tuple[FakeCluster, PodGroup]:
    cluster = FakeCluster(priority_class(HIGH, 100), job("ns/j", *tasks, **facts))
    cluster.settle()
    (group,) = cluster.list(PodGroup)
    return cluster, group


def test_the_group_says_what_is_coming_before_there_are_pods() -> None:
    topology = NetworkTopology(mode="hard", highest_tier_allowed=1)
    cluster, group = made_for(
        master(1, None),
        worker(4, 2),
        queue="research",
        priority_class_name=HIGH,
        running_estimate="90m",
        network_topology=topology,
        annotations={names.PREEMPTABLE: "true", names.SIM_UNTIL: "5m"},
    )
    owner = cluster.job("ns/j")
    assert group.metadata.name == f"j-{owner.metadata.uid}"
    assert group.metadata.owner_references[0].uid == owner.metadata.uid
    assert not is_generated_group(group)
    assert group.spec.min_member == 3
    assert group.spec.min_task_member == {"master": 1, "worker": 2}
    assert group.spec.min_resources == {"cpu": "12"}
    assert (group.spec.queue, group.spec.priority_class_name) == ("research", HIGH)
    assert group.spec.network_topology == topology
    said = group.metadata.annotations
    assert said[names.ESTIMATE] == "1h30m"
    assert said[names.PREEMPTABLE] == "true"
    assert names.SIM_UNTIL not in said


def test_partitions_are_sub_groups_of_the_group() -> None:
    """Six workers in three partitions of two, of which two must start; the master is in none."""
    rack = NetworkTopology(mode="hard", highest_tier_name="rack")
    parts = PartitionPolicy(total_partitions=3, partition_size=2, min_partitions=2, network_topology=rack)
    cluster, group = made_for(master(1, None), task("worker", 6, partition_policy=parts))
    assert group.spec.sub_group_policy == [
        SubGroupPolicy(
            name="worker",
            label_selector=LabelSelector(match_labels={names.TASK_SPEC: "worker"}),
            match_label_keys=["volcano.sh/partition-id"],
            sub_group_size=2,
            min_sub_groups=2,
            network_topology=rack,
        )
    ]
    assert (group.spec.min_member, group.spec.min_task_member) == (5, {"master": 1, "worker": 4})
    cluster.enqueue()
    cluster.settle()
    labels = {pod.metadata.name: pod.metadata.labels.get("volcano.sh/partition-id") for pod in cluster.list(Pod)}
    assert labels == {
        "j-master-0": None,
        **{f"j-worker-{index}": str(index // 2) for index in range(6)},
    }


def test_a_job_without_partitions_leaves_the_sub_groups_of_its_group_alone() -> None:
    cluster, group = made_for(worker(2, 2))
    policies = [SubGroupPolicy(name="a", match_label_keys=["b"])]
    cluster.put(replace(group, spec=replace(group.spec, sub_group_policy=policies)))
    cluster.settle()
    (group,) = cluster.list(PodGroup)
    assert group.spec.sub_group_policy == policies


def test_the_group_follows_the_job() -> None:
    cluster, _ = made_for(worker(2, 2))
    scaled = cluster.job("ns/j")
    tasks = [replace(scaled.spec.tasks[0], replicas=5, min_available=5)]
    cluster.put(replace(scaled, spec=replace(scaled.spec, tasks=tasks, min_available=5)))
    cluster.settle()
    (group,) = cluster.list(PodGroup)
    assert (group.spec.min_member, group.spec.min_resources) == (5, {"cpu": "5"})


def test_the_group_follows_priorities_that_appear_later() -> None:
    cluster = FakeCluster(job("ns/j", master(1, 1), worker(1, 1, HIGH), min_available=1))
    cluster.settle()
    assert next(iter(cluster.list(PodGroup))).spec.min_resources == {"cpu": "10"}
    cluster.add(priority_class(HIGH, 100))
    cluster.settle()
    assert next(iter(cluster.list(PodGroup))).spec.min_resources == {"cpu": "1"}
