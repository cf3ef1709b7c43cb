"""The ReplicaSet controller: it creates the missing pods of a set and deletes surplus ones.

It replaces Kubernetes' own controller where that one does not run, and reproduces only what a scheduler can observe. A
pod counts until it is evicted or deleted. One second later it is replaced, under a new name. The second is the time
that a cluster takes to react, and it allows another pending pod to take the free resources first.

    evicted or deleted at t         t + 1
    ───────────┬─────────────────────┬──────────▶
               │ delayed             │ created, as <set>-<n>

A finished pod still counts as a replica. On a real node its containers restart and it never finishes. Where a pod of a
set does finish, its author has given it a duration, and does not expect a replacement.

The delays are kept in memory only: after a restart the missing pods are created at once. The last number used is an
annotation of the set, because a name that is used twice would mix up the records of two pods.

The garbage collector deletes the pods of a deleted set, not this controller.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from stromboli.api import KObject, ObjectMeta, Pod, ReplicaSet, ReplicaSetStatus, key

from .changes import Change, Create, Delete, Objects, Update
from .deletion_tracker import DeletionTracker
from .pod_index import PodIndex, owner_of
from .pod_owners import controlling_reference, is_finished, is_terminating, owner_reference_to, was_evicted
from .work_queue import WorkQueue

REPLACEMENT_DELAY = 1.0
LAST_REPLICA = "scheduling.stromboli.io/last-replica"


class ReplicaSetController:
    observes: ClassVar = (ReplicaSet, Pod)

    def __init__(self, pods: PodIndex) -> None:
        self._pods = pods
        self._sets = WorkQueue()
        self._replacement_times: dict[str, list[float]] = {}  # by set: when each deleted pod may be replaced
        self._deletions = DeletionTracker()

    def pod_deleted(self, pod: Pod, now: float) -> None:
        reference = controlling_reference(pod.metadata)
        if reference is not None and reference.kind == "ReplicaSet":
            set_key = f"{pod.metadata.namespace}/{reference.name}"
            self._note_deletion(set_key, pod, now)
            self._sets.add(set_key)
            self._set_due(set_key, now)

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
        self._deletions.prune(objects)
        for set_key in self._sets.take(now):
            replica_set = objects.get(ReplicaSet, set_key)
            if replica_set is None:
                self._replacement_times.pop(set_key, None)
            elif replica_set.metadata.deletion_timestamp is None:
                of_set = self._reconcile_set(replica_set, self._pods.of_replica_set(replica_set), objects, now)
                if of_set:
                    self._sets.add(set_key)
                changes += of_set
            self._set_due(set_key, now)
        return changes

    def _set_due(self, set_key: str, now: float) -> None:
        dues = (due for due in self._replacement_times.get(set_key, ()) if due > now)
        self._sets.set_due(set_key, min(dues, default=None))

    def _note_deletion(self, set_key: str, pod: Pod, now: float) -> None:
        if self._deletions.is_unexpected(pod):
            self._replacement_times.setdefault(set_key, []).append(now + REPLACEMENT_DELAY)

    def _reconcile_set(self, replica_set: ReplicaSet, pods: list[Pod], objects: Objects, now: float) -> list[Change]:
        set_key = key(replica_set)
        active = []
        finished = 0
        for pod in pods:
            if is_terminating(pod) or was_evicted(pod):
                self._note_deletion(set_key, pod, now)
            elif is_finished(pod):
                finished += 1
            else:
                active.append(pod)
        delayed = [due for due in self._replacement_times.pop(set_key, []) if due > now]
        if delayed:
            self._replacement_times[set_key] = delayed

        changes: list[Change] = []
        desired = max(0, replica_set.spec.replicas - finished)
        for pod in _deletion_order(active)[: max(0, len(active) - desired)]:
            self._deletions.expect_deletion(pod)
            changes.append(Delete(pod, reason="the ReplicaSet was scaled down"))
        missing = max(0, desired - len(active) - len(delayed))
        last = _last_number(replica_set, pods)
        for _ in range(missing):
            last += 1
            while objects.get(Pod, f"{set_key}-{last}") is not None:
                last += 1
            changes.append(Create(_new_pod(replica_set, last)))
        return _status_update(replica_set, active, last if missing else None) + changes


def _status_update(replica_set: ReplicaSet, active: list[Pod], last: int | None) -> list[Change]:
    running = sum(pod.status.phase == "Running" for pod in active)
    status = ReplicaSetStatus(
        replicas=len(active),
        ready_replicas=running,
        available_replicas=running,
        observed_generation=replica_set.status.observed_generation,
    )
    metadata = replica_set.metadata
    if last is not None:
        metadata = replace(metadata, annotations={**metadata.annotations, LAST_REPLICA: str(last)})
    if status == replica_set.status and metadata is replica_set.metadata:
        return []
    return [Update(replace(replica_set, metadata=metadata, status=status))]


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
