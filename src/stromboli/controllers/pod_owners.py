"""Who owns a pod, and all pods of a pass sorted by it.

A cluster writes owner references with uids. People who write a scenario by hand do not know them: the API
server hands uids out. So an owner that stands before us is recognised by its kind and name, and its own uid
counts; the uid in the reference is believed only of owners we cannot see (a StatefulSet, say).

Every controller asks for "the pods of this owner" or "the pods of this group". `PodIndex` walks the pods
once for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from stromboli.api import Job, ObjectMeta, OwnerReference, Pod, PodGroup, ReplicaSet, names

from .changes import Objects

Owner = ReplicaSet | Job

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases a pod does not come back from."""

_JOB_GROUP = "batch.volcano.sh/"


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def was_evicted(pod: Pod) -> bool:
    """Whether a node threw the pod out and left its object behind."""
    return pod.status.phase == "Failed" and pod.status.reason == "Evicted"


def is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def reference_to(owner: ReplicaSet | Job | Pod) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def controlling_reference(metadata: ObjectMeta) -> OwnerReference | None:
    """The reference marked as controller. One to a ReplicaSet needs no mark: a set adopts what names it."""
    for reference in metadata.owner_references:
        if reference.controller:
            return reference
    for reference in metadata.owner_references:
        if reference.kind == "ReplicaSet":
            return reference
    return None


def refers_to_job(reference: OwnerReference) -> bool:
    """Kubernetes has a Job of its own (batch/v1), which is not ours to keep."""
    return reference.kind == "Job" and reference.api_version.startswith(_JOB_GROUP)


def find_owner(reference: OwnerReference, namespace: str, objects: Objects) -> Owner | None:
    key = f"{namespace}/{reference.name}"
    if reference.kind == "ReplicaSet":
        return objects.get(ReplicaSet, key)
    if refers_to_job(reference):
        return objects.get(Job, key)
    return None


def is_visible_kind(reference: OwnerReference) -> bool:
    """Whether we would see the owner if it existed."""
    return reference.kind == "ReplicaSet" or refers_to_job(reference)


def group_of(pod: Pod) -> str:
    """The name of the pod's group, or nothing."""
    annotations = pod.metadata.annotations
    return annotations.get(names.GROUP_NAME) or annotations.get(names.GROUP_NAME_VOLCANO, "")


class PodIndex:
    """The pods of one pass, in the order of their keys.

    Built in every pass, whether or not anything has changed, so the loop is written for speed: no key is put together
    that nobody may ask for.
    """

    def __init__(self, objects: Objects) -> None:
        self.without_group: list[Pod] = []
        self._by_group: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
        self._by_owner: defaultdict[tuple[str, str, str], list[Pod]] = defaultdict(list)
        self._by_namespace: defaultdict[str, list[Pod]] | None = None
        self._pods = objects.list(Pod)
        for pod in self._pods:
            metadata = pod.metadata
            namespace = metadata.namespace
            if metadata.owner_references:
                reference = controlling_reference(metadata)
                if reference is not None and is_visible_kind(reference):
                    self._by_owner[reference.kind, namespace, reference.name].append(pod)
            group = group_of(pod)
            if group:
                self._by_group[namespace, group].append(pod)
            else:
                self.without_group.append(pod)

    def of_replica_set(self, replica_set: ReplicaSet) -> list[Pod]:
        return self._by_owner.get(("ReplicaSet", replica_set.metadata.namespace, replica_set.metadata.name), [])

    def of_job(self, job: Job) -> list[Pod]:
        return self._by_owner.get(("Job", job.metadata.namespace, job.metadata.name), [])

    def of_missing_groups(self, present: Collection[tuple[str, str]]) -> Iterator[Pod]:
        """Pods whose groups, named by namespace and name, are not among those that are there."""
        for place, pods in self._by_group.items():
            if place not in present:
                yield from pods

    def has_pods(self, group: PodGroup) -> bool:
        return (group.metadata.namespace, group.metadata.name) in self._by_group

    def in_namespace(self, namespace: str) -> list[Pod]:
        if self._by_namespace is None:
            self._by_namespace = defaultdict(list)
            for pod in self._pods:
                self._by_namespace[pod.metadata.namespace].append(pod)
        return self._by_namespace.get(namespace, [])
