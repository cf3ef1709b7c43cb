"""What the scheduler reads off an object: the places in a pod, a group or a quota where a fact is written.

Annotations come from people and from other programs. One that cannot be read says nothing: it must not stop a pod.
"""

from __future__ import annotations

import re

from stromboli.api import KObject, Pod, names
from stromboli.api.timestamps import parse_timestamp

from .model import JobKey, Status

_INDEX = re.compile(r"(\d+)$")


def status_of(pod: Pod) -> Status:
    """What the pod itself says, whatever we have set in motion since."""
    phase = pod.status.phase
    if phase == "Succeeded":
        return Status.SUCCEEDED
    if phase == "Failed":
        return Status.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return Status.RELEASING
    if phase == "Running":
        return Status.RUNNING
    if phase in ("Pending", ""):
        return Status.BOUND if pod.spec.node_name else Status.PENDING
    return Status.UNKNOWN


def created(obj: KObject) -> float:
    stamp = obj.metadata.creation_timestamp
    return 0.0 if stamp is None else parse_timestamp(stamp)


def group_of(pod: Pod) -> JobKey | None:
    for name in names.GROUP_NAMES:
        group = pod.metadata.annotations.get(name)
        if group:
            return JobKey(f"{pod.metadata.namespace}/{group}")
    return None


def role_of(pod: Pod) -> str:
    return pod.metadata.annotations.get(names.TASK_SPEC) or pod.metadata.labels.get(names.TASK_SPEC, "")


def is_backfill(pod: Pod) -> bool:
    return any(pod.metadata.annotations.get(name, "").lower() == "true" for name in names.BACKFILL_NAMES)


def task_priority(pod: Pod) -> int:
    stated = pod.metadata.annotations.get(names.TASK_PRIORITY)
    if stated is not None:
        try:
            return int(stated)
        except ValueError:
            pass  # as if it were not there: a bad annotation must not stop a pod
    return 1 if pod.spec.priority is None else pod.spec.priority


def namespace_weight(stated: str | int | float) -> int:
    """A positive whole number; anything else counts as 1."""
    try:
        weight = int(str(stated))
    except ValueError:
        return 1
    return max(weight, 1)


def index_of(name: str) -> int:
    """The number at the end of a name, by which tasks of a job are counted; -1 if there is none."""
    match = _INDEX.search(name)
    return int(match.group(1)) if match else -1
