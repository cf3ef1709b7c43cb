"""What a new leader finds out about pods that went while nobody watched, and restarts that were not finished."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.fake_cluster import FakeCluster, job, policy, task
from stromboli.api import Pod
from stromboli.controllers import Change, Delete
from stromboli.controllers.index_ranges import format_indexes, parse_indexes

J = "ns/j"


def started(*policies: Any, **facts: Any) -> FakeCluster:
    """Two tasks, a with two pods and b with three; all run."""
    cluster = FakeCluster(job(J, task("a", 2), task("b", 3), policies=list(policies), **facts))
    cluster.start()
    assert cluster.phase(J) == "Running"
    return cluster


def lose_unseen(cluster: FakeCluster, *pod_keys: str) -> None:
    """The pods go while no controller leads, and then a new one takes over."""
    for pod_key in pod_keys:
        cluster.remove(cluster.pod(pod_key))
    cluster.restart()


def uids(cluster: FakeCluster) -> dict[str, str]:
    return {pod.metadata.name: pod.metadata.uid for pod in cluster.list(Pod)}


class TestLostPods:
    def test_an_eviction_that_nobody_saw_restarts_the_job(self) -> None:
        cluster = started(policy("RestartJob", "PodEvicted"))
        lose_unseen(cluster, "ns/j-b-1")
        cluster.settle()
        status = cluster.job(J).status
        assert (status.retry_count, status.version) == (1, 1)
        assert [notice.message for notice in cluster.notices] == ["Pod j-b-1 was evicted: RestartJob."]

    def test_it_is_counted_once(self) -> None:
        cluster = started(policy("RestartJob", "PodEvicted"))
        lose_unseen(cluster, "ns/j-b-1", "ns/j-b-2")
        cluster.start()
        cluster.restart()
        cluster.start()
        assert cluster.job(J).status.retry_count == 1
        assert cluster.phase(J) == "Running"

    def test_only_its_task_restarts_if_the_policy_says_so(self) -> None:
        cluster = started(policy("RestartTask", "PodEvicted"))
        before = uids(cluster)
        lose_unseen(cluster, "ns/j-b-1")
        cluster.start()
        after = uids(cluster)
        assert {name for name in before if after[name] != before[name]} == {"j-b-0", "j-b-1", "j-b-2"}

    def test_without_a_policy_the_pod_is_created_again(self) -> None:
        cluster = started(policy("RestartJob", "PodFailed"))
        lose_unseen(cluster, "ns/j-b-1")
        cluster.start()
        assert "j-b-1" in cluster.names(Pod)
        assert cluster.job(J).status.retry_count == 0

    def test_a_pod_that_is_still_leaving_counts(self) -> None:
        cluster = started(policy("AbortJob", "PodEvicted"))
        cluster.grace = 30.0
        lose_unseen(cluster, "ns/j-b-1")
        cluster.settle()
        assert cluster.phase(J) == "Aborting"

    def test_deletions_by_the_controller_are_no_losses(self) -> None:
        """The first leader restarts the job and dies while the pods leave."""
        cluster = started(policy("RestartJob", "PodFailed"), policy("AbortJob", "PodEvicted"))
        cluster.grace = 30.0
        cluster.finish("ns/j-a-0", exit_code=1)
        cluster.settle()
        cluster.restart()
        cluster.settle()
        cluster.grace = 0.0
        cluster.advance(30)
        cluster.restart()
        cluster.start()
        assert (cluster.phase(J), cluster.job(J).status.retry_count) == ("Running", 1)

    def test_a_finished_pod_that_is_deleted_is_no_loss(self) -> None:
        cluster = started(policy("AbortJob", "PodEvicted"))
        cluster.finish("ns/j-a-0")
        cluster.settle()
        lose_unseen(cluster, "ns/j-a-0")
        cluster.settle()
        assert cluster.phase(J) != "Aborting"

    def test_a_delay_goes_on_where_it_was(self) -> None:
        # Lost at 0, to be handled at 10. The leader changes at 6; the replacement never starts.
        cluster = started(policy("AbortJob", "PodEvicted", timeout="10s"))
        cluster.evict("ns/j-b-1")
        cluster.settle()
        assert cluster.job(J).status.lost_pods == {"j-b-1": "1970-01-01T00:00:00Z"}
        cluster.advance(6)
        cluster.restart()
        cluster.settle()
        assert cluster.next_due() == 10.0
        cluster.advance(4)
        assert cluster.phase(J) == "Aborted"
        assert cluster.job(J).status.lost_pods == {}

    def test_the_status_says_which_pods_live(self) -> None:
        cluster = started()
        assert cluster.job(J).status.live_pods == {"a": "0-1", "b": "0-2"}
        cluster.finish("ns/j-b-1")
        cluster.settle()
        assert cluster.job(J).status.live_pods == {"a": "0-1", "b": "0,2"}


class TestRestartTask:
    def stubborn(self, cluster: FakeCluster) -> None:
        """A pass whose deletions of pods all fail."""
        changes: list[Change] = cluster.controllers.reconcile(cluster, cluster.now)
        for change in changes:
            if not (isinstance(change, Delete) and isinstance(change.object, Pod)):
                cluster._carry_out(change)

    @pytest.mark.parametrize("forgetful", [False, True])
    def test_a_failure_is_counted_once_however_long_the_pod_stays(self, forgetful: bool) -> None:
        cluster = started(policy("RestartTask", "PodFailed"), max_retry=3)
        cluster.finish("ns/j-b-0", exit_code=1)
        for _ in range(6):
            self.stubborn(cluster)
            if forgetful:
                cluster.restart()
        status = cluster.job(J).status
        assert status.retry_count == 1
        assert status.restarting_pods == {"b": "0-2"}
        before = uids(cluster)
        cluster.start()
        after = uids(cluster)
        assert {name for name in before if after[name] != before[name]} == {"j-b-0", "j-b-1", "j-b-2"}
        status = cluster.job(J).status
        assert (status.state.phase, status.retry_count, status.restarting_pods) == ("Running", 1, {})

    def test_a_second_failure_is_counted(self) -> None:
        cluster = started(policy("RestartTask", "PodFailed"), max_retry=9)
        for expected in (1, 2, 3):
            cluster.finish("ns/j-b-0", exit_code=1)
            cluster.start()
            assert cluster.job(J).status.retry_count == expected

    def test_without_a_retry_left_the_failed_pod_stays(self) -> None:
        cluster = started(policy("RestartTask", "PodFailed"), max_retry=1)
        failed = cluster.pod("ns/j-b-0").metadata.uid
        cluster.finish("ns/j-b-0", exit_code=1)
        cluster.settle()
        assert cluster.phase(J) == "Failed"
        assert uids(cluster) == {"j-b-0": failed}


class TestIndexes:
    @pytest.mark.parametrize(("indexes", "text"), [([], ""), ([4], "4"), ([0, 1, 2], "0-2"), ([7, 0, 1, 3], "0-1,3,7")])
    def test_text(self, indexes: list[int], text: str) -> None:
        assert format_indexes(indexes) == text

    @given(st.sets(st.integers(0, 60)))
    def test_there_and_back(self, indexes: set[int]) -> None:
        assert parse_indexes(format_indexes(indexes), 61) == indexes

    @pytest.mark.parametrize(
        ("text", "expected"), [("", set()), ("x,2,", {2}), ("1-999999999", {1, 2}), ("2-1", set()), ("-1", set())]
    )
    def test_a_status_that_somebody_else_wrote(self, text: str, expected: set[int]) -> None:
        assert parse_indexes(text, 3) == expected
