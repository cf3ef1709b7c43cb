"""The status of a JobFlow: what became of its Jobs.

It is also the memory of the flow. A Job that has completed counts as completed when it is gone, and a flow that has
failed or succeeded stays so: Jobs are deleted some time after they have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from stromboli.api import FlowJobCondition, FlowJobHistory, FlowJobStatus, Job, JobFlow, JobFlowState, JobFlowStatus
from stromboli.api.timestamps import format_timestamp

PENDING: Final = "Pending"
RUNNING: Final = "Running"
FAILED: Final = "Failed"
SUCCEED: Final = "Succeed"
COMPLETED: Final = "Completed"
ENDED_BADLY: Final = ("Failed", "Terminated")
_ENDED: Final = (COMPLETED, *ENDED_BADLY)


def recorded_phases(flow: JobFlow) -> dict[str, str]:
    """By the name of a Job, the phase in which it was seen last."""
    return {one.name: one.state for one in flow.status.job_status_list}


def status_of(flow: JobFlow, names: Sequence[str], jobs: Mapping[str, Job], now: float) -> JobFlowStatus:
    """`names`: of all Jobs that the flow is to have; `jobs`: those that exist."""
    records = _records(flow, names, jobs, now)
    phases = {one.name: one.state for one in records}
    in_phase: dict[str, list[str]] = {}
    for name, phase in phases.items():
        in_phase.setdefault(phase, []).append(name)
    listed = (PENDING, RUNNING, "Failed", COMPLETED, "Terminated")
    conditions = {
        name: FlowJobCondition(
            phase=job.status.state.phase,
            create_time=job.metadata.creation_timestamp,
            running_duration=job.status.running_duration,
            task_status_count=dict(job.status.task_status_count),
        )
        for name, job in jobs.items()
    }
    return JobFlowStatus(
        pending_jobs=in_phase.get(PENDING, []),
        running_jobs=in_phase.get(RUNNING, []),
        failed_jobs=in_phase.get("Failed", []),
        completed_jobs=in_phase.get(COMPLETED, []),
        terminated_jobs=in_phase.get("Terminated", []),
        un_know_jobs=[name for name, phase in phases.items() if phase not in listed],
        job_status_list=records,
        conditions=conditions,
        state=JobFlowState(_phase(flow, names, phases)),
    )


def _phase(flow: JobFlow, names: Sequence[str], phases: Mapping[str, str]) -> str:
    before = flow.status.state.phase
    if before == FAILED or any(phase in ENDED_BADLY for phase in phases.values()):
        return FAILED
    if names and all(phases.get(name) == COMPLETED for name in names):
        return SUCCEED
    has_begun = any(phase not in ("", PENDING) for phase in phases.values())
    return RUNNING if has_begun or before == RUNNING else PENDING


def _records(flow: JobFlow, names: Sequence[str], jobs: Mapping[str, Job], now: float) -> list[FlowJobStatus]:
    """In the order of the flows; at the end those of flows that are not there any more."""
    before = {one.name: one for one in flow.status.job_status_list}
    order = [*names, *(name for name in before if name not in names)]
    found: list[FlowJobStatus] = []
    for name in order:
        job, record = jobs.get(name), before.get(name)
        if job is not None:
            found.append(_record(job, record, now))
        elif record is not None:
            found.append(record)
    return found


def _record(job: Job, before: FlowJobStatus | None, now: float) -> FlowJobStatus:
    phase = job.status.state.phase
    histories = [] if before is None else list(before.running_histories)
    if before is not None and before.start_timestamp != job.metadata.creation_timestamp:
        histories = []  # another Job of that name
    if phase and (not histories or histories[-1].state != phase):
        stamp = format_timestamp(now)
        if histories:
            histories[-1] = replace(histories[-1], end_timestamp=stamp)
        histories.append(FlowJobHistory(start_timestamp=stamp, state=phase))
    return FlowJobStatus(
        name=job.metadata.name,
        state=phase,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=job.status.state.last_transition_time if phase in _ENDED else None,
        restart_count=job.status.retry_count,
        running_histories=histories,
    )
