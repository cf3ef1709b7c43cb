"""Which policy answers what."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.fake_cluster import job, policy, task
from stromboli.api import ContainerState, ContainerStateTerminated, ContainerStatus, LifecyclePolicy, Pod, PodStatus
from stromboli.controllers.job.job_pods import TaskPod
from stromboli.controllers.job.lifecycle_policy import JobEvent, current_events, exit_code_of, policy_for, timeout_of

FAILED = JobEvent("PodFailed", task="main", pod="j-main-0", index=0, exit_code=3)


def answer(event: JobEvent, *of_job: LifecyclePolicy, of_task: tuple[LifecyclePolicy, ...] = ()) -> Any:
    asked = job("ns/j", task("main", 2, policies=list(of_task)), policies=list(of_job))
    found = policy_for(asked, event)
    return found.action if found else None


def test_without_a_policy_nothing_is_done() -> None:
    assert answer(FAILED) is None


def test_a_policy_answers_its_events() -> None:
    assert answer(FAILED, policy("RestartJob", "PodFailed")) == "RestartJob"
    assert answer(FAILED, policy("RestartJob", "PodEvicted", "PodFailed")) == "RestartJob"
    assert answer(FAILED, policy("RestartJob", "PodEvicted")) is None
    assert answer(FAILED, LifecyclePolicy(action="AbortJob", event="PodFailed")) == "AbortJob"


@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed"])
def test_a_star_answers_everything(event: str) -> None:
    assert answer(JobEvent(event), policy("AbortJob", "*")) == "AbortJob"


def test_exit_codes() -> None:
    by_code = policy("TerminateJob", exit_code=3)
    assert answer(FAILED, by_code) == "TerminateJob"
    assert answer(JobEvent("PodFailed", task="main", exit_code=4), by_code) is None
    assert answer(JobEvent("TaskCompleted", task="main"), by_code) is None
    assert answer(JobEvent("TaskCompleted", task="main"), policy("TerminateJob", exit_code=0)) is None


def test_the_first_that_fits_decides() -> None:
    by_code, by_event = policy("TerminateJob", exit_code=3), policy("RestartJob", "PodFailed")
    assert answer(FAILED, by_code, by_event) == "TerminateJob"
    assert answer(FAILED, by_event, by_code) == "RestartJob"


def test_a_task_comes_before_its_job() -> None:
    of_job = policy("RestartJob", "PodFailed")
    assert answer(FAILED, of_job, of_task=(policy("RestartPod", "PodFailed"),)) == "RestartPod"
    assert answer(FAILED, of_job, of_task=(policy("RestartPod", "PodEvicted"),)) == "RestartJob"


def test_policies_of_other_tasks_say_nothing() -> None:
    asked = job("ns/j", task("main", 1), task("other", 1, policies=[policy("AbortJob", "*")]))
    assert policy_for(asked, FAILED) is None


def test_pending_is_an_event_only_with_a_time() -> None:
    pending = JobEvent("PodPending", task="main", pod="j-main-0", index=0)
    assert answer(pending, policy("RestartJob", "PodPending")) is None
    assert answer(pending, policy("RestartJob", "*")) is None
    assert answer(pending, policy("RestartJob", "PodPending", timeout="5m")) == "RestartJob"
    assert answer(pending, policy("RestartJob", "*", timeout="5m")) == "RestartJob"


def test_running_is_no_event_at_all() -> None:
    """A policy may name it; a pod that runs is never a reason to act."""
    assert answer(FAILED, policy("RestartJob", "PodRunning")) is None


def test_the_exit_code_of_a_pod_is_that_of_the_container_that_failed() -> None:
    def ended(*codes: int | None) -> Pod:
        states = [
            ContainerState(terminated=None if code is None else ContainerStateTerminated(exit_code=code))
            for code in codes
        ]
        return Pod(status=PodStatus(container_statuses=[ContainerStatus(state=state) for state in states]))

    assert exit_code_of(ended()) == 0
    assert exit_code_of(ended(None, 0, 3, 4)) == 3


def test_containers_may_restart_as_often_as_the_task_says() -> None:
    def happened(limit: int | None, restarts: int) -> list[str]:
        asked = job("ns/j", task("main", 1))
        asked.spec.tasks[0].max_retry = limit
        status = PodStatus(phase="Running", container_statuses=[ContainerStatus(restart_count=restarts)])
        member = TaskPod(asked.spec.tasks[0], 0, Pod(status=status))
        return [event.type for event in current_events(asked, [member], None)]

    # The default is 3, and 0 means the default. The third restart is one too many.
    assert happened(None, 2) == []
    assert happened(None, 3) == ["TaskFailed"]
    assert happened(0, 2) == []
    assert happened(0, 3) == ["TaskFailed"]
    assert happened(1, 1) == ["TaskFailed"]
    assert happened(-1, 1000) == []


def test_patience() -> None:
    assert timeout_of(policy("AbortJob", "*")) == 0.0
    assert timeout_of(policy("AbortJob", "*", timeout="1m30s")) == 90.0
