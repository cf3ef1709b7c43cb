"""Jobs from beginning to end, in a cluster that does what their controller asks for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import pod as bare_pod
from controllers.fake_cluster import FakeCluster, job, policy, task
from stromboli.api import ContainerStatus, DependsOn, Job, PartitionPolicy, Pod, PodGroup, PodStatus, names
from stromboli.api.timestamps import format_timestamp
from stromboli.controllers import Change, Delete
from stromboli.controllers.job.job_pods import parse_pod_name
from stromboli.controllers.job.state_machine import next_phase

J = "ns/j"


def started(*policies: Any, replicas: int = 3, **facts: Any) -> FakeCluster:
    """A job with one task of three pods, all of them running."""
    facts.setdefault("ttl_seconds_after_finished", None)
    cluster = FakeCluster(job(J, task("main", replicas), policies=list(policies), **facts))
    cluster.start()
    assert cluster.phase(J) == "Running"
    return cluster


def scale(cluster: FakeCluster, replicas: int, minimum: int | None = None) -> None:
    present = cluster.job(J)
    least = replicas if minimum is None else minimum
    tasks = [replace(present.spec.tasks[0], replicas=replicas, min_available=least)]
    cluster.put(replace(present, spec=replace(present.spec, tasks=tasks, min_available=least)))
    cluster.settle()


def story(cluster: FakeCluster) -> list[str]:
    return [condition.status for condition in cluster.job(J).status.conditions]


class TestBeginning:
    def test_pods_are_made_once_the_group_is_let_in(self) -> None:
        cluster = FakeCluster(job(J, task("main", 2)))
        cluster.settle()
        assert cluster.phase(J) == "Pending"
        assert cluster.names(Pod) == ()
        cluster.enqueue()
        cluster.settle()
        assert cluster.names(Pod) == ("j-main-0", "j-main-1")
        assert cluster.phase(J) == "Pending"
        cluster.run()
        cluster.settle()
        assert cluster.phase(J) == "Running"

    def test_what_a_pod_says_of_itself(self) -> None:
        made = job(
            J,
            task("main", 1),
            queue="research",
            priority_class_name="high",
            annotations={names.PREEMPTABLE: "true"},
        )
        made.spec.tasks[0].template.metadata.annotations[names.SIM_RUN] = "10s"
        cluster = FakeCluster(made)
        cluster.settle()
        cluster.enqueue()
        cluster.settle()
        pod = cluster.pod("ns/j-main-0")
        owner = cluster.job(J)
        assert pod.metadata.owner_references[0].uid == owner.metadata.uid
        assert pod.spec.scheduler_name == "volcano"
        assert pod.spec.priority_class_name == "high"
        about = {
            names.JOB_NAME: "j",
            names.JOB_NAMESPACE: "ns",
            names.JOB_QUEUE: "research",
            names.TASK_SPEC: "main",
            names.TASK_INDEX: "0",
        }
        assert pod.metadata.labels == about
        assert pod.metadata.annotations == {
            **about,
            names.GROUP_NAME: f"j-{owner.metadata.uid}",
            names.JOB_VERSION: "0",
            names.JOB_RETRY_COUNT: "0",
            names.TEMPLATE_UID: f"{owner.metadata.uid}-main",
            names.PREEMPTABLE: "true",
            names.SIM_RUN: "10s",
        }
        assert owner.spec.tasks[0].template.spec.scheduler_name == ""  # the template is not written on

    def test_a_task_waits_for_those_it_depends_on(self) -> None:
        waiting = DependsOn(name=["master", "store"])
        tasks = (task("master", 1), task("store", 3, min_available=2), task("w", 1, depends_on=waiting))
        cluster = FakeCluster(job(J, *tasks))
        cluster.settle()
        cluster.enqueue()
        cluster.settle()
        assert cluster.names(Pod) == ("j-master-0", "j-store-0", "j-store-1", "j-store-2")
        cluster.run("ns/j-master-0")
        cluster.settle()
        assert "j-w-0" not in cluster.names(Pod)
        cluster.run("ns/j-store-1")
        cluster.settle()
        assert "j-w-0" not in cluster.names(Pod)  # one of the two that the store needs at least
        cluster.run("ns/j-store-2")
        cluster.settle()
        assert "j-w-0" in cluster.names(Pod)

    def test_a_dependency_that_leaves_or_is_not_ready_does_not_count(self) -> None:
        cluster = FakeCluster(job(J, task("a", 1), task("b", 1, depends_on=DependsOn(name=["a"]))))
        cluster.settle()
        cluster.enqueue()
        cluster.settle()
        cluster.run()
        starting = cluster.pod("ns/j-a-0")
        status = replace(starting.status, container_statuses=[ContainerStatus(name="main", ready=False)])
        cluster.put(replace(starting, status=status))
        cluster.settle()
        assert cluster.names(Pod) == ("j-a-0",)
        cluster.put(starting)
        cluster.grace = 10.0
        cluster.evict("ns/j-a-0")
        cluster.settle()
        assert cluster.names(Pod) == ("j-a-0",)

    def test_any_of_several_dependencies_may_be_enough(self) -> None:
        waiting = DependsOn(name=["master", "store"], iteration="any")
        cluster = FakeCluster(job(J, task("master", 1), task("store", 1), task("w", 1, depends_on=waiting)))
        cluster.settle()
        cluster.enqueue()
        cluster.settle()
        cluster.run("ns/j-store-0")
        cluster.settle()
        assert "j-w-0" in cluster.names(Pod)

    def test_a_name_that_is_taken_is_waited_for(self) -> None:
        cluster = FakeCluster(bare_pod("ns/j-main-0", cpu=1, node="n1"), job(J, task("main", 1)))
        cluster.settle()
        cluster.enqueue()
        cluster.settle()
        assert cluster.pod("ns/j-main-0").metadata.owner_references == []
        cluster.remove(cluster.pod("ns/j-main-0"))
        cluster.settle()
        assert cluster.pod("ns/j-main-0").metadata.owner_references[0].name == "j"


class TestEnding:
    def test_all_succeed(self) -> None:
        cluster = FakeCluster(job(J, task("main", 3)))
        cluster.settle()
        cluster.advance(30)  # waiting is not running
        cluster.start()
        for index in range(3):
            cluster.finish(f"ns/j-main-{index}")
        cluster.advance(90)
        status = cluster.job(J).status
        assert (status.state.phase, status.succeeded, status.running) == ("Completed", 3, 0)
        assert status.task_status_count["main"].phase == {"Succeeded": 3}
        assert status.running_duration == "1m30s"
        assert story(cluster) == ["Pending", "Running", "Completed"]
        assert cluster.names(PodGroup) == ()
        assert len(cluster.names(Pod)) == 3  # finished pods are the record of the job

    def test_without_a_policy_a_failure_waits_for_the_others(self) -> None:
        cluster = started()
        cluster.finish("ns/j-main-0", exit_code=1)
        cluster.settle()
        assert cluster.phase(J) == "Running"
        cluster.finish("ns/j-main-1")
        cluster.finish("ns/j-main-2")
        cluster.settle()
        assert cluster.phase(J) == "Failed"
        assert "2 of 3 pods of task main succeeded; at least 3 must succeed" in cluster.job(J).status.state.message

    def test_enough_successes_end_the_job_and_the_rest_of_its_pods(self) -> None:
        cluster = started(min_success=1)
        cluster.finish("ns/j-main-1")
        cluster.settle()
        assert cluster.phase(J) == "Completed"
        assert cluster.names(Pod) == ("j-main-1",)

    def test_a_finished_job_is_deleted_when_its_time_is_over(self) -> None:
        cluster = started(replicas=1, ttl_seconds_after_finished=60)
        cluster.finish("ns/j-main-0")
        cluster.advance(10)
        assert cluster.next_due() == 70.0
        cluster.advance(59)
        assert cluster.names(Job) == ("j",)
        cluster.advance(1)
        assert cluster.names(Job) == ()
        assert cluster.names(Pod) == ()
        assert cluster.next_due() is None

    def test_an_aborted_job_is_not_finished(self) -> None:
        cluster = started(ttl_seconds_after_finished=0)
        cluster.command("AbortJob", cluster.job(J))
        cluster.settle()
        assert cluster.phase(J) == "Aborted"
        cluster.advance(3600)
        assert cluster.names(Job) == ("j",)


def fail(cluster: FakeCluster) -> None:
    cluster.finish("ns/j-main-1", exit_code=3)
    cluster.settle()


def evict(cluster: FakeCluster) -> None:
    cluster.evict("ns/j-main-1")
    cluster.settle()


CAUSES = [("PodFailed", fail), ("PodEvicted", evict)]


@pytest.mark.parametrize(("event", "cause"), CAUSES)
class TestPolicies:
    def test_restart_job_starts_everything_anew(self, event: str, cause: Any) -> None:
        cluster = started(policy("RestartJob", event))
        before = {pod.metadata.uid for pod in cluster.list(Pod)}
        (old_group,) = cluster.list(PodGroup)
        cause(cluster)
        status = cluster.job(J).status
        assert (status.state.phase, status.retry_count, status.version) == ("Pending", 1, 1)
        assert cluster.names(Pod) == ()
        (new_group,) = cluster.list(PodGroup)
        assert new_group.metadata.uid != old_group.metadata.uid
        cluster.start()
        assert cluster.phase(J) == "Running"
        assert len(cluster.names(Pod)) == 3
        assert not before & {pod.metadata.uid for pod in cluster.list(Pod)}
        assert cluster.pod("ns/j-main-0").metadata.annotations[names.JOB_RETRY_COUNT] == "1"
        assert story(cluster) == ["Pending", "Running", "Restarting", "Pending", "Running"]

    def test_restart_pod_replaces_just_that_one(self, event: str, cause: Any) -> None:
        cluster = started(policy("RestartPod", event))
        kept = {pod.metadata.uid for pod in cluster.list(Pod) if pod.metadata.name != "j-main-1"}
        (group,) = cluster.list(PodGroup)
        cause(cluster)
        assert cluster.job(J).status.retry_count == 1
        assert cluster.group(f"ns/{group.metadata.name}").metadata.uid == group.metadata.uid
        assert cluster.names(Pod) == ("j-main-0", "j-main-1", "j-main-2")
        assert kept < {pod.metadata.uid for pod in cluster.list(Pod)}
        cluster.run()
        cluster.settle()
        assert cluster.phase(J) == "Running"

    def test_terminate_keeps_only_what_has_finished(self, event: str, cause: Any) -> None:
        cluster = started(policy("TerminateJob", event))
        cause(cluster)
        assert cluster.phase(J) == "Terminated"
        assert cluster.names(Pod) == (("j-main-1",) if event == "PodFailed" else ())
        assert cluster.names(PodGroup) == ()
        assert cluster.job(J).status.state.reason == event

    def test_an_aborted_job_can_be_resumed(self, event: str, cause: Any) -> None:
        cluster = started(policy("AbortJob", event))
        cause(cluster)
        assert cluster.phase(J) == "Aborted"
        cluster.advance(100)
        assert cluster.phase(J) == "Aborted"
        cluster.command("ResumeJob", cluster.job(J))
        cluster.start()
        assert cluster.phase(J) == "Running"
        assert len(cluster.names(Pod)) == 3
        assert cluster.job(J).status.retry_count == 1

    def test_complete(self, event: str, cause: Any) -> None:
        cluster = started(policy("CompleteJob", event))
        cause(cluster)
        assert cluster.phase(J) == "Completed"

    def test_a_policy_for_something_else_does_nothing(self, event: str, cause: Any) -> None:
        other = "PodFailed" if event == "PodEvicted" else "PodEvicted"
        cluster = started(policy("AbortJob", other))
        cause(cluster)
        assert cluster.phase(J) != "Aborted"
        assert len(cluster.names(Pod)) == 3  # an evicted pod's place is filled again in any case


class TestRetries:
    def test_the_last_retry_fails_the_job_and_keeps_the_evidence(self) -> None:
        cluster = started(policy("RestartJob", "PodFailed"), max_retry=2)
        fail(cluster)
        assert cluster.names(Pod) == ()
        cluster.start()
        fail(cluster)
        status = cluster.job(J).status
        assert (status.state.phase, status.retry_count) == ("Failed", 2)
        assert cluster.names(Pod) == ("j-main-1",)
        assert status.failed == 1
        assert status.state.message == "No retries left: this would be restart 2, and maxRetry is 2."

    def test_what_happens_at_once_costs_one_retry(self) -> None:
        cluster = started(policy("RestartPod", "PodFailed", "PodEvicted"))
        cluster.finish("ns/j-main-0", exit_code=1)
        cluster.finish("ns/j-main-2", exit_code=1)
        cluster.settle()
        assert cluster.job(J).status.retry_count == 1
        assert {pod.status.phase for pod in cluster.list(Pod)} == {"Pending", "Running"}

    def test_a_deletion_that_the_server_did_not_finish_is_asked_for_again(self) -> None:
        """The pods have no time left, and nobody else is to remove them."""
        cluster = started(policy("RestartJob", "PodFailed"))
        cluster.grace = 1000.0
        fail(cluster)
        cluster.grace = 0.0
        for pod in cluster.list(Pod):
            stamp = format_timestamp(cluster.now)
            cut_off = replace(pod.metadata, deletion_timestamp=stamp, deletion_grace_period_seconds=0)
            cluster.put(replace(pod, metadata=cut_off))
        assert cluster.settle() == []
        assert cluster.next_due() == cluster.now + 5
        cluster.restart()
        again = [change.object.metadata.name for change in cluster.advance(5) if isinstance(change, Delete)]
        assert again[:2] == ["j-main-0", "j-main-2"]
        assert cluster.phase(J) == "Pending"

    def test_pods_with_finalizers_are_left_to_those(self) -> None:
        cluster = started(policy("RestartJob", "PodFailed"))
        cluster.grace = 1000.0
        fail(cluster)
        for pod in cluster.list(Pod):
            stamp = format_timestamp(cluster.now)
            kept = replace(
                pod.metadata, deletion_timestamp=stamp, deletion_grace_period_seconds=0, finalizers=["somebody/cares"]
            )
            cluster.put(replace(pod, metadata=kept))
        assert cluster.advance(60) == []

    def test_old_pods_on_their_way_out_hold_a_restart_up(self) -> None:
        cluster = started(policy("RestartJob", "PodFailed"))
        cluster.grace = 10.0
        fail(cluster)
        assert cluster.phase(J) == "Restarting"
        assert cluster.job(J).status.terminating == 2  # the failed one is gone at once
        cluster.advance(10)
        assert cluster.phase(J) == "Pending"
        cluster.start()
        assert (cluster.phase(J), len(cluster.names(Pod))) == ("Running", 3)
        assert cluster.job(J).status.retry_count == 1  # pods that the job killed were not evicted

    def test_whoever_has_the_name_of_a_pod_is_complained_of_once(self) -> None:
        cluster = FakeCluster(bare_pod("ns/j-main-1", node="n1"), job(J, task("main", 2)))
        cluster.start()
        cluster.settle()
        complaints = [notice.message for notice in cluster.notices if notice.reason == "FailedCreate"]
        assert complaints == [
            "Pod j-main-1 cannot be created: another pod has that name. Delete it, or give the job another name."
        ]
        cluster.remove(cluster.pod("ns/j-main-1"))
        cluster.start()
        assert cluster.phase(J) == "Running"

    def test_a_version_that_nobody_could_have_written_says_nothing(self) -> None:
        """More digits than Python reads, on a pod that anybody may create."""
        cluster = started()
        stranger = replace(cluster.pod("ns/j-main-0"), status=PodStatus(phase="Running"))
        annotations = {**stranger.metadata.annotations, names.JOB_VERSION: "9" * 5000}
        cluster.add(replace(stranger, metadata=replace(stranger.metadata, name="j-main-7", annotations=annotations)))
        cluster.settle()
        assert cluster.phase(J) == "Running"
        assert cluster.names(Pod) == ("j-main-0", "j-main-1", "j-main-2")  # there is no place 7


class TestMorePolicies:
    def test_exit_codes(self) -> None:
        cluster = started(policy("RestartJob", exit_code=4), policy("TerminateJob", exit_code=3))
        fail(cluster)
        assert cluster.phase(J) == "Terminated"
        assert "exit code 3" in cluster.job(J).status.state.message

    def test_a_completed_task_may_complete_the_job(self) -> None:
        done = policy("CompleteJob", "TaskCompleted")
        cluster = FakeCluster(job(J, task("master", 1, policies=[done]), task("worker", 2)))
        cluster.start()
        cluster.finish("ns/j-worker-0")
        cluster.settle()
        assert cluster.phase(J) == "Running"
        cluster.finish("ns/j-master-0")
        cluster.settle()
        assert cluster.phase(J) == "Completed"
        assert cluster.names(Pod) == ("j-master-0", "j-worker-0")

    def test_a_task_whose_containers_keep_restarting_has_failed(self) -> None:
        cluster = started(policy("AbortJob", "TaskFailed"))
        for restarts, phase in ((2, "Running"), (3, "Aborted")):  # the third is one too many
            pod = cluster.pod("ns/j-main-0")
            counted = [ContainerStatus(name="main", ready=True, restart_count=restarts)]
            cluster.put(replace(pod, status=replace(pod.status, container_statuses=counted)))
            cluster.settle()
            assert cluster.phase(J) == phase

    def test_pods_that_the_job_itself_kills_were_not_evicted(self) -> None:
        again, gone = policy("RestartTask", "PodFailed"), policy("AbortJob", "PodEvicted")
        cluster = started(again, gone)
        fail(cluster)
        cluster.run()
        cluster.settle()
        assert (cluster.phase(J), cluster.job(J).status.retry_count) == ("Running", 1)

    def test_the_first_pod_by_number_is_the_one_that_is_named(self) -> None:
        cluster = started(policy("AbortJob", "PodFailed"), replicas=11)
        for index in (10, 2):  # "10" comes before "2" in the order of names
            cluster.finish(f"ns/j-main-{index}", exit_code=1)
        cluster.settle()
        assert "Pod j-main-2 failed" in cluster.job(J).status.state.message

    def test_a_group_in_an_unknown_state(self) -> None:
        cluster = started(policy("RestartJob", "Unknown"))
        (group,) = cluster.list(PodGroup)
        cluster.put(replace(group, status=replace(group.status, phase="Unknown")))
        cluster.settle()
        assert cluster.job(J).status.retry_count == 1
        assert next(iter(cluster.list(PodGroup))).status.phase == "Pending"

    def test_restart_task_leaves_other_tasks_running(self) -> None:
        again = policy("RestartTask", "PodFailed")
        cluster = FakeCluster(job(J, task("a", 2, policies=[again]), task("b", 1)))
        cluster.start()
        b = cluster.pod("ns/j-b-0").metadata.uid
        healthy = cluster.pod("ns/j-a-1").metadata.uid
        cluster.finish("ns/j-a-0", exit_code=1)
        cluster.settle()
        assert cluster.pod("ns/j-b-0").metadata.uid == b
        assert cluster.pod("ns/j-a-1").metadata.uid != healthy

    def test_restart_partition_takes_the_neighbours_along(self) -> None:
        # Partitions of two: {0, 1} and {2, 3}.
        parts = PartitionPolicy(total_partitions=2, partition_size=2)
        again = policy("RestartPartition", "PodFailed")
        cluster = FakeCluster(job(J, task("main", 4, partition_policy=parts, policies=[again])))
        cluster.start()
        before = {pod.metadata.name: pod.metadata.uid for pod in cluster.list(Pod)}
        cluster.finish("ns/j-main-3", exit_code=1)
        cluster.settle()
        kept = [p.metadata.name for p in cluster.list(Pod) if before[p.metadata.name] == p.metadata.uid]
        assert kept == ["j-main-0", "j-main-1"]

    def test_without_partitions_a_pod_is_its_own(self) -> None:
        cluster = started(policy("RestartPartition", "PodFailed"))
        before = {pod.metadata.uid for pod in cluster.list(Pod)}
        fail(cluster)
        assert len(before & {pod.metadata.uid for pod in cluster.list(Pod)}) == 2

    def test_an_action_without_a_target_does_nothing(self) -> None:
        """A task completes as a whole: there is no pod to restart. The next policy that makes sense is taken."""
        senseless = policy("RestartPod", "TaskCompleted")
        cluster = FakeCluster(
            job(J, task("a", 1, policies=[senseless]), task("b", 1), policies=[policy("AbortJob", "PodFailed")])
        )
        cluster.start()
        cluster.finish("ns/j-a-0")
        cluster.settle()
        assert (cluster.phase(J), cluster.job(J).status.retry_count) == ("Running", 0)
        cluster.finish("ns/j-b-0", exit_code=1)
        cluster.settle()
        assert cluster.phase(J) == "Aborted"

    def test_a_pod_that_fails_while_it_is_made_to_leave_has_not_failed(self) -> None:
        """Told to stop, most programs end with an error. Nobody should be restarted for that."""
        cluster = started(policy("AbortJob", "PodFailed"))
        cluster.grace = 10.0
        cluster.evict("ns/j-main-0")
        cluster.finish("ns/j-main-0", exit_code=143)
        cluster.settle()
        assert cluster.phase(J) != "Aborted"

    def test_a_pod_that_a_node_threw_out_was_evicted_or_else_has_failed(self) -> None:
        for event in ("PodEvicted", "PodFailed"):
            cluster = started(policy("AbortJob", event))
            pod = cluster.pod("ns/j-main-0")
            cluster.put(replace(pod, status=replace(pod.status, phase="Failed", reason="Evicted")))
            cluster.settle()
            assert (cluster.phase(J), cluster.job(J).status.state.reason) == ("Aborted", event)

    def test_a_pod_that_its_user_deleted_counts_as_evicted(self) -> None:
        cluster = started(policy("AbortJob", "PodEvicted"))
        cluster.remove(cluster.pod("ns/j-main-0"))
        cluster.settle()
        assert cluster.phase(J) == "Aborted"


class TestPatience:
    def test_a_pod_that_is_pending_for_too_long(self) -> None:
        cluster = FakeCluster(job(J, task("main", 2), policies=[policy("AbortJob", "PodPending", timeout="60s")]))
        cluster.settle()
        cluster.advance(100)  # without pods nothing is pending
        cluster.enqueue()
        cluster.settle()
        assert cluster.next_due() == 160.0
        cluster.run("ns/j-main-0")
        cluster.advance(59)
        assert cluster.phase(J) == "Pending"
        cluster.advance(1)
        assert cluster.phase(J) == "Aborted"

    def test_a_pod_that_starts_in_time(self) -> None:
        cluster = FakeCluster(job(J, task("main", 1), policies=[policy("AbortJob", "PodPending", timeout="60s")]))
        cluster.settle()
        cluster.enqueue()
        cluster.settle()
        cluster.advance(59)
        cluster.run()
        cluster.settle()
        assert cluster.next_due() is None
        cluster.advance(100)
        assert cluster.phase(J) == "Running"

    def test_an_evicted_pod_has_time_to_come_back(self) -> None:
        for back_after, phase in ((9.0, "Running"), (10.0, "Aborted")):
            cluster = started(policy("AbortJob", "PodEvicted", timeout="10s"))
            evict(cluster)
            assert cluster.next_due() == 10.0
            cluster.advance(back_after)
            cluster.run()
            cluster.settle()
            cluster.advance(60)
            assert cluster.phase(J) == phase

    def test_a_failure_that_lasts(self) -> None:
        cluster = started(policy("RestartJob", "PodFailed", timeout="10s"))
        cluster.now = 5.0
        fail(cluster)
        assert cluster.next_due() == 15.0
        cluster.advance(9)
        assert cluster.job(J).status.retry_count == 0
        cluster.advance(1)
        assert cluster.job(J).status.retry_count == 1

    def test_a_job_that_acts_otherwise_starts_counting_afresh(self) -> None:
        cluster = started(policy("AbortJob", "PodEvicted", timeout="10s"), policy("RestartJob", "PodFailed"))
        evict(cluster)
        cluster.advance(5)
        cluster.finish("ns/j-main-0", exit_code=1)
        cluster.settle()
        assert cluster.job(J).status.retry_count == 1
        assert cluster.next_due() is None
        cluster.start()
        cluster.advance(60)
        assert cluster.phase(J) == "Running"

    def test_a_delay_that_was_running_is_forgotten_when_the_job_acts(self) -> None:
        # The failure of a-0 is seen at 0 and would be answered at 10; at 6 the job restarts it for another reason.
        # Failing once more at 8, it has until 18.
        slow = policy("AbortJob", "PodFailed", timeout="10s")
        again = policy("RestartTask", "TaskCompleted")
        cluster = FakeCluster(
            job(J, task("a", 1, policies=[slow]), task("b", 1, policies=[again]), min_available=1, max_retry=9)
        )
        cluster.start()
        cluster.finish("ns/j-a-0", exit_code=1)
        cluster.settle()
        assert cluster.next_due() == 10.0
        cluster.advance(6)
        cluster.finish("ns/j-b-0")
        cluster.settle()
        assert cluster.job(J).status.retry_count == 1
        assert cluster.next_due() == 16.0  # a-0 is still failed, but its time is counted afresh

    def test_an_eviction_during_a_restart_is_answered_after_it(self) -> None:
        cluster = started(policy("RestartPod", "PodFailed"), policy("AbortJob", "PodEvicted"), replicas=4)
        cluster.grace = 5.0
        scale(cluster, 3)
        cluster.finish("ns/j-main-1", exit_code=1)
        cluster.settle()
        assert cluster.phase(J) == "Restarting"  # 3 - 1 < 3: the leaving pod is in the way
        cluster.grace = 0.0
        cluster.evict("ns/j-main-0")
        cluster.settle()
        assert cluster.phase(J) == "Restarting"
        cluster.advance(5)
        assert cluster.phase(J) == "Aborted"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("j-main-0", ("main", 0)),
        ("j-a-b-12", ("a-b", 12)),
        ("j-main", None),
        ("j-main-", None),
        ("j--1", None),
        ("j-1", None),
        ("k-main-0", None),
        ("j-main-x", None),
        ("j-main-٣", None),
    ],
)
def test_a_name_says_which_place_a_pod_has(name: str, place: tuple[str, int] | None) -> None:
    assert parse_pod_name(job(J), name) == place


class TestScaling:
    def test_up(self) -> None:
        cluster = started()
        scale(cluster, 5, 3)
        assert cluster.names(Pod) == tuple(f"j-main-{index}" for index in range(5))
        assert cluster.phase(J) == "Running"

    def test_down_is_no_eviction(self) -> None:
        cluster = started(policy("AbortJob", "PodEvicted"))
        scale(cluster, 1)
        assert cluster.names(Pod) == ("j-main-0",)
        assert cluster.phase(J) == "Running"

    def test_to_zero_and_back(self) -> None:
        cluster = started()
        scale(cluster, 0)
        assert (cluster.names(Pod), cluster.phase(J)) == ((), "Running")
        scale(cluster, 2)
        assert len(cluster.names(Pod)) == 2

    def test_down_past_the_pods_that_have_not_finished(self) -> None:
        cluster = started()
        cluster.finish("ns/j-main-0")
        cluster.settle()
        scale(cluster, 1)
        assert cluster.phase(J) == "Completed"


def test_a_pod_is_told_why_it_must_go() -> None:
    def reasons(changes: list[Change]) -> set[str]:
        return {change.reason for change in changes if isinstance(change, Delete) and isinstance(change.object, Pod)}

    for action, reason in (
        ("RestartJob", "its Job was restarted"),
        ("RestartPod", "its Job restarts it"),
        ("AbortJob", "its Job is Aborting"),
    ):
        cluster = started(policy(action, "PodFailed"))
        cluster.finish("ns/j-main-1", exit_code=1)
        assert reasons(cluster.settle()) == {reason}
    cluster = started()
    scaled = cluster.job(J)
    tasks = [replace(scaled.spec.tasks[0], replicas=1, min_available=1)]
    cluster.put(replace(scaled, spec=replace(scaled.spec, tasks=tasks, min_available=1)))
    assert reasons(cluster.settle()) == {"its Job was scaled down"}


def test_what_a_job_does_is_announced() -> None:
    cluster = started(policy("RestartJob", "PodFailed"))
    fail(cluster)
    assert cluster.notices[-1].message == "Pod j-main-1 failed with exit code 3: RestartJob."


class TestCommands:
    @pytest.mark.parametrize(
        ("action", "ends_as"),
        [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")],
    )
    def test_end(self, action: str, ends_as: str) -> None:
        cluster = started()
        cluster.grace = 5.0
        cluster.command(action, cluster.job(J))
        cluster.settle()
        assert cluster.phase(J) == ends_as.removesuffix("ed") + "ing"
        cluster.advance(5)
        assert cluster.phase(J) == ends_as
        assert cluster.job(J).status.version == 1

    def test_restart(self) -> None:
        cluster = started()
        cluster.command("RestartJob", cluster.job(J))
        cluster.start()
        assert (cluster.phase(J), cluster.job(J).status.retry_count) == ("Running", 1)

    def test_the_job_says_why(self) -> None:
        for said, reason, message in (
            ({}, "CommandIssued", "A command was issued"),
            ({"reason": "Budget"}, "Budget", "Budget"),
            ({"reason": "Budget", "message": "The month is over"}, "Budget", "The month is over"),
        ):
            cluster = started()
            order = cluster.command("AbortJob", cluster.job(J))
            cluster.put(replace(order, **said))
            cluster.settle()
            state = cluster.job(J).status.state
            assert (state.reason, state.message) == (reason, message)

    @pytest.mark.parametrize("action", ["ResumeJob", "RestartPod", "OpenQueue"])
    def test_what_makes_no_sense_is_refused_aloud(self, action: str) -> None:
        cluster = started()
        cluster.command(action, cluster.job(J))
        cluster.settle()
        assert cluster.phase(J) == "Running"
        assert cluster.notices[-1].message == f"The action {action} is not possible while the job is Running."

    def test_a_command_for_an_earlier_job_of_that_name_does_nothing(self) -> None:
        cluster = started()
        old = replace(cluster.job(J), metadata=replace(cluster.job(J).metadata, uid="earlier"))
        cluster.command("AbortJob", old)
        cluster.settle()
        assert cluster.phase(J) == "Running"


class TestMemory:
    def test_pods_of_an_earlier_job_of_that_name_are_not_its_own(self) -> None:
        cluster = started(policy("AbortJob", "PodEvicted"))
        cluster.grace = 10.0
        cluster.remove(cluster.job(J))
        cluster.settle()
        cluster.add(job(J, task("main", 3), policies=[policy("AbortJob", "PodEvicted")]))
        cluster.settle()
        cluster.enqueue()
        cluster.settle()
        assert cluster.job(J).status.terminating == 0
        assert all(pod.metadata.deletion_timestamp for pod in cluster.list(Pod))
        cluster.advance(10)
        assert cluster.phase(J) == "Pending"
        assert len(cluster.names(Pod)) == 3

    @pytest.mark.parametrize("action", ["RestartJob", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob"])
    def test_a_restart_of_the_controller_changes_nothing(self, action: str) -> None:
        """The controller is replaced after every single pass; the job arrives where it would have anyhow."""
        ends = []
        for forgetful in (False, True):
            cluster = started(policy(action, "PodFailed"))
            cluster.grace = 2.0
            cluster.finish("ns/j-main-1", exit_code=1)
            for _ in range(6):
                if forgetful:
                    cluster.restart()
                cluster.enqueue()
                cluster.run()
                cluster.advance(1)
            status = cluster.job(J).status
            ends.append((story(cluster), status.retry_count, status.version, cluster.names(Pod)))
        assert ends[0] == ends[1]

    def test_a_job_at_rest_is_not_looked_at_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster = started(replicas=1, ttl_seconds_after_finished=60)
        looks: list[str] = []

        def watched(job: Job, phase: str, *facts: Any, **more: Any) -> Any:
            looks.append(phase)
            return next_phase(job, phase, *facts, **more)

        monkeypatch.setattr("stromboli.controllers.job.job_controller.next_phase", watched)
        cluster.settle()  # which visits everything once more at its end
        cluster.pass_once()
        looks.clear()
        assert cluster.pass_once() == []
        assert looks == []
        cluster.finish("ns/j-main-0")
        cluster.settle()
        assert looks != []
        cluster.now += 59
        cluster.pass_once()
        looks.clear()
        assert cluster.pass_once() == []
        assert looks == []
        cluster.advance(1)
        assert cluster.names(Job) == ()
