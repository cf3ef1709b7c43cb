"""What a job is called in sentences: by the name that its user gave it.

Controllers generate a PodGroup for each Job, and for pods without one. Its name ends in a uid and says nothing to
users, so the owner is named instead.
"""

from __future__ import annotations

from stromboli.api.upstream import plain_name
from stromboli.cluster import Job, Task

from .reasons import RESERVATION


def task_name(task: Task) -> str:
    """The key of a pod, or the Reservation that the task stands for."""
    return f"Reservation {task.stands_for}" if task.stands_for else task.key


def display_name(job: Job) -> str:
    """ "namespace/name" of the Job or other owner that the PodGroup was created for, else of the PodGroup."""
    if job.object is not None:
        for owner in job.object.metadata.owner_references:
            if owner.controller:
                return f"{job.namespace}/{owner.name}"
    return plain_name(job.key)


def what_waits(job: Job) -> str:
    """What a sentence about the whole of a job is about."""
    if job.stands_for:
        return RESERVATION
    return "gang" if job.min_available > 1 else "pod"
