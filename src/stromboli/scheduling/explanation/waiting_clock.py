"""Since when a job waits.

It is a condition of the job's PodGroup, so that it outlives the scheduler: the condition's time is when the group last
stopped being ready or having a promised place.
"""

from __future__ import annotations

from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import Job
from stromboli.scheduling.framework import Framework

WAITING = "Waiting"
"""The type of the condition."""


def waiting_since(framework: Framework, job: Job) -> float:
    """When a job began to wait. One that never started has waited since it was created."""
    assert job.object is not None
    had_a_place = False
    for condition in job.object.status.conditions:
        if condition.type == WAITING and condition.status == "True" and condition.last_transition_time is not None:
            return parse_timestamp(condition.last_transition_time)
        had_a_place = had_a_place or condition.type in ("Scheduled", WAITING)
    return framework.now if had_a_place else job.created
