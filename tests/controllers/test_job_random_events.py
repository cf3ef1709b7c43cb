"""Anything may happen to a job, in any order, with its controller losing its memory in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, job, policy, task
from stromboli.api import Pod, PodGroup, names
from stromboli.controllers.job.state_machine import PHASES_WITHOUT_PODS

J = "ns/j"
FOLLOWS = {
    "": {"Pending"},
    "Pending": {"Running", "Restarting", "Aborting", "Terminating", "Completing"},
    "Running": {"Pending", "Restarting", "Aborting", "Terminating", "Completing", "Completed", "Failed"},
    "Restarting": {"Pending", "Failed"},
    "Aborting": {"Aborted", "Restarting"},
    "Aborted": {"Restarting"},
    "Completing": {"Completed"},
    "Terminating": {"Terminated"},
}
EVENTS = ("PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "Unknown", "*")
ACTIONS = ("RestartJob", "RestartTask", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob")

policies = st.lists(
    st.builds(
        lambda action, event, timeout: policy(action, event, timeout=timeout),
        st.sampled_from(ACTIONS),
        st.sampled_from(EVENTS),
        st.sampled_from([None, "2s"]),
    ),
    max_size=3,
)
events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["run", "fail", "succeed", "evict", "delete"]), st.integers(0, 3)),
        st.tuples(st.just("scale"), st.integers(0, 4)),
        st.tuples(st.just("command"), st.sampled_from([*ACTIONS, "ResumeJob"])),
        st.tuples(st.sampled_from(["wait", "enqueue", "restart", "lose"]), st.just(0)),
    ),
    max_size=25,
)


def happen(cluster: FakeCluster, what: str, which: Any) -> None:
    pods = [pod for pod in cluster.list(Pod) if pod.metadata.deletion_timestamp is None]
    alive = [f"ns/{pod.metadata.name}" for pod in pods if pod.status.phase in ("Pending", "Running")]
    present = cluster.job(J)
    match what:
        case "run" if which < len(alive):
            cluster.run(alive[which])
        case "fail" | "succeed" if which < len(alive) and cluster.pod(alive[which]).status.phase == "Running":
            cluster.finish(alive[which], exit_code=int(what == "fail"))
        case "evict" if which < len(alive):
            cluster.evict(alive[which])
        case "delete" if which < len(pods):
            cluster.remove(pods[which])
        case "scale":
            tasks = [replace(present.spec.tasks[0], replicas=which, min_available=which // 2)]
            cluster.put(replace(present, spec=replace(present.spec, tasks=tasks, min_available=which // 2)))
        case "command":
            cluster.command(which, present)
        case "wait":
            cluster.advance(1)
        case "enqueue":
            cluster.enqueue()
        case "restart":
            cluster.restart()
        case "lose":
            for group in cluster.list(PodGroup):
                cluster.put(replace(group, status=replace(group.status, phase="Unknown")))


def check(cluster: FakeCluster) -> None:
    found = cluster.job(J)
    status = found.status
    phase = status.state.phase
    staying = [pod for pod in cluster.list(Pod) if pod.metadata.deletion_timestamp is None]

    story = [condition.status for condition in status.conditions]
    assert story[-1] == phase
    for before, after in zip(["", *story], story, strict=False):
        assert after in FOLLOWS.get(before, set()), story
    assert status.retry_count <= (found.spec.max_retry or 0)

    # What the status counts is what is there.
    counted = (status.pending, status.running, status.succeeded, status.failed)
    phases = [pod.status.phase for pod in staying]
    assert counted == tuple(phases.count(p) for p in ("Pending", "Running", "Succeeded", "Failed"))
    assert status.terminating == len(cluster.names(Pod)) - len(staying)

    if phase in PHASES_WITHOUT_PODS:
        assert not {"Pending", "Running"} & set(phases)
        assert cluster.names(PodGroup) == ()
    else:
        # A pod stays only at a place the job has, and only if it was made for the job as it is now.
        assert len(staying) <= found.spec.tasks[0].replicas
        assert {pod.metadata.annotations[names.JOB_VERSION] for pod in staying} <= {str(status.version)}
    if phase in ("Pending", "Running"):
        (group,) = cluster.list(PodGroup)
        assert group.metadata.annotations[names.JOB_VERSION] == str(status.version)
        assert group.spec.min_member == found.spec.min_available


@settings(max_examples=300)
@given(policies, events, st.sampled_from([0.0, 3.0]))
def test_storms(answers: list[Any], story: list[tuple[str, Any]], grace: float) -> None:
    cluster = FakeCluster(job(J, task("main", 3, min_available=2), policies=answers, max_retry=3))
    cluster.grace = grace
    cluster.settle()
    cluster.enqueue()
    cluster.settle()
    check(cluster)
    version = 0
    for what, which in story:
        happen(cluster, what, which)
        cluster.settle()
        check(cluster)
        assert cluster.job(J).status.version >= version
        version = cluster.job(J).status.version
