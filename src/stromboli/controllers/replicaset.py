"""Replica sets: as many pods as they ask for, and a new one for each that went.

This stands in for Kubernetes' own controller wherever there is none, which is why it keeps to what a
scheduler can notice of it. A pod counts until it is told to leave. One second later it is replaced, under a
new name: the second is the time a cluster takes to notice, and it is what lets another pending pod take the
room first.

    evicted or deleted at t         t + 1
    ───────────┬─────────────────────┬──────────▶
               │ held back           │ made, as <set>-<n>

A pod that has finished keeps its place. On a node the containers of such a pod start again and it never
finishes at all; where one does, somebody has said how long it is to run, and replacing it for ever is not
what they meant.

The seconds that are running are memory and nothing more: after a restart the missing pods are made at once.
The last number used is an annotation of the set, because a name used twice would make one story of two
pods.

Pods of a set that is gone are not its business: whoever collects what owners leave behind deletes them.
"""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api import ObjectMeta, Pod, ReplicaSet, ReplicaSetStatus, key

from .changes import Change, Create, Delete, Objects, Update
from .deletion_tracker import Departures
from .pod_owners import PodIndex, controlling_reference, is_finished, is_leaving, reference_to, was_evicted

REPLACEMENT_DELAY = 1.0
LAST_REPLICA = "scheduling.stromboli.io/last-replica"


class ReplicaSetController:
    def __init__(self) -> None:
        self._held_back: dict[str, list[float]] = {}  # set -> when each pod that went may be replaced
        self._departures = Departures()

    def pod_gone(self, pod: Pod, now: float) -> None:
        reference = controlling_reference(pod.metadata)
        if reference is not None and reference.kind == "ReplicaSet":
            self._note_departure(f"{pod.metadata.namespace}/{reference.name}", pod, now)

    def next_due(self, now: float) -> float | None:
        return min((due for dues in self._held_back.values() for due in dues if due > now), default=None)

    def reconcile(self, objects: Objects, pods: PodIndex, now: float) -> list[Change]:
        changes: list[Change] = []
        self._departures.forget_gone(objects)
        seen: set[str] = set()
        for replica_set in objects.list(ReplicaSet):
            set_key = key(replica_set)
            seen.add(set_key)
            if replica_set.metadata.deletion_timestamp is None:
                changes += self._keep(replica_set, pods.of_replica_set(replica_set), objects, now)
        for set_key in [known for known in self._held_back if known not in seen]:
            del self._held_back[set_key]
        return changes

    def _note_departure(self, set_key: str, pod: Pod, now: float) -> None:
        if self._departures.is_news(pod):
            self._held_back.setdefault(set_key, []).append(now + REPLACEMENT_DELAY)

    def _keep(self, replica_set: ReplicaSet, pods: list[Pod], objects: Objects, now: float) -> list[Change]:
        set_key = key(replica_set)
        active = []
        finished = 0
        for pod in pods:
            if is_leaving(pod) or was_evicted(pod):
                self._note_departure(set_key, pod, now)
            elif is_finished(pod):
                finished += 1
            else:
                active.append(pod)
        held_back = [due for due in self._held_back.pop(set_key, []) if due > now]
        if held_back:
            self._held_back[set_key] = held_back

        changes: list[Change] = []
        wanted = max(0, replica_set.spec.replicas - finished)
        for pod in _least_missed(active)[: max(0, len(active) - wanted)]:
            self._departures.expect(pod)
            changes.append(Delete(pod, reason="the ReplicaSet was scaled down"))
        missing = max(0, wanted - len(active) - len(held_back))
        last = _last_number(replica_set, pods)
        for _ in range(missing):
            last += 1
            while objects.get(Pod, f"{set_key}-{last}") is not None:
                last += 1
            changes.append(Create(_replica(replica_set, last)))
        return _with_bookkeeping(replica_set, active, last if missing else None) + changes


def _with_bookkeeping(replica_set: ReplicaSet, active: list[Pod], last: int | None) -> list[Change]:
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


def _replica(replica_set: ReplicaSet, number: int) -> Pod:
    template = replica_set.spec.template
    return Pod(
        metadata=ObjectMeta(
            name=f"{replica_set.metadata.name}-{number}",
            namespace=replica_set.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations=dict(template.metadata.annotations),
            owner_references=[reference_to(replica_set)],
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


def _least_missed(pods: list[Pod]) -> list[Pod]:
    """Those without a node first, then those that do not run yet, then the youngest."""

    def age(pod: Pod) -> tuple[str, int, str]:
        return (pod.metadata.creation_timestamp or "", len(pod.metadata.name), pod.metadata.name)

    youngest_first = sorted(pods, key=age, reverse=True)
    return sorted(youngest_first, key=lambda pod: (bool(pod.spec.node_name), pod.status.phase == "Running"))
