"""Why a pod waits whose objects the scheduler had to ignore.

The scheduler hides invalid objects from the cluster state, and says of a pod whose group is hidden that the group does
not exist. But its author sees the group. So what was hidden, and why, replaces such a reason here:

    the pod itself           its requests are larger than any number we can count with
    its PodGroup, its queue  the object breaks a rule that an older API server did not check
    its queue annotation     no PodGroup can be created with it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stromboli.api import ApiError, KObject, Pod, PodGroup, Queue, names
from stromboli.api.validation import rules
from stromboli.cluster import Cluster, Task, TaskKey
from stromboli.scheduling.decisions import Decision, Explanation, PatchPod
from stromboli.scheduling.explanation import reasons
from stromboli.scheduling.explanation.reasons import Code

Hidden = Mapping[tuple[type[KObject], str], str]
"""Why objects are hidden, by kind and key."""


def with_true_reasons(decisions: Iterable[Decision], cluster: Cluster, hidden: Hidden) -> Iterator[Decision]:
    """The decisions about orphans, with what is true of hidden objects. Nothing that the pod says already."""
    for decision in decisions:
        if isinstance(decision, PatchPod):
            task = cluster.tasks[decision.task]
            why = _true_reason(task, hidden)
            if why is not None:
                if not says(task.pod, why.message):
                    yield PatchPod(decision.task, why.code, why.message, decision.nominated, decision.refused)
                continue
        yield decision


def invalid_pod(key: str, why: str) -> PatchPod:
    return PatchPod(TaskKey(key), Code.INVALID_OBJECT, reasons.invalid_pod(why))


def says(pod: Pod, message: str) -> bool:
    return any(c.type == "PodScheduled" and c.message == message for c in pod.status.conditions)


def _true_reason(task: Task, hidden: Hidden) -> Explanation | None:
    job = task.job
    if job is None:
        queue = task.pod.metadata.annotations.get(names.QUEUE_NAME, "")
        if not queue or _is_queue_name(queue):
            return None
        return Explanation(Code.INVALID_OBJECT, reasons.invalid_queue_annotation(queue))
    if job.object is None:
        return _hidden("PodGroup", job.key, hidden.get((PodGroup, job.key)))
    return _hidden("Queue", job.queue.name, hidden.get((Queue, job.queue.name)))


def _hidden(kind: str, key: str, why: str | None) -> Explanation | None:
    return None if why is None else Explanation(Code.INVALID_OBJECT, reasons.invalid_object(kind, key, why))


def _is_queue_name(text: str) -> bool:
    try:
        rules.dns_subdomain(text, "")
    except ApiError:
        return False
    return True
