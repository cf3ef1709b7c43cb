"""Jobs from beginning to end, in a world that does what their controller asks for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from building import pod as bare_pod
from controllers.world import World, job, policy, task
from stromboli.api import ContainerStatus, DependsOn, Job, PartitionPolicy, Pod, PodGroup, PodStatus, names
from stromboli.controllers import Change, Delete
from stromboli.controllers.job.pods import place_of
from stromboli.controllers.job.state_machine import synchronise

J = "ns/j"


def started(*policies: Any, replicas: int = 3, **facts: Any) -> World:
    """A job with one task of three pods, all of them running."""
    facts.setdefault("ttl_seconds_after_finished", None)
    world = World(job(J, task("main", replicas), policies=list(policies), **facts))
    world.start()
    assert world.phase(J) == "Running"
    return world


def scale(world: World, replicas: int, minimum: int | None = None) -> None:
    present = world.job(J)
    least = replicas if minimum is None else minimum
    tasks = [replace(present.spec.tasks[0], replicas=replicas, min_available=least)]
    world.put(replace(present, spec=replace(present.spec, tasks=tasks, min_available=least)))
    world.settle()


def story(world: World) -> list[str]:
    return [condition.status for condition in world.job(J).status.conditions]


class TestBeginning:
    def test_pods_are_made_once_the_group_is_let_in(self) -> None:
        world = World(job(J, task("main", 2)))
        world.settle()
        assert world.phase(J) == "Pending"
        assert world.names(Pod) == ()
        world.enqueue()
        world.settle()
        assert world.names(Pod) == ("j-main-0", "j-main-1")
        assert world.phase(J) == "Pending"
        world.run()
        world.settle()
        assert world.phase(J) == "Running"

    def test_what_a_pod_says_of_itself(self) -> None:
        made = job(
            J,
            task("main", 1),
            queue="research",
            priority_class_name="high",
            annotations={names.PREEMPTABLE: "true"},
        )
        made.spec.tasks[0].template.metadata.annotations[names.SIM_RUN] = "10s"
        world = World(made)
        world.settle()
        world.enqueue()
        world.settle()
        pod = world.pod("ns/j-main-0")
        owner = world.job(J)
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
        world = World(job(J, task("master", 1), task("store", 3, min_available=2), task("w", 1, depends_on=waiting)))
        world.settle()
        world.enqueue()
        world.settle()
        assert world.names(Pod) == ("j-master-0", "j-store-0", "j-store-1", "j-store-2")
        world.run("ns/j-master-0")
        world.settle()
        assert "j-w-0" not in world.names(Pod)
        world.run("ns/j-store-1")
        world.settle()
        assert "j-w-0" not in world.names(Pod)  # one of the two that the store needs at least
        world.run("ns/j-store-2")
        world.settle()
        assert "j-w-0" in world.names(Pod)

    def test_a_dependency_that_leaves_or_is_not_ready_does_not_count(self) -> None:
        world = World(job(J, task("a", 1), task("b", 1, depends_on=DependsOn(name=["a"]))))
        world.settle()
        world.enqueue()
        world.settle()
        world.run()
        starting = world.pod("ns/j-a-0")
        status = replace(starting.status, container_statuses=[ContainerStatus(name="main", ready=False)])
        world.put(replace(starting, status=status))
        world.settle()
        assert world.names(Pod) == ("j-a-0",)
        world.put(starting)
        world.grace = 10.0
        world.evict("ns/j-a-0")
        world.settle()
        assert world.names(Pod) == ("j-a-0",)

    def test_any_of_several_dependencies_may_be_enough(self) -> None:
        waiting = DependsOn(name=["master", "store"], iteration="any")
        world = World(job(J, task("master", 1), task("store", 1), task("w", 1, depends_on=waiting)))
        world.settle()
        world.enqueue()
        world.settle()
        world.run("ns/j-store-0")
        world.settle()
        assert "j-w-0" in world.names(Pod)

    def test_a_name_that_is_taken_is_waited_for(self) -> None:
        world = World(bare_pod("ns/j-main-0", cpu=1, node="n1"), job(J, task("main", 1)))
        world.settle()
        world.enqueue()
        world.settle()
        assert world.pod("ns/j-main-0").metadata.owner_references == []
        world.remove(world.pod("ns/j-main-0"))
        world.settle()
        assert world.pod("ns/j-main-0").metadata.owner_references[0].name == "j"


class TestEnding:
    def test_all_succeed(self) -> None:
        world = World(job(J, task("main", 3)))
        world.settle()
        world.advance(30)  # waiting is not running
        world.start()
        for index in range(3):
            world.finish(f"ns/j-main-{index}")
        world.advance(90)
        status = world.job(J).status
        assert (status.state.phase, status.succeeded, status.running) == ("Completed", 3, 0)
        assert status.task_status_count["main"].phase == {"Succeeded": 3}
        assert status.running_duration == "1m30s"
        assert story(world) == ["Pending", "Running", "Completed"]
        assert world.names(PodGroup) == ()
        assert len(world.names(Pod)) == 3  # finished pods are the record of the job

    def test_without_a_policy_a_failure_waits_for_the_others(self) -> None:
        world = started()
        world.finish("ns/j-main-0", exit_code=1)
        world.settle()
        assert world.phase(J) == "Running"
        world.finish("ns/j-main-1")
        world.finish("ns/j-main-2")
        world.settle()
        assert world.phase(J) == "Failed"
        assert "2 of 3 pods of task main succeeded; 3 had to" in world.job(J).status.state.message

    def test_enough_successes_end_the_job_and_the_rest_of_its_pods(self) -> None:
        world = started(min_success=1)
        world.finish("ns/j-main-1")
        world.settle()
        assert world.phase(J) == "Completed"
        assert world.names(Pod) == ("j-main-1",)

    def test_a_finished_job_is_deleted_when_its_time_is_over(self) -> None:
        world = started(replicas=1, ttl_seconds_after_finished=60)
        world.finish("ns/j-main-0")
        world.advance(10)
        assert world.next_due() == 70.0
        world.advance(59)
        assert world.names(Job) == ("j",)
        world.advance(1)
        assert world.names(Job) == ()
        assert world.names(Pod) == ()
        assert world.next_due() is None

    def test_an_aborted_job_is_not_finished(self) -> None:
        world = started(ttl_seconds_after_finished=0)
        world.command("AbortJob", world.job(J))
        world.settle()
        assert world.phase(J) == "Aborted"
        world.advance(3600)
        assert world.names(Job) == ("j",)


def fail(world: World) -> None:
    world.finish("ns/j-main-1", exit_code=3)
    world.settle()


def evict(world: World) -> None:
    world.evict("ns/j-main-1")
    world.settle()


CAUSES = [("PodFailed", fail), ("PodEvicted", evict)]


@pytest.mark.parametrize(("event", "cause"), CAUSES)
class TestPolicies:
    def test_restart_job_starts_everything_anew(self, event: str, cause: Any) -> None:
        world = started(policy("RestartJob", event))
        before = {pod.metadata.uid for pod in world.list(Pod)}
        (old_group,) = world.list(PodGroup)
        cause(world)
        status = world.job(J).status
        assert (status.state.phase, status.retry_count, status.version) == ("Pending", 1, 1)
        assert world.names(Pod) == ()
        (new_group,) = world.list(PodGroup)
        assert new_group.metadata.uid != old_group.metadata.uid
        world.start()
        assert world.phase(J) == "Running"
        assert len(world.names(Pod)) == 3
        assert not before & {pod.metadata.uid for pod in world.list(Pod)}
        assert world.pod("ns/j-main-0").metadata.annotations[names.JOB_RETRY_COUNT] == "1"
        assert story(world) == ["Pending", "Running", "Restarting", "Pending", "Running"]

    def test_restart_pod_replaces_just_that_one(self, event: str, cause: Any) -> None:
        world = started(policy("RestartPod", event))
        kept = {pod.metadata.uid for pod in world.list(Pod) if pod.metadata.name != "j-main-1"}
        (group,) = world.list(PodGroup)
        cause(world)
        assert world.job(J).status.retry_count == 1
        assert world.group(f"ns/{group.metadata.name}").metadata.uid == group.metadata.uid
        assert world.names(Pod) == ("j-main-0", "j-main-1", "j-main-2")
        assert kept < {pod.metadata.uid for pod in world.list(Pod)}
        world.run()
        world.settle()
        assert world.phase(J) == "Running"

    def test_terminate_keeps_only_what_has_finished(self, event: str, cause: Any) -> None:
        world = started(policy("TerminateJob", event))
        cause(world)
        assert world.phase(J) == "Terminated"
        assert world.names(Pod) == (("j-main-1",) if event == "PodFailed" else ())
        assert world.names(PodGroup) == ()
        assert world.job(J).status.state.reason == event

    def test_an_aborted_job_can_be_resumed(self, event: str, cause: Any) -> None:
        world = started(policy("AbortJob", event))
        cause(world)
        assert world.phase(J) == "Aborted"
        world.advance(100)
        assert world.phase(J) == "Aborted"
        world.command("ResumeJob", world.job(J))
        world.start()
        assert world.phase(J) == "Running"
        assert len(world.names(Pod)) == 3
        assert world.job(J).status.retry_count == 1

    def test_complete(self, event: str, cause: Any) -> None:
        world = started(policy("CompleteJob", event))
        cause(world)
        assert world.phase(J) == "Completed"

    def test_a_policy_for_something_else_does_nothing(self, event: str, cause: Any) -> None:
        other = "PodFailed" if event == "PodEvicted" else "PodEvicted"
        world = started(policy("AbortJob", other))
        cause(world)
        assert world.phase(J) != "Aborted"
        assert len(world.names(Pod)) == 3  # an evicted pod's place is filled again in any case


class TestRetries:
    def test_the_last_retry_fails_the_job_and_keeps_the_evidence(self) -> None:
        world = started(policy("RestartJob", "PodFailed"), max_retry=2)
        fail(world)
        assert world.names(Pod) == ()
        world.start()
        fail(world)
        status = world.job(J).status
        assert (status.state.phase, status.retry_count) == ("Failed", 2)
        assert world.names(Pod) == ("j-main-1",)
        assert status.failed == 1
        assert status.state.message == "No retry is left: this would be restart 2, and maxRetry is 2."

    def test_what_happens_at_once_costs_one_retry(self) -> None:
        world = started(policy("RestartPod", "PodFailed", "PodEvicted"))
        world.finish("ns/j-main-0", exit_code=1)
        world.finish("ns/j-main-2", exit_code=1)
        world.settle()
        assert world.job(J).status.retry_count == 1
        assert {pod.status.phase for pod in world.list(Pod)} == {"Pending", "Running"}

    def test_old_pods_on_their_way_out_hold_a_restart_up(self) -> None:
        world = started(policy("RestartJob", "PodFailed"))
        world.grace = 10.0
        fail(world)
        assert world.phase(J) == "Restarting"
        assert world.job(J).status.terminating == 2  # the failed one is gone at once
        world.advance(10)
        assert world.phase(J) == "Pending"
        world.start()
        assert (world.phase(J), len(world.names(Pod))) == ("Running", 3)
        assert world.job(J).status.retry_count == 1  # pods that the job killed were not evicted


    def test_whoever_has_the_name_of_a_pod_is_complained_of_once(self) -> None:
        world = World(bare_pod("ns/j-main-1", node="n1"), job(J, task("main", 2)))
        world.start()
        world.settle()
        complaints = [notice.message for notice in world.notices if notice.reason == "FailedCreate"]
        assert complaints == [
            "Pod j-main-1 cannot be created: another pod has that name. Delete it, or give the job another name."
        ]
        world.remove(world.pod("ns/j-main-1"))
        world.start()
        assert world.phase(J) == "Running"

    def test_a_version_that_nobody_could_have_written_says_nothing(self) -> None:
        """More digits than Python reads, on a pod that anybody may create."""
        world = started()
        stranger = replace(world.pod("ns/j-main-0"), status=PodStatus(phase="Running"))
        annotations = {**stranger.metadata.annotations, names.JOB_VERSION: "9" * 5000}
        world.add(replace(stranger, metadata=replace(stranger.metadata, name="j-main-7", annotations=annotations)))
        world.settle()
        assert world.phase(J) == "Running"
        assert world.names(Pod) == ("j-main-0", "j-main-1", "j-main-2")  # there is no place 7


class TestMorePolicies:
    def test_exit_codes(self) -> None:
        world = started(policy("RestartJob", exit_code=4), policy("TerminateJob", exit_code=3))
        fail(world)
        assert world.phase(J) == "Terminated"
        assert "exit code 3" in world.job(J).status.state.message

    def test_a_completed_task_may_complete_the_job(self) -> None:
        done = policy("CompleteJob", "TaskCompleted")
        world = World(job(J, task("master", 1, policies=[done]), task("worker", 2)))
        world.start()
        world.finish("ns/j-worker-0")
        world.settle()
        assert world.phase(J) == "Running"
        world.finish("ns/j-master-0")
        world.settle()
        assert world.phase(J) == "Completed"
        assert world.names(Pod) == ("j-master-0", "j-worker-0")

    def test_a_task_whose_containers_keep_restarting_has_failed(self) -> None:
        world = started(policy("AbortJob", "TaskFailed"))
        for restarts, phase in ((3, "Running"), (4, "Aborted")):  # three are allowed
            pod = world.pod("ns/j-main-0")
            counted = [ContainerStatus(name="main", ready=True, restart_count=restarts)]
            world.put(replace(pod, status=replace(pod.status, container_statuses=counted)))
            world.settle()
            assert world.phase(J) == phase

    def test_pods_that_the_job_itself_kills_were_not_evicted(self) -> None:
        again, gone = policy("RestartTask", "PodFailed"), policy("AbortJob", "PodEvicted")
        world = started(again, gone)
        fail(world)
        world.run()
        world.settle()
        assert (world.phase(J), world.job(J).status.retry_count) == ("Running", 1)

    def test_the_first_pod_by_number_is_the_one_that_is_named(self) -> None:
        world = started(policy("AbortJob", "PodFailed"), replicas=11)
        for index in (10, 2):  # "10" comes before "2" in the order of names
            world.finish(f"ns/j-main-{index}", exit_code=1)
        world.settle()
        assert "Pod j-main-2 failed" in world.job(J).status.state.message

    def test_a_group_in_an_unknown_state(self) -> None:
        world = started(policy("RestartJob", "Unknown"))
        (group,) = world.list(PodGroup)
        world.put(replace(group, status=replace(group.status, phase="Unknown")))
        world.settle()
        assert world.job(J).status.retry_count == 1
        assert next(iter(world.list(PodGroup))).status.phase == "Pending"

    def test_restart_task_leaves_other_tasks_running(self) -> None:
        again = policy("RestartTask", "PodFailed")
        world = World(job(J, task("a", 2, policies=[again]), task("b", 1)))
        world.start()
        b = world.pod("ns/j-b-0").metadata.uid
        healthy = world.pod("ns/j-a-1").metadata.uid
        world.finish("ns/j-a-0", exit_code=1)
        world.settle()
        assert world.pod("ns/j-b-0").metadata.uid == b
        assert world.pod("ns/j-a-1").metadata.uid != healthy

    def test_restart_partition_takes_the_neighbours_along(self) -> None:
        # Partitions of two: {0, 1} and {2, 3}.
        parts = PartitionPolicy(total_partitions=2, partition_size=2)
        again = policy("RestartPartition", "PodFailed")
        world = World(job(J, task("main", 4, partition_policy=parts, policies=[again])))
        world.start()
        before = {pod.metadata.name: pod.metadata.uid for pod in world.list(Pod)}
        world.finish("ns/j-main-3", exit_code=1)
        world.settle()
        kept = [p.metadata.name for p in world.list(Pod) if before[p.metadata.name] == p.metadata.uid]
        assert kept == ["j-main-0", "j-main-1"]

    def test_without_partitions_a_pod_is_its_own(self) -> None:
        world = started(policy("RestartPartition", "PodFailed"))
        before = {pod.metadata.uid for pod in world.list(Pod)}
        fail(world)
        assert len(before & {pod.metadata.uid for pod in world.list(Pod)}) == 2

    def test_an_action_without_a_target_does_nothing(self) -> None:
        """A task completes as a whole: there is no pod to restart. The next policy that makes sense is taken."""
        senseless = policy("RestartPod", "TaskCompleted")
        world = World(
            job(J, task("a", 1, policies=[senseless]), task("b", 1), policies=[policy("AbortJob", "PodFailed")])
        )
        world.start()
        world.finish("ns/j-a-0")
        world.settle()
        assert (world.phase(J), world.job(J).status.retry_count) == ("Running", 0)
        world.finish("ns/j-b-0", exit_code=1)
        world.settle()
        assert world.phase(J) == "Aborted"

    def test_a_pod_that_fails_while_it_is_made_to_leave_has_not_failed(self) -> None:
        """Told to stop, most programs end with an error. Nobody should be restarted for that."""
        world = started(policy("AbortJob", "PodFailed"))
        world.grace = 10.0
        world.evict("ns/j-main-0")
        world.finish("ns/j-main-0", exit_code=143)
        world.settle()
        assert world.phase(J) != "Aborted"

    def test_a_pod_that_a_node_threw_out_was_evicted_or_else_has_failed(self) -> None:
        for event in ("PodEvicted", "PodFailed"):
            world = started(policy("AbortJob", event))
            pod = world.pod("ns/j-main-0")
            world.put(replace(pod, status=replace(pod.status, phase="Failed", reason="Evicted")))
            world.settle()
            assert (world.phase(J), world.job(J).status.state.reason) == ("Aborted", event)

    def test_a_pod_that_its_user_deleted_counts_as_evicted(self) -> None:
        world = started(policy("AbortJob", "PodEvicted"))
        world.remove(world.pod("ns/j-main-0"))
        world.settle()
        assert world.phase(J) == "Aborted"


class TestPatience:
    def test_a_pod_that_is_pending_for_too_long(self) -> None:
        world = World(job(J, task("main", 2), policies=[policy("AbortJob", "PodPending", timeout="60s")]))
        world.settle()
        world.advance(100)  # without pods nothing is pending
        world.enqueue()
        world.settle()
        assert world.next_due() == 160.0
        world.run("ns/j-main-0")
        world.advance(59)
        assert world.phase(J) == "Pending"
        world.advance(1)
        assert world.phase(J) == "Aborted"

    def test_a_pod_that_starts_in_time(self) -> None:
        world = World(job(J, task("main", 1), policies=[policy("AbortJob", "PodPending", timeout="60s")]))
        world.settle()
        world.enqueue()
        world.settle()
        world.advance(59)
        world.run()
        world.settle()
        assert world.next_due() is None
        world.advance(100)
        assert world.phase(J) == "Running"

    def test_an_evicted_pod_has_time_to_come_back(self) -> None:
        for back_after, phase in ((9.0, "Running"), (10.0, "Aborted")):
            world = started(policy("AbortJob", "PodEvicted", timeout="10s"))
            evict(world)
            assert world.next_due() == 10.0
            world.advance(back_after)
            world.run()
            world.settle()
            world.advance(60)
            assert world.phase(J) == phase

    def test_a_failure_that_lasts(self) -> None:
        world = started(policy("RestartJob", "PodFailed", timeout="10s"))
        world.now = 5.0
        fail(world)
        assert world.next_due() == 15.0
        world.advance(9)
        assert world.job(J).status.retry_count == 0
        world.advance(1)
        assert world.job(J).status.retry_count == 1

    def test_a_job_that_acts_otherwise_starts_counting_afresh(self) -> None:
        world = started(policy("AbortJob", "PodEvicted", timeout="10s"), policy("RestartJob", "PodFailed"))
        evict(world)
        world.advance(5)
        world.finish("ns/j-main-0", exit_code=1)
        world.settle()
        assert world.job(J).status.retry_count == 1
        assert world.next_due() is None
        world.start()
        world.advance(60)
        assert world.phase(J) == "Running"

    def test_a_delay_that_was_running_is_forgotten_when_the_job_acts(self) -> None:
        # The failure of a-0 is seen at 0 and would be answered at 10; at 6 the job restarts it for another reason.
        # Failing once more at 8, it has until 18.
        slow = policy("AbortJob", "PodFailed", timeout="10s")
        again = policy("RestartTask", "TaskCompleted")
        world = World(
            job(J, task("a", 1, policies=[slow]), task("b", 1, policies=[again]), min_available=1, max_retry=9)
        )
        world.start()
        world.finish("ns/j-a-0", exit_code=1)
        world.settle()
        assert world.next_due() == 10.0
        world.advance(6)
        world.finish("ns/j-b-0")
        world.settle()
        assert world.job(J).status.retry_count == 1
        assert world.next_due() == 16.0  # a-0 is still failed, but its time is counted afresh

    def test_an_eviction_during_a_restart_is_answered_after_it(self) -> None:
        world = started(policy("RestartPod", "PodFailed"), policy("AbortJob", "PodEvicted"))
        world.grace = 5.0
        world.evict("ns/j-main-2")
        world.restart()  # so that nobody remembers the eviction, only the pod that leaves
        world.finish("ns/j-main-1", exit_code=1)
        world.settle()
        assert world.phase(J) == "Restarting"  # 3 - 1 < 3: the leaving pod is in the way
        world.grace = 0.0
        world.evict("ns/j-main-0")
        world.settle()
        assert world.phase(J) == "Restarting"
        world.advance(5)
        assert world.phase(J) == "Aborted"


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
    assert place_of(job(J), name) == place


class TestScaling:
    def test_up(self) -> None:
        world = started()
        scale(world, 5, 3)
        assert world.names(Pod) == tuple(f"j-main-{index}" for index in range(5))
        assert world.phase(J) == "Running"

    def test_down_is_no_eviction(self) -> None:
        world = started(policy("AbortJob", "PodEvicted"))
        scale(world, 1)
        assert world.names(Pod) == ("j-main-0",)
        assert world.phase(J) == "Running"

    def test_to_zero_and_back(self) -> None:
        world = started()
        scale(world, 0)
        assert (world.names(Pod), world.phase(J)) == ((), "Running")
        scale(world, 2)
        assert len(world.names(Pod)) == 2

    def test_down_past_the_pods_that_have_not_finished(self) -> None:
        world = started()
        world.finish("ns/j-main-0")
        world.settle()
        scale(world, 1)
        assert world.phase(J) == "Completed"


def test_a_pod_is_told_why_it_must_go() -> None:
    def reasons(changes: list[Change]) -> set[str]:
        return {change.reason for change in changes if isinstance(change, Delete) and isinstance(change.object, Pod)}

    for action, reason in (
        ("RestartJob", "its Job was restarted"),
        ("RestartPod", "its Job restarts it"),
        ("AbortJob", "its Job is Aborting"),
    ):
        world = started(policy(action, "PodFailed"))
        world.finish("ns/j-main-1", exit_code=1)
        assert reasons(world.settle()) == {reason}
    world = started()
    scaled = world.job(J)
    tasks = [replace(scaled.spec.tasks[0], replicas=1, min_available=1)]
    world.put(replace(scaled, spec=replace(scaled.spec, tasks=tasks, min_available=1)))
    assert reasons(world.settle()) == {"its Job was scaled down"}


def test_what_a_job_does_is_announced() -> None:
    world = started(policy("RestartJob", "PodFailed"))
    fail(world)
    assert world.notices[-1].message == "Pod j-main-1 failed with exit code 3: RestartJob."


class TestCommands:
    @pytest.mark.parametrize(
        ("action", "ends_as"),
        [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")],
    )
    def test_end(self, action: str, ends_as: str) -> None:
        world = started()
        world.grace = 5.0
        world.command(action, world.job(J))
        world.settle()
        assert world.phase(J) == ends_as.removesuffix("ed") + "ing"
        world.advance(5)
        assert world.phase(J) == ends_as
        assert world.job(J).status.version == 1

    def test_restart(self) -> None:
        world = started()
        world.command("RestartJob", world.job(J))
        world.start()
        assert (world.phase(J), world.job(J).status.retry_count) == ("Running", 1)

    def test_the_job_says_why(self) -> None:
        for said, reason, message in (
            ({}, "CommandIssued", "A command was given"),
            ({"reason": "Budget"}, "Budget", "Budget"),
            ({"reason": "Budget", "message": "The month is over"}, "Budget", "The month is over"),
        ):
            world = started()
            order = world.command("AbortJob", world.job(J))
            world.put(replace(order, **said))
            world.settle()
            state = world.job(J).status.state
            assert (state.reason, state.message) == (reason, message)

    @pytest.mark.parametrize("action", ["ResumeJob", "RestartPod", "OpenQueue"])
    def test_what_makes_no_sense_is_refused_aloud(self, action: str) -> None:
        world = started()
        world.command(action, world.job(J))
        world.settle()
        assert world.phase(J) == "Running"
        assert world.notices[-1].message == f"A job that is Running cannot be told {action}."

    def test_a_command_for_an_earlier_job_of_that_name_does_nothing(self) -> None:
        world = started()
        old = replace(world.job(J), metadata=replace(world.job(J).metadata, uid="earlier"))
        world.command("AbortJob", old)
        world.settle()
        assert world.phase(J) == "Running"


class TestMemory:
    def test_pods_of_an_earlier_job_of_that_name_are_not_its_own(self) -> None:
        world = started(policy("AbortJob", "PodEvicted"))
        world.grace = 10.0
        world.remove(world.job(J))
        world.settle()
        world.add(job(J, task("main", 3), policies=[policy("AbortJob", "PodEvicted")]))
        world.settle()
        world.enqueue()
        world.settle()
        assert world.job(J).status.terminating == 0
        assert all(pod.metadata.deletion_timestamp for pod in world.list(Pod))
        world.advance(10)
        assert world.phase(J) == "Pending"
        assert len(world.names(Pod)) == 3

    @pytest.mark.parametrize("action", ["RestartJob", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob"])
    def test_a_restart_of_the_controller_changes_nothing(self, action: str) -> None:
        """The controller is replaced after every single pass; the job arrives where it would have anyhow."""
        ends = []
        for forgetful in (False, True):
            world = started(policy(action, "PodFailed"))
            world.grace = 2.0
            world.finish("ns/j-main-1", exit_code=1)
            for _ in range(6):
                if forgetful:
                    world.restart()
                world.enqueue()
                world.run()
                world.advance(1)
            status = world.job(J).status
            ends.append((story(world), status.retry_count, status.version, world.names(Pod)))
        assert ends[0] == ends[1]

    def test_a_job_at_rest_is_not_looked_at_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = started(replicas=1, ttl_seconds_after_finished=60)
        looks: list[str] = []

        def watched(job: Job, phase: str, *facts: Any, **more: Any) -> Any:
            looks.append(phase)
            return synchronise(job, phase, *facts, **more)

        monkeypatch.setattr("stromboli.controllers.job.controller.synchronise", watched)
        world.settle()
        assert looks == []
        world.finish("ns/j-main-0")
        world.settle()
        assert looks != []
        looks.clear()
        world.advance(59)
        assert looks == []
        world.advance(1)
        assert world.names(Job) == ()
