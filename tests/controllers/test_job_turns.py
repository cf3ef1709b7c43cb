"""Large jobs do not keep the others waiting: budgets, turns and the limit on replicas."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, job, policy, task
from stromboli.api import Job, Pod, PodGroup
from stromboli.controllers import Change, ControllerManager, Create, Delete, PodLimits


def budgeted(per_pass: int, per_job: int) -> ControllerManager:
    return ControllerManager(pod_limits=PodLimits(per_pass=per_pass, per_job=per_job), validate=True)


def admitted(*jobs: Job, per_pass: int = 6, per_job: int = 4) -> FakeCluster:
    """The jobs have their groups and may create pods, but no pass has done so yet."""
    cluster = FakeCluster(*jobs, controllers=lambda: budgeted(per_pass, per_job))
    cluster.settle()
    cluster.enqueue()
    return cluster


def one_pass(cluster: FakeCluster) -> Counter[str]:
    """How many pods each job created or deleted in one pass."""
    changes: list[Change] = cluster.controllers.reconcile(cluster, cluster.now)
    for change in changes:
        cluster._carry_out(change)
    return Counter(
        change.object.metadata.owner_references[0].name
        for change in changes
        if isinstance(change, Create | Delete) and isinstance(change.object, Pod)
    )


def test_a_large_job_creates_its_pods_in_several_passes() -> None:
    # 10 pods, 4 in each pass: 4 + 4 + 2
    cluster = admitted(job("ns/large", task("t", 10)))
    assert [one_pass(cluster).total() for _ in range(4)] == [4, 4, 2, 0]
    assert len(cluster.names(Pod)) == 10


def test_it_says_that_there_is_more_to_do() -> None:
    cluster = admitted(job("ns/large", task("t", 5)))
    one_pass(cluster)
    assert cluster.controllers.unfinished
    one_pass(cluster)
    assert not cluster.controllers.unfinished


def test_a_small_job_is_served_in_the_first_pass() -> None:
    # The large job comes first by name and takes 4 of the 6; the small one needs 2.
    cluster = admitted(job("ns/a-large", task("t", 100)), job("ns/b-small", task("t", 2)))
    assert one_pass(cluster) == {"a-large": 4, "b-small": 2}


def test_jobs_that_were_cut_off_take_turns() -> None:
    # Three large jobs and 6 pods for all of them: who had a turn most recently comes last, by name at a tie.
    cluster = admitted(*(job(f"ns/{name}", task("t", 100)) for name in "abc"))
    assert one_pass(cluster) == {"a": 4, "b": 2}
    assert one_pass(cluster) == {"c": 4, "a": 2}
    assert one_pass(cluster) == {"b": 4, "a": 2}
    assert one_pass(cluster) == {"c": 4, "a": 2}


def test_a_new_job_comes_before_those_that_were_cut_off() -> None:
    cluster = admitted(job("ns/a", task("t", 100)), job("ns/b", task("t", 100)))
    one_pass(cluster)
    cluster.add(job("ns/z", task("t", 3)))
    one_pass(cluster)
    cluster.enqueue()
    assert one_pass(cluster)["z"] == 3


def test_a_restart_deletes_in_several_passes_and_loses_none() -> None:
    cluster = admitted(job("ns/large", task("t", 9), policies=[policy("RestartJob", "PodFailed")]))
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.finish("ns/large-t-0", exit_code=1)
    # 9 pods to delete, at most 4 in each pass.
    assert [one_pass(cluster).total() for _ in range(3)] == [4, 4, 1]
    cluster.settle()
    assert cluster.names(Pod) == ()
    cluster.enqueue()
    cluster.settle()
    assert len(cluster.names(Pod)) == 9
    assert cluster.job("ns/large").status.retry_count == 1


def test_without_limits_one_pass_creates_everything() -> None:
    cluster = FakeCluster(job("ns/large", task("t", 10_000)))
    cluster.settle()
    cluster.enqueue()
    assert one_pass(cluster).total() == 10_000


class TestTheLimitOnReplicas:
    def test_a_job_with_too_many_replicas_is_rejected(self) -> None:
        cluster = FakeCluster(
            job("ns/j", task("a", 30_000), task("b", 20_001)), controllers=lambda: ControllerManager(validate=True)
        )
        cluster.settle()
        state = cluster.job("ns/j").status.state
        assert (state.phase, state.reason) == ("Pending", "Invalid")
        assert state.message == ("spec.tasks: must have at most 50000 replicas together, not 50001; split the job")
        assert cluster.names(PodGroup) == ()
        assert [(notice.reason, notice.warning) for notice in cluster.notices] == [("Invalid", True)]

    def test_the_limit_can_be_set(self) -> None:
        cluster = FakeCluster(
            job("ns/j", task("t", 4)), controllers=lambda: ControllerManager(validate=True, max_job_replicas=3)
        )
        cluster.settle()
        assert "at most 3 replicas" in cluster.job("ns/j").status.state.message
        present = cluster.job("ns/j")
        cluster.put(replace(present, spec=job("ns/j", task("t", 3)).spec))
        cluster.start()
        assert cluster.phase("ns/j") == "Running"
