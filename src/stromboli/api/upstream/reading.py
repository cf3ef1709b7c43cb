"""What the status of a group of `scheduling.k8s.io` says.

It has conditions and no phase. So our own conditions are there under our own names, and two of them stand for what our
kind has fields for: whether its queue has admitted it, and which queue that is. The queue is chosen once, when the
group has its first pods: a later change of an annotation must not move running pods from one queue to another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from stromboli.api import names
from stromboli.api.kinds.batch import PodGroupCondition, PodGroupStatus
from stromboli.api.kinds.metadata import Condition
from stromboli.api.kinds.workloads import CompositePodGroup, WorkloadPodGroup

PREFIX: Final = "scheduling.stromboli.io/"
ADMITTED: Final = "scheduling.stromboli.io/Admitted"
"""Its reason is the phase."""
QUEUE: Final = "scheduling.stromboli.io/Queue"

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
COMPOSITE_INITIALLY_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
DISRUPTION_TARGET: Final = "DisruptionTarget"
OF_KUBERNETES: Final = (INITIALLY_SCHEDULED, COMPOSITE_INITIALLY_SCHEDULED, DISRUPTION_TARGET)
"""The types that Kubernetes defines. We write them, too."""

NO_REASON: Final = "None"
"""A condition on a server must have a reason."""
_SAID_QUEUE: Final = re.compile(r"The queue of the group is (.+)\.")
_WITH_ID: Final = re.compile(r"(.*?) ?\[transition (\S+)\]", re.DOTALL)


def said_queue(queue: str) -> str:
    return f"The queue of the group is {queue}."


def said_with_id(message: str, transition_id: str) -> str:
    """These conditions have no field for it."""
    return f"{message} [transition {transition_id}]".lstrip()


def queue_in_force(group: WorkloadPodGroup | CompositePodGroup) -> str:
    """The queue that was chosen, else the one that the group names; "" if it names none."""
    for condition in group.status.conditions:
        if condition.type == QUEUE and (found := _SAID_QUEUE.fullmatch(condition.message)):
            return found[1]
    return group.metadata.annotations.get(names.QUEUE_NAME, "")


def read_status(conditions: Iterable[Condition]) -> PodGroupStatus:
    """In the order of the types: the server has its own."""
    status = PodGroupStatus()
    for condition in conditions:
        if condition.type == ADMITTED:
            status.phase = condition.reason
        elif condition.type in OF_KUBERNETES:
            status.conditions.append(_ours(condition, condition.type))
        elif condition.type.startswith(PREFIX):
            status.conditions.append(_ours(condition, condition.type.removeprefix(PREFIX)))
    status.conditions.sort(key=lambda one: one.type)
    return status


def _ours(condition: Condition, kind: str) -> PodGroupCondition:
    message, transition_id = condition.message, condition.last_transition_time or ""
    if found := _WITH_ID.fullmatch(message):
        message, transition_id = found[1], found[2]
    return PodGroupCondition(
        type=kind,
        status=condition.status,
        reason="" if condition.reason == NO_REASON else condition.reason,
        message=message,
        last_transition_time=condition.last_transition_time,
        transition_id=transition_id,
    )
