"""Only the first news of a departure that nobody arranged is news."""

from __future__ import annotations

from builders import pod
from controllers.fake_cluster import FakeCluster
from stromboli.controllers.job.deletion_tracker import DeletionTracker


def test_the_second_time_is_no_news() -> None:
    leaving = FakeCluster().add(pod("ns/p"))
    tracker = DeletionTracker()
    assert tracker.is_unexpected(leaving)
    assert not tracker.is_unexpected(leaving)


def test_what_was_arranged_is_no_news() -> None:
    leaving = FakeCluster().add(pod("ns/p"))
    tracker = DeletionTracker()
    tracker.expect_deletion(leaving)
    assert not tracker.is_unexpected(leaving)


def test_pods_are_remembered_for_as_long_as_they_are_there() -> None:
    cluster = FakeCluster()
    first = cluster.add(pod("ns/p"))
    tracker = DeletionTracker()
    tracker.expect_deletion(first)
    tracker.prune(cluster)
    assert not tracker.is_unexpected(first)

    cluster.remove(first)
    second = cluster.add(pod("ns/p"))  # of the same name, but another pod
    tracker.prune(cluster)
    assert tracker.is_unexpected(second)
    assert tracker.is_unexpected(first)
