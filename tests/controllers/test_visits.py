"""A pass visits what has changed, and what is due: nothing in a quiet cluster, everything after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, job, policy, replica_set, task
from stromboli.api import Condition, Job, KObject, Pod, PodDisruptionBudget, PodGroup, Queue, ReplicaSet


class Reads:
    """Objects that note which keys were read, and refuse to list a kind."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.keys: set[tuple[type[KObject], str]] = set()

    def get(self, kind: type[Any], key: str) -> Any:
        self.keys.add((kind, key))
        return self.cluster.get(kind, key)

    def list(self, kind: type[Any]) -> Any:
        assert kind.__name__ == "Command", f"a pass lists all objects of kind {kind.__name__}"
        return ()


@contextmanager
def watched_pass(cluster: FakeCluster) -> Iterator[set[tuple[type[KObject], str]]]:
    """What the pass at the end of the block reads."""
    cluster.settle()
    while cluster.pass_once():  # settle visits everything at its end
        pass
    reads = Reads(cluster)
    yield reads.keys
    cluster.controllers.reconcile(reads, cluster.now)
    reads.keys.discard((Queue, "default"))  # which is created again if it is missing


def crowd() -> FakeCluster:
    """Three running Jobs, of which the second has finished, and a ReplicaSet."""
    cluster = FakeCluster(
        *(job(f"ns/j{number}", task("t", 2), ttl_seconds_after_finished=50) for number in range(3)),
        replica_set("ns/set", 2),
        PodDisruptionBudget(),
    )
    cluster.start()
    for index in range(2):
        cluster.finish(f"ns/j1-t-{index}")
    cluster.settle()
    assert cluster.phase("ns/j1") == "Completed"
    return cluster


def visited(keys: set[tuple[type[KObject], str]], kind: type[KObject]) -> set[str]:
    return {key for of_kind, key in keys if of_kind is kind}


def test_a_pass_in_a_quiet_cluster_reads_nothing() -> None:
    with watched_pass(crowd()) as keys:
        pass
    assert keys == set()


def explain(cluster: FakeCluster) -> None:
    pod = cluster.pod("ns/j0-t-0")
    reason = Condition(type="PodScheduled", status="False", reason="InsufficientNode", message="No node has room.")
    cluster.put(replace(pod, status=replace(pod.status, conditions=[reason])))


def count_in_group(cluster: FakeCluster) -> None:
    group = next(group for group in cluster.list(PodGroup) if group.metadata.name.startswith("j0"))
    cluster.put(replace(group, status=replace(group.status, running=1)))


@pytest.mark.parametrize(
    ("happens", "kind", "expected"),
    [
        pytest.param(lambda c: c.finish("ns/j0-t-0"), Job, {"ns/j0"}, id="a pod of a Job ends"),
        pytest.param(lambda c: c.evict("ns/j2-t-1"), Job, {"ns/j2"}, id="a pod of a Job is evicted"),
        pytest.param(lambda c: c.evict("ns/set-0"), ReplicaSet, {"ns/set"}, id="a pod of a set is evicted"),
        pytest.param(lambda c: c.evict("ns/set-0"), Job, set(), id="which no Job has to know"),
        pytest.param(lambda c: c.command("AbortJob", c.job("ns/j0")), Job, set(), id="commands are listed, not read"),
        pytest.param(explain, Job, set(), id="why a pod waits matters to nobody"),
        pytest.param(count_in_group, Job, set(), id="nor do the counts of a group"),
    ],
)
def test_a_pass_reads_what_has_changed(
    happens: Callable[[FakeCluster], Any], kind: type[KObject], expected: set[str]
) -> None:
    cluster = crowd()
    with watched_pass(cluster) as keys:
        happens(cluster)
    assert visited(keys, kind) == expected


def test_a_job_is_visited_when_its_time_has_come() -> None:
    cluster = crowd()
    cluster.now += 49
    with watched_pass(cluster) as keys:
        pass
    assert visited(keys, Job) == set()
    assert cluster.next_due() == cluster.now + 1
    with watched_pass(cluster) as keys:
        cluster.now += 1
    assert visited(keys, Job) == {"ns/j1"}


def test_a_delayed_policy_is_visited_when_its_time_has_come() -> None:
    cluster = FakeCluster(job("ns/j", task("t", 2), policies=[policy("AbortJob", "PodFailed", timeout="30s")]))
    cluster.start()
    cluster.finish("ns/j-t-0", exit_code=1)
    with watched_pass(cluster) as keys:
        cluster.now += 29
    assert visited(keys, Job) == set()
    with watched_pass(cluster) as keys:
        cluster.now += 1
    assert visited(keys, Job) == {"ns/j"}


def test_after_a_restart_everything_is_visited_once() -> None:
    cluster = crowd()
    cluster.restart()
    read: set[str] = set()

    class Watching(Reads):
        def list(self, kind: type[Any]) -> Any:
            return cluster.list(kind)

    reads = Watching(cluster)
    cluster.controllers.reconcile(reads, cluster.now)
    read = visited(reads.keys, Job) | visited(reads.keys, ReplicaSet) | visited(reads.keys, Queue)
    assert read >= {"ns/j0", "ns/j1", "ns/j2", "ns/set", "default"}
    assert visited(reads.keys, Pod) >= {"ns/j0-t-0", "ns/set-0"}


def test_a_job_whose_update_failed_is_visited_again() -> None:
    cluster = crowd()
    cluster.finish("ns/j0-t-0")
    first = cluster.pass_once()  # nothing of it is carried out, and nothing changes
    assert first != []
    assert cluster.pass_once() == first
