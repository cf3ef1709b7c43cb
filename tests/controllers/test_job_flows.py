"""JobFlows: which Jobs are created when, what they are made of, and what becomes of the flow.

Jobs have one task, `work`, with one pod. `end` says how a Job ended.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, job, task
from stromboli.api import (
    Flow,
    FlowDependsOn,
    FlowPatch,
    FlowProbe,
    HttpGetProbe,
    HttpHeader,
    Job,
    JobFlow,
    JobFlowSpec,
    JobSpec,
    JobTemplate,
    ObjectMeta,
    TaskState,
    TaskStatusProbe,
    TcpSocketProbe,
    default,
    names,
)
from stromboli.api.timestamps import format_timestamp
from stromboli.controllers import ControllerManager

NOON = 1_767_268_800.0  # 2026-01-01


def template(name: str, replicas: int = 1, **facts: Any) -> JobTemplate:
    spec = JobSpec(tasks=[task("work", replicas)], **facts)
    made = JobTemplate(metadata=ObjectMeta(name=name, namespace="ns"), spec=spec)
    default(made)
    return made


def flow(name: str, *targets: str, probe: FlowProbe | None = None, patch: dict[str, Any] | None = None) -> Flow:
    return Flow(
        name=name,
        depends_on=FlowDependsOn(targets=list(targets), probe=probe) if targets else None,
        patch=None if patch is None else FlowPatch(job_spec=patch),
    )


def job_flow(*flows: Flow, policy: str = "", **annotations: str) -> JobFlow:
    metadata = ObjectMeta(name="f", namespace="ns", annotations=annotations)
    return JobFlow(metadata=metadata, spec=JobFlowSpec(flows=list(flows), job_retain_policy=policy))


def started(*flows: Flow, templates: str = "abcde", policy: str = "") -> FakeCluster:
    cluster = FakeCluster(job_flow(*flows, policy=policy), *(template(name) for name in templates), now=NOON)
    cluster.settle()
    return cluster


def jobs(cluster: FakeCluster) -> str:
    """The flows whose Jobs there are."""
    return "".join(sorted(name.removeprefix("f-") for name in cluster.names(Job)))


def the(cluster: FakeCluster) -> JobFlow:
    found = cluster.get(JobFlow, "ns/f")
    assert found is not None
    return found


def phase(cluster: FakeCluster) -> str:
    return the(cluster).status.state.phase


def become(cluster: FakeCluster, name: str, phase: str = "Completed", **counts: int) -> None:
    """`counts`: the pods of the task, by phase."""
    found = cluster.job(f"ns/f-{name}")
    state = replace(found.status.state, phase=phase, last_transition_time=format_timestamp(cluster.now))
    counted = {"work": TaskState(phase=dict(counts))} if counts else found.status.task_status_count
    cluster.put(replace(found, status=replace(found.status, state=state, task_status_count=counted)))
    cluster.settle()


def warnings(cluster: FakeCluster) -> list[tuple[str, str]]:
    return [(one.reason, one.message) for one in cluster.notices if one.warning]


# -- order ----------------------------------------------------------------------------------------------------------


def test_each_job_is_created_when_all_it_depends_on_has_completed() -> None:
    #     a ──▶ b ──▶ d ──▶ e          c needs a as well, e needs both c and d
    cluster = started(flow("a"), flow("b", "a"), flow("c", "a"), flow("d", "b"), flow("e", "c", "d"))
    seen = [jobs(cluster)]
    for name in "abdc":
        become(cluster, name)
        seen.append(jobs(cluster))
    assert seen == ["a", "abc", "abcd", "abcd", "abcde"]
    assert phase(cluster) == "Running"
    become(cluster, "e")
    assert phase(cluster) == "Succeed"


@pytest.mark.parametrize("state", ["Running", "Aborted"])
def test_a_job_that_runs_is_not_enough(state: str) -> None:
    cluster = started(flow("a"), flow("b", "a"))
    become(cluster, "a", state)
    assert jobs(cluster) == "a"


def test_what_a_job_gets_from_its_flow_and_its_template() -> None:
    cluster = FakeCluster(job_flow(flow("a"), **{names.SUBMITTER: "ada"}), template("a", 2, queue="q"), now=NOON)
    cluster.settle()
    made = cluster.job("ns/f-a")
    created_by = {"volcano.sh/createdByJobFlow": "ns.f", "volcano.sh/createdByJobTemplate": "ns.a"}
    assert made.metadata.labels == created_by
    assert made.metadata.annotations == {**created_by, names.SUBMITTER: "ada"}
    (owner,) = made.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.controller) == (
        "flow.volcano.sh/v1alpha1", "JobFlow", "f", True,
    )  # fmt: skip
    assert (made.spec.queue, made.spec.tasks[0].replicas, made.spec.min_available) == ("q", 2, 2)
    listed = cluster.get(JobTemplate, "ns/a")
    assert listed is not None
    assert listed.status.job_depends_on_list == ["f-a"]
    cluster.remove(made)
    cluster.advance(1)


def test_labels_that_are_too_long_are_annotations_only() -> None:
    long = "t" * 63
    cluster = FakeCluster(job_flow(flow(long)), template(long), now=NOON)
    cluster.settle()
    (made,) = cluster.list(Job) or [None]
    assert made is None, "the name of the Job would be too long"
    assert warnings(cluster)[0][0] == "InvalidJob"
    shorter = "t" * 61
    cluster = FakeCluster(job_flow(flow(shorter)), template(shorter), now=NOON)
    cluster.settle()
    (made,) = cluster.list(Job)
    assert list(made.metadata.labels) == ["volcano.sh/createdByJobFlow"]
    assert made.metadata.annotations["volcano.sh/createdByJobTemplate"] == f"ns.{shorter}"


def test_a_template_that_comes_late() -> None:
    cluster = started(flow("a"), flow("b", "a"), templates="b")
    assert (jobs(cluster), warnings(cluster)) == ("", [("NoTemplate", "there is no JobTemplate a")])
    cluster.advance(60)
    assert len(warnings(cluster)) == 1
    cluster.add(template("a"))
    cluster.settle()
    assert jobs(cluster) == "a"


def test_of_flows_with_the_same_name_the_first_counts() -> None:
    cluster = started(flow("a"), flow("c", "a"), flow("c", "b"), flow("b", "a"))
    become(cluster, "a")
    assert jobs(cluster) == "abc"
    for name in "bc":
        become(cluster, name)
    assert phase(cluster) == "Succeed"


def test_a_flow_without_jobs_stays_pending() -> None:
    cluster = started()
    assert phase(cluster) == "Pending"


def test_flows_that_are_added_later() -> None:
    cluster = started(flow("a"))
    become(cluster, "a", "Running")
    cluster.put(replace(the(cluster), spec=JobFlowSpec(flows=[flow("a"), flow("b", "a")])))
    become(cluster, "a")
    assert (jobs(cluster), phase(cluster)) == ("ab", "Running")


def test_jobs_for_other_schedulers_are_left_to_others() -> None:
    cluster = FakeCluster(job_flow(flow("a")), template("a", scheduler_name="other"), now=NOON)
    cluster.settle()
    assert (jobs(cluster), the(cluster).status.state.phase, warnings(cluster)) == ("", "", [])


# -- ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["Failed", "Terminated"])
def test_once_a_job_has_failed_no_other_is_created(end: str) -> None:
    cluster = started(flow("a"), flow("b"), flow("c", "b"))
    become(cluster, "a", end)
    become(cluster, "b")
    assert (jobs(cluster), phase(cluster)) == ("ab", "Failed")
    status = the(cluster).status
    assert (status.completed_jobs, status.failed_jobs + status.terminated_jobs) == (["f-b"], ["f-a"])
    cluster.remove(cluster.job("ns/f-a"))
    cluster.settle()
    assert (jobs(cluster), phase(cluster)) == ("b", "Failed")


def test_jobs_are_kept_unless_the_policy_says_delete() -> None:
    for policy, left in (("", "ab"), ("retain", "ab"), ("delete", "")):
        cluster = started(flow("a"), flow("b", "a"), policy=policy)
        become(cluster, "a")
        become(cluster, "b")
        assert (jobs(cluster), phase(cluster)) == (left, "Succeed")
        assert the(cluster).status.completed_jobs == ["f-a", "f-b"]


def test_jobs_of_a_flow_that_failed_are_kept() -> None:
    cluster = started(flow("a"), flow("b"), policy="delete")
    become(cluster, "b")
    become(cluster, "a", "Failed")
    assert jobs(cluster) == "ab"


def test_a_job_that_has_completed_and_is_gone_is_not_created_again() -> None:
    cluster = started(flow("a"), flow("b", "a"), flow("c", "a", "b"))
    become(cluster, "a")
    cluster.remove(cluster.job("ns/f-a"))
    cluster.restart()
    cluster.settle()
    become(cluster, "b")
    assert jobs(cluster) == "bc"
    become(cluster, "c")
    assert phase(cluster) == "Succeed"


def test_a_job_that_is_deleted_before_it_ends_is_created_again() -> None:
    cluster = started(flow("a"))
    become(cluster, "a", "Running")
    cluster.advance(11)
    cluster.remove(cluster.job("ns/f-a"))
    cluster.settle()
    assert jobs(cluster) == "a"


def test_a_job_of_somebody_else_with_that_name() -> None:
    cluster = FakeCluster(job_flow(flow("a"), flow("b", "a")), template("a"), template("b"), now=NOON)
    cluster.add(job("ns/f-a", task("work", 1)))
    cluster.settle()
    assert warnings(cluster) == [("ForeignJob", "the Job f-a belongs to somebody else")]
    become(cluster, "a")
    assert jobs(cluster) == "a"


def test_a_creation_that_failed_is_tried_again_later() -> None:
    cluster = FakeCluster(job_flow(flow("a")), template("a"), now=NOON)
    assert cluster.pass_once()  # refused: nothing of it is carried out
    cluster.settle()
    assert (jobs(cluster), cluster.next_due()) == ("", NOON + 10)
    cluster.advance(10)
    assert jobs(cluster) == "a"


def test_what_the_status_says() -> None:
    cluster = started(flow("a"), flow("b"), flow("c"))
    become(cluster, "a", "Running", Running=1)
    become(cluster, "b", "Aborted")
    cluster.advance(30)
    become(cluster, "a")
    status = the(cluster).status
    assert (status.completed_jobs, status.un_know_jobs, status.pending_jobs) == (["f-a"], ["f-b"], ["f-c"])
    assert {name: one.phase for name, one in status.conditions.items()} == {
        "f-a": "Completed", "f-b": "Aborted", "f-c": "Pending",
    }  # fmt: skip
    first = status.job_status_list[0]
    assert (first.name, first.state, first.start_timestamp, first.end_timestamp) == (
        "f-a", "Completed", "2026-01-01T12:00:00Z", "2026-01-01T12:00:30Z",
    )  # fmt: skip
    assert [(one.state, one.end_timestamp) for one in first.running_histories] == [
        ("Pending", "2026-01-01T12:00:00Z"), ("Running", "2026-01-01T12:00:30Z"), ("Completed", None),
    ]  # fmt: skip


@pytest.mark.parametrize("minute", range(4))
def test_a_restart_changes_nothing(minute: int) -> None:
    cluster = started(flow("a"), flow("b", "a"), flow("c", "b"))
    for step, name in enumerate("abc"):
        if step == minute:
            cluster.restart()
            cluster.settle()
        become(cluster, name)
    assert (jobs(cluster), phase(cluster)) == ("abc", "Succeed")


def test_an_invalid_one_says_so_and_creates_nothing() -> None:
    flows = (flow("a", "c"), flow("b", "a"), flow("c", "b"))
    objects = (job_flow(*flows), template("a"), template("x", min_available=5))
    cluster = FakeCluster(*objects, now=NOON, controllers=partial(ControllerManager, validate=True))
    cluster.settle()
    assert warnings(cluster) == [
        ("Invalid", "spec.flows: must not lead back to a flow over its targets, as a, c and b do"),
        ("Invalid", "spec.minAvailable: must be at most the 1 replicas of all tasks, not 5"),
    ]
    cluster.put(replace(the(cluster), spec=JobFlowSpec(flows=[flow("a")])))
    cluster.settle()
    assert jobs(cluster) == "a"


# -- probes ---------------------------------------------------------------------------------------------------------


def depending(probe: FlowProbe) -> FakeCluster:
    """`b` depends on `a`, whose pod is not there yet."""
    return started(flow("a"), flow("b", "a", probe=probe))


def running(cluster: FakeCluster) -> None:
    cluster.enqueue()
    cluster.settle()
    cluster.run()
    cluster.settle()


def test_a_probe_of_a_task() -> None:
    cluster = depending(FlowProbe(task_status_list=[TaskStatusProbe("work", "Running")]))
    become(cluster, "a", "Pending", Pending=1)
    assert jobs(cluster) == "a"
    become(cluster, "a", "Running", Running=1)
    assert jobs(cluster) == "ab"


@pytest.mark.parametrize(
    ("wanted", "reached"), [("Running", "Succeeded"), ("Pending", "Running"), ("Failed", "Failed"), ("", "Pending")]
)
def test_phases_that_have_been_reached(wanted: str, reached: str) -> None:
    cluster = depending(FlowProbe(task_status_list=[TaskStatusProbe(phase=wanted)]))
    become(cluster, "a", "Running", **{reached: 1})
    assert jobs(cluster) == "ab"


def test_a_job_without_the_task_must_have_completed() -> None:
    cluster = depending(FlowProbe(task_status_list=[TaskStatusProbe("other", "Running")]))
    become(cluster, "a", "Running", Running=1)
    assert jobs(cluster) == "a"
    become(cluster, "a")
    assert jobs(cluster) == "ab"


def test_pods_are_asked_until_they_answer() -> None:
    cluster = depending(FlowProbe(tcp_socket_list=[TcpSocketProbe(port=80, task_name="work")]))
    assert cluster.probes == []
    running(cluster)
    (probe,) = cluster.probes
    assert (probe.pod.metadata.name, probe.port, probe.path) == ("f-a-work-0", 80, None)
    cluster.controllers.probe_answered(probe, cluster.now, answered=False)
    cluster.advance(4)
    assert (jobs(cluster), len(cluster.probes)) == ("a", 1)
    assert cluster.next_due() == NOON + 5
    cluster.advance(1)
    assert len(cluster.probes) == 2
    cluster.controllers.probe_answered(cluster.probes[-1], cluster.now, answered=True)
    cluster.settle()
    assert (jobs(cluster), len(cluster.probes)) == ("ab", 2)


def test_an_http_probe_has_a_path_and_a_header() -> None:
    wanted = HttpGetProbe(task_name="work", path="/ready", port=8080, http_header=HttpHeader("X-Token", "t"))
    cluster = depending(FlowProbe(http_get_list=[wanted]))
    running(cluster)
    (probe,) = cluster.probes
    assert (probe.port, probe.path, probe.header) == (8080, "/ready", ("X-Token", "t"))


def test_a_pod_that_is_replaced_is_asked_again() -> None:
    cluster = depending(FlowProbe(tcp_socket_list=[TcpSocketProbe(port=80), TcpSocketProbe(port=81)]))
    running(cluster)
    first, _ = cluster.probes
    cluster.controllers.probe_answered(first, cluster.now, answered=True)
    cluster.evict("ns/f-a-work-0")
    cluster.settle()
    running(cluster)
    cluster.advance(5)
    asked = {(probe.pod.metadata.uid, probe.port) for probe in cluster.probes}
    assert len(asked) == 4, "two pods, two ports"


# -- patches --------------------------------------------------------------------------------------------------------


def test_a_flow_can_change_its_template() -> None:
    cluster = started(flow("a", patch={"queue": "q", "tasks": [{"name": "work", "replicas": 3}]}), flow("b"))
    assert [(made.spec.queue, made.spec.tasks[0].replicas) for made in cluster.list(Job)] == [("q", 3), ("default", 1)]


def test_a_patch_that_makes_no_valid_job() -> None:
    cluster = started(flow("a", patch={"minAvailable": 7}), flow("b", patch={"tasks": "none"}))
    assert jobs(cluster) == ""
    assert [(reason, said.partition(":")[0]) for reason, said in warnings(cluster)] == [
        ("InvalidJob", "the Job of flow a is invalid"), ("InvalidJob", "the Job of flow b is invalid"),
    ]  # fmt: skip
