"""Gangs that are on their way out, while a statement is being made."""

from __future__ import annotations

import numpy as np

from stromboli.cluster import Job, Status, Vector


def tentatively_gone(job: Job) -> Vector:
    """What a gang has lost in a statement that is still being made: when it goes as a whole, one pod after the other,
    the last of them is judged like the first."""
    gone = np.zeros_like(job.allocated)
    if job.counts[Status.RELEASING]:
        for task in job.tasks.values():
            if task.status is Status.RELEASING and task.true_status is not Status.RELEASING:
                gone += task.request
    return gone
