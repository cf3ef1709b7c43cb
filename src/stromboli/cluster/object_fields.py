"""What the scheduler reads from the fields and annotations of objects.

Annotations come from people and from other programs. One that cannot be parsed is ignored: it must not block a pod.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stromboli.api import KObject, Node, Pod, PodGroup, group_name_of, names, names_two_groups
from stromboli.api.quantity import QuantityError, parse_quantity
from stromboli.api.timestamps import parse_timestamp

from .model import JobKey, Status
from .refused_bind import REFUSED_CONDITION

WAITING_CONDITION = "Waiting"
"""The type of the condition of a group that says since when the job waits."""

WAITING_STOPPED = "NotCounted"
"""Its reason while the time that passes does not count."""

_INDEX = re.compile(r"(\d+)$")


def creation_time(obj: KObject) -> float:
    timestamp = obj.metadata.creation_timestamp
    return 0.0 if timestamp is None else parse_timestamp(timestamp)


def status_of(pod: Pod) -> Status:
    """The status that follows from the pod itself, whatever we have decided since."""
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


class WaitingRecord(NamedTuple):
    """What a group's condition says about the time that the job has waited."""

    since: float  # when it began to wait; as if it had waited all the time from then on
    stopped: float | None = None  # since when no waiting time is counted

    def at(self, now: float) -> float:
        """Since when it waits, if what was not counted is left out."""
        return self.since if self.stopped is None else self.since + (now - self.stopped)


def waiting_record(group: PodGroup) -> WaitingRecord | None:
    """While the clock is stopped, the time of the condition is when it stopped, and its transitionID is since when the
    job waited at that time."""
    for condition in group.status.conditions:
        if condition.type == WAITING_CONDITION and condition.last_transition_time is not None:
            time = parse_timestamp(condition.last_transition_time)
            if condition.reason != WAITING_STOPPED:
                return WaitingRecord(time)
            try:
                return WaitingRecord(min(parse_timestamp(condition.transition_id), time), time)
            except ValueError:
                return WaitingRecord(time, time)
    return None


def group_of(pod: Pod) -> JobKey | None:
    """The group of a pod. A static pod is in none, whatever it says: its kubelet runs it, and asks nobody. Nor is one
    that names a group of each kind."""
    group = "" if names.MIRROR in pod.metadata.annotations or names_two_groups(pod) else group_name_of(pod)
    return JobKey(f"{pod.metadata.namespace}/{group}") if group else None


def role_of(pod: Pod) -> str:
    """In a group of scheduling.k8s.io, that is the group itself: a job may have several."""
    if pod.spec.scheduling_group is not None:
        return pod.spec.scheduling_group.pod_group_name
    return pod.metadata.annotations.get(names.TASK_SPEC) or pod.metadata.labels.get(names.TASK_SPEC, "")


def is_preemptable(pod: Pod) -> bool:
    label = pod.metadata.labels.get(names.PREEMPTABLE, "true")
    return pod.metadata.annotations.get(names.PREEMPTABLE, label).lower() != "false"


_KEPT_RUNNING_BY = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"})


def ends_by_itself(pod: Pod) -> bool:
    """False for pods of services: their owner keeps so many of them running. Static pods do not end either. A pod that
    states how long it runs ends. Of other pods nobody can tell, so they are taken to end some day."""
    meta = pod.metadata
    if names.ESTIMATE in meta.annotations:
        return True
    kept = any(owner.controller and owner.kind in _KEPT_RUNNING_BY for owner in meta.owner_references)
    return not kept and names.MIRROR not in meta.annotations


def task_priority(pod: Pod) -> int:
    annotation = pod.metadata.annotations.get(names.TASK_PRIORITY)
    if annotation is not None:
        try:
            return int(annotation)
        except ValueError:
            pass
    return 1 if pod.spec.priority is None else pod.spec.priority


def index_of(name: str) -> int:
    """The number at the end of a pod's name, by which the tasks of a job are ordered; -1 if there is none."""
    match = _INDEX.search(name)
    return int(match.group(1)) if match else -1


def is_ready(node: Node) -> bool:
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")


def namespace_weight(value: str | int | float) -> int | None:
    """The weight of a quota, a quantity such as `3`, `3.0` or `1k`; None if it is not a whole number of at least 1."""
    try:
        weight = parse_quantity(value)
    except QuantityError:
        return None
    return weight.numerator if weight.denominator == 1 and weight >= 1 else None


def why_it_waits(pod: Pod) -> tuple[str, str, str] | None:
    """What the status of a pod without a node says, the node that it nominates, and the record of refused binds; None
    if it says nothing."""
    if pod.spec.node_name:
        return None
    status = pod.status
    for condition in status.conditions:
        if condition.type == "PodScheduled":
            return condition.message, status.nominated_node_name, refusals_of(pod)
    return None


def refusals_of(pod: Pod) -> str:
    """The record of refused binds in the status of a pod without a node; "" if there is none."""
    if pod.spec.node_name:
        return ""
    return next((c.message for c in pod.status.conditions if c.type == REFUSED_CONDITION), "")
