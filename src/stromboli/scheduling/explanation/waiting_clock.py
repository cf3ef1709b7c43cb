"""Since when a job waits.

A condition of the job's PodGroup stores it, so a restart does not reset it. The time of the condition is when the group
was last ready. A promise does not count: a job that has to give it back has waited all the time.
"""

from __future__ import annotations

from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import Job
from stromboli.scheduling.framework import Framework

WAITING = "Waiting"
"""The type of the condition."""


def waiting_since(framework: Framework, job: Job) -> float:
    """When a job began to wait. A job that never started has waited since its creation."""
    known = framework.waiting_times.get(job.key)
    if known is None:
        known = framework.waiting_times[job.key] = _waiting_since(framework, job)
    return known


def _waiting_since(framework: Framework, job: Job) -> float:
    assert job.object is not None
    had_a_place = False
    for condition in job.object.status.conditions:
        if condition.type == WAITING and condition.last_transition_time is not None:
            return parse_timestamp(condition.last_transition_time)
        had_a_place = had_a_place or condition.type == "Scheduled"
    return framework.now if had_a_place else job.created
