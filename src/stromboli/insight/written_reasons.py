"""What the scheduler wrote into the status of jobs, for users who may not read the whole cluster.

Without nodes, queues and the pods of others nothing can be decided on a copy. But the scheduler has told every job that
waits why, in the conditions of its pods and its PodGroup, which whoever may read the namespace may read.
"""

from __future__ import annotations

from dataclasses import replace

from stromboli.api import Job as JobObject
from stromboli.scheduling.explanation.conditions import UNSCHEDULABLE
from stromboli.scheduling.explanation.next_steps import next_step

from .explanation import JobExplanation, Reason, find_job
from .inspection import State, load, take_picture
from .picture import JobPicture, Picture


def written_picture(state: State) -> Picture:
    cluster, ignored = load(state)
    picture = take_picture(cluster, _jobs(state), state.now, ignored)
    return replace(picture, jobs=[_named(job) for job in picture.jobs])


def written_explanation(state: State, name: str) -> JobExplanation | None:
    """As `explain`, of what is written."""
    cluster, ignored = load(state)
    seen = find_job(take_picture(cluster, _jobs(state), state.now, ignored), cluster, name)
    if seen is None:
        return None
    if not seen.waits or not seen.message:
        return JobExplanation(seen, starts_next=False, reasons=[])
    seen = _named(seen)
    return JobExplanation(seen, False, [_reason(seen)])


def _reason(seen: JobPicture) -> Reason:
    step = next_step(seen.reason, seen.message, kind=seen.kind, group=seen.group)
    return Reason(seen.reason, seen.message, step)


def _named(job: JobPicture) -> JobPicture:
    """Conditions have the reasons that Kubernetes knows; ours are in the sentences."""
    return replace(job, reason=UNSCHEDULABLE) if job.message and not job.reason else job


def _jobs(state: State) -> list[JobObject]:
    return [obj for obj in state.objects if isinstance(obj, JobObject)]
