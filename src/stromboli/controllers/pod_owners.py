"""Who owns a pod.

A cluster writes owner references with uids. The author of a scenario does not know the uids, because the API server
assigns them. So an owner that we can see is identified by kind and name, and its own uid counts. The uid in the
reference is used only for owners that we cannot see, such as a DaemonSet.
"""

from __future__ import annotations

from stromboli.api import BatchCronJob, CronJob, Job, JobFlow, ObjectMeta, OwnerReference, Pod, ReplicaSet, StatefulSet

from .changes import Objects

Owner = ReplicaSet | StatefulSet | Job

FINISHED = frozenset({"Succeeded", "Failed"})
"""Final phases of a pod."""

_JOB_API_GROUP = "batch.volcano.sh/"


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def was_evicted(pod: Pod) -> bool:
    """Whether the node evicted the pod and left its object behind."""
    return pod.status.phase == "Failed" and pod.status.reason == "Evicted"


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def owner_reference_to(owner: Owner | CronJob | BatchCronJob | JobFlow | Pod) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def controlling_reference(metadata: ObjectMeta) -> OwnerReference | None:
    """The reference with `controller: true`. One to a ReplicaSet needs no such mark: a set adopts pods that name it."""
    for reference in metadata.owner_references:
        if reference.controller:
            return reference
    for reference in metadata.owner_references:
        if reference.kind == "ReplicaSet":
            return reference
    return None


def refers_to_job(reference: OwnerReference) -> bool:
    """Whether the owner is a Job of Volcano's API group. Kubernetes has a Job of its own (batch/v1)."""
    return reference.kind == "Job" and reference.api_version.startswith(_JOB_API_GROUP)


def refers_to_cron_job(reference: OwnerReference) -> bool:
    return reference.kind == "CronJob" and reference.api_version.startswith(_JOB_API_GROUP)


def refers_to_job_flow(reference: OwnerReference) -> bool:
    return reference.kind == "JobFlow" and reference.api_version.partition("/")[0] == "flow.volcano.sh"


def find_owner(reference: OwnerReference, namespace: str, objects: Objects) -> Owner | None:
    key = f"{namespace}/{reference.name}"
    if reference.kind == "ReplicaSet":
        return objects.get(ReplicaSet, key)
    if _refers_to_stateful_set(reference):
        return objects.get(StatefulSet, key)
    if refers_to_job(reference):
        return objects.get(Job, key)
    return None


def is_watched_kind(reference: OwnerReference) -> bool:
    """Whether we would see the owner if it existed, on servers that have its kind."""
    return reference.kind == "ReplicaSet" or _refers_to_stateful_set(reference) or refers_to_job(reference)


def _refers_to_stateful_set(reference: OwnerReference) -> bool:
    """Others have a kind of this name in groups of their own."""
    return reference.kind == "StatefulSet" and reference.api_version.startswith("apps/")
