"""Jobs of a running cluster, as rows of the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stromboli.api import Job
from stromboli.api.timestamps import parse_timestamp
from stromboli.insight import JobPicture, Picture
from stromboli.page import Eviction, JobRow, JobState, Span, merged_spans

from .outlook import Outlook

_STATES: Final[Mapping[str, JobState]] = {
    "Completed": "succeeded", "Succeeded": "succeeded", "Failed": "failed", "Aborted": "failed",
    "Terminated": "failed", "Running": "running", "Completing": "running", "Terminating": "running",
    "Aborting": "running",
}  # fmt: skip


def live_job_rows(
    picture: Picture, jobs: Iterable[Job], spans: Sequence[Span], evictions: Iterable[Eviction], outlook: Outlook
) -> list[JobRow]:
    objects = {f"{job.metadata.namespace}/{job.metadata.name}": job for job in jobs}
    spans_of: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        spans_of[span.job].append(span)
    evicted = Counter(eviction.job for eviction in evictions)
    rows: dict[str, JobRow] = {}
    for job in picture.jobs:
        # Two objects of different kinds may have one name.
        name = job.name if job.name not in rows else f"{job.name} ({job.kind} {job.group})"
        known = objects.get(job.name) if job.kind == "Job" else None
        rows[name] = _row(name, job, known, spans_of[job.name], evicted[job.name], picture.now, outlook)
    return list(rows.values())


def _row(
    name: str, job: JobPicture, known: Job | None, spans: list[Span], evictions: int, now: float, outlook: Outlook
) -> JobRow:
    state = _state(job)
    started = _started(job, known, spans)
    if state == "waiting":
        started = None
    expected = outlook.runs.get(job.group) if state == "waiting" else None
    ended = _ended(known, spans) if state in ("succeeded", "failed") else None
    return JobRow(
        key=name,
        kind=job.kind,
        group=job.group,
        queue=job.queue,
        phase=job.phase or state.capitalize(),
        state=state,
        submitted=job.created,
        started=started,
        ended=ended,
        expected_start=None if expected is None else expected.start,
        expected_end=job.ends if expected is None else expected.end,
        # Of one that waits the browser computes it: otherwise every row would change with every second.
        waited=None if state == "waiting" else max(0.0, (job.created if started is None else started) - job.created),
        minimum=job.min_available,
        pods=_pods(job),
        requests=job.requested,
        runs=merged_spans(spans),
        evictions=evictions,
        reason=job.reason or (outlook.codes.get(job.group, "") if job.waits else ""),
        message=job.message,
        notes=_notes(job),
    )


def _state(job: JobPicture) -> JobState:
    state = _STATES.get(job.phase)
    if state == "succeeded" and job.pods.failed and not job.pods.succeeded:
        return "failed"
    if state is not None:
        return state
    return "running" if job.pods.running and not job.pods.waiting else "waiting"


def _pods(job: JobPicture) -> dict[str, int]:
    pods = job.pods
    counted = {
        "Pending": pods.waiting, "Running": pods.running, "Terminating": pods.terminating,
        "Succeeded": pods.succeeded, "Failed": pods.failed,
    }  # fmt: skip
    return {phase: count for phase, count in counted.items() if count}


def _notes(job: JobPicture) -> list[str]:
    notes = []
    if job.reserved_nodes:
        notes.append(f"Nodes are reserved for it: {', '.join(job.reserved_nodes)}.")
    if job.backfilled:
        notes.append(f"{job.backfilled} of its pods run on lent resources.")
    return notes


def _started(job: JobPicture, known: Job | None, spans: list[Span]) -> float | None:
    found = [span.start for span in spans]
    if known is not None:
        found += _times(known, "Running")
    if job.started is not None:
        found.append(job.started)
    return min(found, default=None)


def _ended(known: Job | None, spans: list[Span]) -> float | None:
    if known is not None and known.status.state.last_transition_time is not None:
        return parse_timestamp(known.status.state.last_transition_time)
    return max((span.end for span in spans if span.end is not None), default=None)


def _times(job: Job, phase: str) -> list[float]:
    return [
        parse_timestamp(condition.last_transition_time)
        for condition in job.status.conditions
        if condition.status == phase and condition.last_transition_time is not None
    ]
