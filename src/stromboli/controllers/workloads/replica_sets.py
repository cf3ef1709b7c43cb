"""The ReplicaSet controller: as many pods as the set wants, neither going nor evicted.

In a simulation (`surroundings`) a pod that is evicted or deleted is replaced one second later, under a new name. The
second is the time that a cluster takes to react, and it allows another pending pod to take the free resources first.

    evicted or deleted at t         t + 1
    ───────────┬─────────────────────┬──────────▶
               │ delayed             │ created, as <set>-<n>

And a finished pod still counts as a replica there. On a real node its containers restart and it never finishes. Where a
pod of a set does finish, its author has given it a duration, and does not expect a replacement.

All that is remembered is in the set: its status counts the pods there were, so one that is gone since is noticed also
after a restart; an annotation has the times at which pods may be replaced (`replacement_times`).

The garbage collector deletes the pods of a deleted set, not this controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest

from msgspec.structs import replace

from stromboli.api import ObjectMeta, Pod, ReplicaSet, ReplicaSetStatus, key
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update

from .owned_pods import OwnedPod, PodsOfOwner
from .pod_names import PodNames
from .pod_template import pod_from_template
from .replacement_times import REPLACEMENT_DELAY, read_numbers, with_replacements
from .workload_controller import WorkloadController


class ReplicaSetController(WorkloadController[ReplicaSet]):
    kind = ReplicaSet

    def _visit(self, owner: ReplicaSet, objects: Objects, most: int, now: float) -> Iterable[Change]:
        if owner.metadata.deletion_timestamp is not None:
            return
        pods = self._pods_of(owner)
        # A server refuses larger sets now. One that was stored before must not fill the memory all the same.
        wanted = min(owner.spec.replicas, MAX_JOB_REPLICAS)
        if self._in.is_virtual:
            wanted = max(0, wanted - pods.kept)
        surplus = surplus_of(pods, len(pods.active) - wanted, most)
        left = len(pods.active) - len(surplus)
        delayed = self._delayed(owner, pods, wanted, now)
        missing = min(wanted - len(pods.active) - sum(delayed.values()), most)
        names = PodNames(owner, pods.pods.values(), objects, self._in)
        new = [pod_from_template(owner, name) for _, name in zip(range(missing), names.names(), strict=False)]
        available, at = pods.available(owner.spec.min_ready_seconds, now)
        self._wake(key(owner), at)
        status = replace(
            owner.status,
            replicas=left,
            fully_labeled_replicas=left,
            ready_replicas=pods.ready,
            available_replicas=available,
            observed_generation=owner.metadata.generation,
        )
        annotations = names.annotations()
        if self._in.is_virtual:
            annotations = with_replacements(annotations, {due: str(many) for due, many in delayed.items()})
        yield from updated(owner, status, annotations)
        for pod in surplus:
            yield Delete(stand_in(pod), reason="the ReplicaSet was scaled down")
        for created in new:
            yield Create(created, owner.spec.template)

    def _delayed(self, owner: ReplicaSet, pods: PodsOfOwner, wanted: int, now: float) -> dict[float, int]:
        """How many pods are to be replaced later, by the time."""
        if not self._in.is_virtual:
            return {}
        delayed = read_numbers(owner.metadata, now)
        gone = min(owner.status.replicas, wanted) - len(pods.active)  # since the last visit
        if gone > 0:
            delayed[now + REPLACEMENT_DELAY] = delayed.get(now + REPLACEMENT_DELAY, 0) + gone
        self._queue.set_due(key(owner), min(delayed, default=None))
        return delayed


def surplus_of(pods: PodsOfOwner, many: int, most: int) -> list[OwnedPod]:
    return nsmallest(min(max(0, many), most), pods.active.values(), key=lambda pod: pod.rank)


def stand_in(pod: OwnedPod) -> Pod:
    """What identifies a pod that is to be deleted."""
    namespace, _, name = pod.key.partition("/")
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=pod.uid))


def updated(owner: ReplicaSet, status: ReplicaSetStatus, annotations: dict[str, str]) -> list[Change]:
    if status == owner.status and annotations == owner.metadata.annotations:
        return []
    return [Update(replace(owner, metadata=replace(owner.metadata, annotations=annotations), status=status))]
