"""Admission: what an API server does to an object before it is stored.

It sets fields of pods: the priority, which comes from a PriorityClass, our scheduler if the pod names none, and the
gate of its queue if the pod opts in to that. And it rejects objects because of the state of the cluster. Objects that
are invalid by themselves are rejected before the run.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stromboli.api import (
    ApiError,
    Job,
    KObject,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    names,
    validate_queue_tree,
    validate_submission,
    with_queue_gate,
)
from stromboli.api.upstream import UpstreamGroup, as_pod_group, as_written
from stromboli.grammar import plural

from .store import Store


def admit(obj: KObject, store: Store, *, before: KObject | None = None, by_user: bool = False) -> KObject:
    """The object as it is stored; raises ApiError if it is rejected. `before` is the version that it replaces.

    The groups that controllers generate are not checked: their pods exist already, and a group says why they wait.
    """
    match obj:
        case Pod() if before is None:
            return with_queue_gate(_with_priority(obj, store))
        case Pod():
            same_class = isinstance(before, Pod) and before.spec.priority_class_name == obj.spec.priority_class_name
            return obj if same_class else _with_priority(obj, store)
        case Job() if before is None:
            _check_queue(obj.spec.queue, "jobs", store)
        case UpstreamGroup():
            return obj if before is not None else _with_group_priority(obj, store)
        case PodGroup() if before is None and by_user:
            _check_queue(obj.spec.queue, "groups", store)
        case Queue() if not isinstance(before, Queue) or _place(before) != _place(obj):
            validate_queue_tree(obj, store.list(Queue))
        case _:
            pass
    return obj


def check_deletion(obj: KObject, store: Store) -> None:
    """Raise ApiError if the object cannot be deleted."""
    if not isinstance(obj, Queue):
        return
    name = obj.metadata.name
    groups = sum(group.spec.queue == name for group in store.list(PodGroup))
    if groups:
        raise ApiError("", f"the queue still has {plural(groups, 'pod group')}")
    if any(queue.spec.parent == name for queue in store.list(Queue)):
        raise ApiError("", "the queue is the parent of other queues")


def _with_priority(pod: Pod, store: Store) -> Pod:
    spec = pod.spec
    found: PriorityClass | None = None
    if spec.priority_class_name:
        found = store.get(PriorityClass, spec.priority_class_name)
        if found is None:
            raise ApiError("spec.priorityClassName", f'there is no PriorityClass "{spec.priority_class_name}"')
    elif spec.priority is None:
        found = _default_class(store)
    priority = found.value if found is not None else spec.priority or 0
    policy = spec.preemption_policy or (found.preemption_policy if found is not None else "")
    scheduler = spec.scheduler_name or names.DEFAULT_SCHEDULER
    return replace(pod, spec=replace(spec, priority=priority, preemption_policy=policy, scheduler_name=scheduler))


def _with_group_priority(group: UpstreamGroup, store: Store) -> UpstreamGroup:
    written, spec = as_written(group), group.original.spec
    found = store.get(PriorityClass, spec.priority_class_name) if spec.priority_class_name else _default_class(store)
    if found is None and spec.priority_class_name:
        raise ApiError("spec.priorityClassName", f'there is no PriorityClass "{spec.priority_class_name}"')
    priority = 0 if found is None else found.value
    if spec.priority not in (None, priority):
        raise ApiError("spec.priority", f"must not be given: it comes from the class, and is {priority}")
    filled: Any = replace(spec, priority=priority)
    return as_pod_group(replace(group.original, metadata=written.metadata, spec=filled))


def _default_class(store: Store) -> PriorityClass | None:
    marked = [known for known in store.list(PriorityClass) if known.global_default]
    return max(marked, key=lambda known: known.value, default=None)


def _check_queue(name: str, what: str, store: Store) -> None:
    has_children = any(other.spec.parent == name for other in store.list(Queue))
    validate_submission(name, what, store.get(Queue, name), has_children=has_children)


def _place(queue: Queue) -> tuple[object, ...]:
    """What the rules between queues depend on."""
    return queue.spec, queue.metadata.annotations.get(names.HIERARCHY)
