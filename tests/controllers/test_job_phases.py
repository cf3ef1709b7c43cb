"""The table of a job's life, line by line: what an action leads to, and what a count of pods leads to."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.fake_cluster import job, task
from stromboli.controllers.job.state_machine import PodCounts, apply_action, next_phase

RESTARTS = ("RestartJob", "RestartTask", "RestartPod", "RestartPartition")
ACTIONS = (*RESTARTS, "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob")
PHASES = (
    "Pending",
    "Running",
    "Restarting",
    "Aborting",
    "Aborted",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)
LEADS_TO = {
    **{(phase, action): "Restarting" for phase in ("Pending", "Running") for action in RESTARTS},
    **{(phase, "AbortJob"): "Aborting" for phase in ("Pending", "Running")},
    **{(phase, "TerminateJob"): "Terminating" for phase in ("Pending", "Running")},
    **{(phase, "CompleteJob"): "Completing" for phase in ("Pending", "Running")},
    ("Aborting", "ResumeJob"): "Restarting",
    ("Aborted", "ResumeJob"): "Restarting",
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("action", [*ACTIONS, "SyncJob", ""])
def test_actions(phase: str, action: str) -> None:
    outcome = apply_action(phase, action)
    expected = LEADS_TO.get((phase, action))
    assert (outcome.phase if outcome else None) == expected
    if outcome is not None:
        assert outcome.is_retry == (expected == "Restarting")
        assert outcome.new_version == (action not in RESTARTS[1:])


def after(phase: str, *, retries: int = 0, by_task: dict[str, int] | None = None, **facts: Any) -> str:
    """The phase of a job of 4 replicas, 3 of them needed, after pods were counted."""
    numbers = {name: facts.pop(name) for name in list(facts) if name in PodCounts.__slots__}
    tasks = facts.pop("tasks", (task("main", 4, min_available=3),))
    succeeded = {name: {"Succeeded": n} for name, n in (by_task or {}).items()}
    if not by_task and len(tasks) == 1:
        succeeded = {"main": {"Succeeded": numbers.get("succeeded", 0)}}
    counts = PodCounts(by_task=succeeded, **numbers)
    return next_phase(job("ns/j", *tasks, **facts), phase, counts, retry_count=retries).phase


class TestPending:
    def test_runs_once_its_minimum_runs_or_has_run(self) -> None:
        assert after("Pending", running=2) == "Pending"
        assert after("Pending", running=3) == "Running"
        assert after("Pending", running=1, succeeded=1, failed=1) == "Running"
        assert after("Pending", running=2, pending=2, terminating=1) == "Pending"


class TestRunning:
    def test_goes_on_while_enough_run(self) -> None:
        assert after("Running", running=4) == "Running"
        assert after("Running", running=3, pending=1) == "Running"  # 1 > 4 - 3 is false

    def test_is_pending_again_when_too_many_are(self) -> None:
        assert after("Running", running=2, pending=2) == "Pending"
        assert after("Running", pending=4) == "Pending"

    def test_ends_when_all_are_done(self) -> None:
        assert after("Running", succeeded=4) == "Completed"
        assert after("Running", succeeded=3, failed=1) == "Completed"
        assert after("Running", succeeded=2, failed=2) == "Failed"
        assert after("Running", succeeded=3, running=1) == "Running"

    def test_each_task_needs_its_minimum(self) -> None:
        # 3 of 4 would do for the job, but the one that failed was the only master.
        tasks = (task("master", 1), task("worker", 3, min_available=2))
        assert after("Running", tasks=tasks, succeeded=3, failed=1, by_task={"worker": 3}) == "Failed"
        enough = {"master": 1, "worker": 2}
        assert after("Running", tasks=tasks, succeeded=3, failed=1, by_task=enough) == "Completed"

    def test_minimums_of_tasks_say_nothing_when_the_job_asks_for_fewer(self) -> None:
        tasks = (task("master", 1), task("worker", 3, min_available=2))
        only_workers = {"worker": 3}
        ends = after("Running", tasks=tasks, min_available=2, succeeded=3, failed=1, by_task=only_workers)
        assert ends == "Completed"

    def test_enough_successes_end_it_early(self) -> None:
        assert after("Running", min_success=2, succeeded=1, running=3) == "Running"
        assert after("Running", min_success=2, succeeded=2, running=2) == "Completed"
        assert after("Running", min_success=4, succeeded=3, failed=1) == "Failed"

    def test_without_replicas_it_just_goes_on(self) -> None:
        assert after("Running", tasks=(task("main", 0),)) == "Running"


class TestRestarting:
    def test_fails_when_no_retry_is_left(self) -> None:
        assert after("Restarting", retries=2) == "Pending"
        assert after("Restarting", retries=3) == "Failed"
        assert after("Restarting", retries=1, max_retry=1) == "Failed"

    def test_waits_for_its_old_pods_as_far_as_it_needs_their_places(self) -> None:
        assert after("Restarting", retries=1, terminating=2) == "Restarting"  # 4 - 2 < 3
        assert after("Restarting", retries=1, terminating=1) == "Pending"


class TestEnding:
    @pytest.mark.parametrize(
        ("phase", "ends_as"),
        [("Aborting", "Aborted"), ("Completing", "Completed"), ("Terminating", "Terminated")],
    )
    def test_waits_for_the_last_pod(self, phase: str, ends_as: str) -> None:
        assert after(phase, terminating=1) == phase
        assert after(phase, running=1) == phase
        assert after(phase, pending=1) == phase
        assert after(phase, unknown=1) == phase
        assert after(phase, succeeded=2, failed=1) == ends_as

    @pytest.mark.parametrize("phase", ["Aborted", "Completed", "Terminated", "Failed"])
    def test_stays_where_it_ended(self, phase: str) -> None:
        assert after(phase, succeeded=4) == phase
        assert after(phase, running=4) == phase
