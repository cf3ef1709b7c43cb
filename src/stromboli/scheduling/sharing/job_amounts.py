"""What a job requests, and what it has lost, where its own counters do not say."""

from __future__ import annotations

import numpy as np

from stromboli.cluster import Job, Status, Vector


def pending_request(job: Job) -> Vector:
    """The sum over pending tasks. Gated tasks do not count: nobody knows when they can be scheduled."""
    wanted = np.zeros_like(job.allocated)
    for task in job.tasks.values():
        if task.status is Status.PENDING and not task.gated:
            wanted += task.request
    return wanted


def tentatively_gone(job: Job) -> Vector:
    """What a gang has lost in a statement that is still being made: when it goes as a whole, one pod after the other,
    the last of them is judged like the first. Pods above its minimum that went one by one do not count."""
    gone = np.zeros_like(job.allocated)
    if job.counts[Status.RELEASING] and (job.goes_whole or job.ready_count < job.min_available):
        for task in job.tasks.values():
            if task.status is Status.RELEASING and task.true_status is not Status.RELEASING:
                gone += task.request
    return gone
