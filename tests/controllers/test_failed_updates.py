"""Changes that could not be made: what led to them still waits for its answer."""

from __future__ import annotations

from controllers.fake_cluster import FakeCluster, job, policy, task
from stromboli.api import Job
from stromboli.controllers import Update


def test_an_eviction_is_answered_by_the_next_pass_if_this_one_could_not_write() -> None:
    cluster = FakeCluster(job("ns/j", task("t", 2), policies=[policy("RestartJob", "PodEvicted")]))
    cluster.start()
    cluster.evict("ns/j-t-0")

    asked = cluster.controllers.reconcile(cluster, cluster.now)
    written = [change for change in asked if isinstance(change, Update) and isinstance(change.object, Job)]
    assert [change.object.status.retry_count for change in written] == [1]
    for change in written:  # somebody else was faster, so nothing of it is done
        cluster.controllers.change_failed(change)

    cluster.settle()
    assert cluster.job("ns/j").status.retry_count == 1


def test_what_was_written_is_not_answered_twice() -> None:
    cluster = FakeCluster(job("ns/j", task("t", 2), policies=[policy("RestartJob", "PodEvicted")]))
    cluster.start()
    cluster.evict("ns/j-t-0")
    cluster.start()
    assert cluster.job("ns/j").status.retry_count == 1
    cluster.controllers.change_failed(Update(cluster.job("ns/j")))
    cluster.settle()
    assert cluster.job("ns/j").status.retry_count == 1
