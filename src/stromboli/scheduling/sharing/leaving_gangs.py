"""Gangs that are on their way out, while a statement is being made."""

from __future__ import annotations

import numpy as np

from stromboli.cluster import Job, Status, Vector


def tentatively_gone(job: Job) -> Vector:
    """What a gang has lost in a statement that is still being made: when it goes as a whole, one pod after the other,
    the last of them is judged like the first. Pods above its minimum that went one by one do not count."""
    gone = np.zeros_like(job.allocated)
    if job.counts[Status.RELEASING]:
        left = [t for t in job.tasks.values() if t.status is Status.RELEASING and t.true_status is not Status.RELEASING]
        if job.goes_whole or job.ready_count < job.min_available:
            for task in left:
                gone += task.request
    return gone
