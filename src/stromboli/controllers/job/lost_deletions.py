"""Deletions that an API server began and did not finish.

A server deletes a pod in two steps: it notes that no time is left, and then removes the object. If it is cut off in
between, the object stays, and nobody is to remove it: the kubelet has done its part, or there was none. A second
request finishes the deletion. Until then a Job that restarts would wait for the pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stromboli.api import Pod
from stromboli.api.timestamps import parse_timestamp

from .job_record import JobRecord

PATIENCE: Final = 5.0  # seconds from the end of its grace period, and between two requests


def pods_to_delete_again(pods: Iterable[Pod], record: JobRecord, now: float) -> list[Pod]:
    """Those whose deletion should have ended by now. `record` knows when to look again."""
    found = []
    requested: dict[str, float] = {}
    for pod in pods:
        meta = pod.metadata
        if meta.deletion_timestamp is None or meta.deletion_grace_period_seconds or meta.finalizers:
            continue
        due = record.deleted_again.get(meta.uid, parse_timestamp(meta.deletion_timestamp)) + PATIENCE
        if due <= now:
            found.append(pod)
            requested[meta.uid], due = now, now + PATIENCE
        elif meta.uid in record.deleted_again:
            requested[meta.uid] = record.deleted_again[meta.uid]
        record.due = due if record.due is None else min(record.due, due)
    record.deleted_again = requested
    return found
