"""What the waiting pods of a job request in total."""

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
