"""Who owns a pod, and all pods of a pass sorted by it.

A cluster writes owner references with uids. People who write a scenario by hand do not know them: the API
server hands uids out. So an owner that stands before us is recognised by its kind and name, and its own uid
counts; the uid in the reference is believed only of owners we cannot see (a StatefulSet, say).

Every controller asks for "the pods of this owner" or "the pods of this group". `PodIndex` walks the pods
once for all of them.
"""

from __future__ import annotations

from stromboli.api import Job, ObjectMeta, OwnerReference, Pod, ReplicaSet, names

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
    for name in names.GROUP_NAMES:
        if group := annotations.get(name):
            return group
    return ""


class PodIndex:
    """The pods of one pass, in the order of their keys."""

    def __init__(self, objects: Objects) -> None:
        self._by_owner: dict[tuple[str, str], list[Pod]] = {}
        self.without_group: list[Pod] = []
        self.by_group: dict[str, list[Pod]] = {}  # by the key that the group has, or would have
        self._by_namespace: dict[str, list[Pod]] = {}
        for pod in objects.list(Pod):
            namespace = pod.metadata.namespace
            self._by_namespace.setdefault(namespace, []).append(pod)
            if pod.metadata.owner_references:
                reference = controlling_reference(pod.metadata)
                if reference is not None and is_visible_kind(reference):
                    owner = (reference.kind, f"{namespace}/{reference.name}")
                    self._by_owner.setdefault(owner, []).append(pod)
            if group := group_of(pod):
                self.by_group.setdefault(f"{namespace}/{group}", []).append(pod)
            else:
                self.without_group.append(pod)

    def of_replica_set(self, key: str) -> list[Pod]:
        return self._by_owner.get(("ReplicaSet", key), [])

    def of_job(self, key: str) -> list[Pod]:
        return self._by_owner.get(("Job", key), [])

    def in_namespace(self, namespace: str) -> list[Pod]:
        return self._by_namespace.get(namespace, [])
