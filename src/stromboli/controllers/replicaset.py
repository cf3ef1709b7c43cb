"""The ReplicaSet controller: it creates the missing pods of a set and deletes surplus ones.

It replaces Kubernetes' own controller where that one does not run, and reproduces only what a scheduler can observe. A
pod counts until it is evicted or deleted. One second later it is replaced, under a new name. The second is the time
that a cluster takes to react, and it allows another pending pod to take the free resources first.

    evicted or deleted at t         t + 1
    ───────────┬─────────────────────┬──────────▶
               │ delayed             │ created, as <set>-<n>

A finished pod still counts as a replica. On a real node its containers restart and it never finishes. Where a pod of a
set does finish, its author has given it a duration, and does not expect a replacement.

All that is remembered is in the set: its status counts the pods there were, so one that is gone since is noticed also
after a restart; annotations have the times at which pods may be replaced (`replacement_times`), and the last number
used, because a name that is used twice would mix up the records of two pods.

The garbage collector deletes the pods of a deleted set, not this controller.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from stromboli.api import KObject, ObjectMeta, Pod, ReplicaSet, ReplicaSetStatus, key

from .changes import Change, Create, Delete, Objects, Update
from .pod_index import PodIndex, owner_of
from .pod_owners import controlling_reference, is_finished, is_terminating, owner_reference_to, was_evicted
from .replacement_times import REPLACEMENT_DELAY, read_replacements, with_replacements
from .work_queue import WorkQueue

LAST_REPLICA = "scheduling.stromboli.io/last-replica"


class ReplicaSetController:
    observes: ClassVar = (ReplicaSet, Pod)

    def __init__(self, pods: PodIndex) -> None:
        self._pods = pods
        self._sets = WorkQueue()

    def pod_deleted(self, pod: Pod) -> None:
        reference = controlling_reference(pod.metadata)
        if reference is not None and reference.kind == "ReplicaSet":
            self._sets.add(f"{pod.metadata.namespace}/{reference.name}")

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        for version in (before, after):
            if isinstance(version, ReplicaSet):
                self._sets.add(key(version))
            elif isinstance(version, Pod) and (owner := owner_of(version)) is not None and owner[0] == "ReplicaSet":
                self._sets.add(f"{owner[1]}/{owner[2]}")

    def next_due(self, now: float) -> float | None:
        return self._sets.next_due(now)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for set_key in self._sets.take(now):
            replica_set = objects.get(ReplicaSet, set_key)
            if replica_set is not None and replica_set.metadata.deletion_timestamp is None:
                of_set = self._reconcile_set(replica_set, self._pods.of_replica_set(replica_set), objects, now)
                if of_set:
                    self._sets.add(set_key)
                changes += of_set
        return changes

    def _reconcile_set(self, replica_set: ReplicaSet, pods: list[Pod], objects: Objects, now: float) -> list[Change]:
        set_key = key(replica_set)
        active = [pod for pod in pods if not (is_terminating(pod) or was_evicted(pod) or is_finished(pod))]
        finished = sum(is_finished(pod) and not (is_terminating(pod) or was_evicted(pod)) for pod in pods)
        desired = max(0, replica_set.spec.replicas - finished)
        surplus = _deletion_order(active)[: max(0, len(active) - desired)]
        left = len(active) - len(surplus)

        delayed = {due: _number(many) for due, many in read_replacements(replica_set.metadata).items() if due > now}
        gone = min(replica_set.status.replicas, desired) - len(active)  # since the last visit
        if gone > 0:
            delayed[now + REPLACEMENT_DELAY] = delayed.get(now + REPLACEMENT_DELAY, 0) + gone
        self._sets.set_due(set_key, min(delayed, default=None))

        changes: list[Change] = [Delete(pod, reason="the ReplicaSet was scaled down") for pod in surplus]
        missing = max(0, desired - len(active) - sum(delayed.values()))
        last = _last_number(replica_set, pods)
        for _ in range(missing):
            last += 1
            while objects.get(Pod, f"{set_key}-{last}") is not None:
                last += 1
            changes.append(Create(_new_pod(replica_set, last)))
        running = sum(pod.status.phase == "Running" for pod in active)
        return _update(replica_set, left, running, delayed, last if missing else None) + changes


def _update(
    replica_set: ReplicaSet, replicas: int, running: int, delayed: dict[float, int], last: int | None
) -> list[Change]:
    """`replicas`: without those that the set deletes itself, which nobody replaces."""
    status = ReplicaSetStatus(
        replicas=replicas,
        ready_replicas=running,
        available_replicas=running,
        observed_generation=replica_set.status.observed_generation,
    )
    metadata = replica_set.metadata
    annotations = with_replacements(metadata.annotations, {due: str(many) for due, many in delayed.items()})
    if last is not None:
        annotations[LAST_REPLICA] = str(last)
    if status == replica_set.status and annotations == metadata.annotations:
        return []
    return [Update(replace(replica_set, metadata=replace(metadata, annotations=annotations), status=status))]


def _new_pod(replica_set: ReplicaSet, number: int) -> Pod:
    template = replica_set.spec.template
    return Pod(
        metadata=ObjectMeta(
            name=f"{replica_set.metadata.name}-{number}",
            namespace=replica_set.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations=dict(template.metadata.annotations),
            owner_references=[owner_reference_to(replica_set)],
        ),
        spec=replace(template.spec),
    )


def _last_number(replica_set: ReplicaSet, pods: list[Pod]) -> int:
    numbers = [_number(replica_set.metadata.annotations.get(LAST_REPLICA, ""))]
    prefix = f"{replica_set.metadata.name}-"
    for pod in pods:
        if pod.metadata.name.startswith(prefix):
            numbers.append(_number(pod.metadata.name.removeprefix(prefix)))
    return max(numbers)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


def _deletion_order(pods: list[Pod]) -> list[Pod]:
    """Pods without a node first, then those that do not run yet, then the youngest."""

    def age(pod: Pod) -> tuple[str, int, str]:
        return (pod.metadata.creation_timestamp or "", len(pod.metadata.name), pod.metadata.name)

    youngest_first = sorted(pods, key=age, reverse=True)
    return sorted(youngest_first, key=lambda pod: (bool(pod.spec.node_name), pod.status.phase == "Running"))
