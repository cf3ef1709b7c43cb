"""The rules for what makes pods from templates: those of the API server that decide which pods there are."""

from __future__ import annotations

from stromboli.api.kinds.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from stromboli.api.kinds.jobs import BatchJob

from .jobs import check_batch_job, check_batch_job_spec
from .sets import check_daemon_set, check_deployment, check_set, check_stateful_set

PodOwner = ReplicaSet | StatefulSet | Deployment | DaemonSet | BatchJob


def check_pod_owner(owner: PodOwner) -> None:
    match owner:
        case Deployment():
            check_deployment(owner)
        case DaemonSet():
            check_daemon_set(owner)
        case StatefulSet():
            check_stateful_set(owner)
        case BatchJob():
            check_batch_job(owner)
        case _:
            check_set(owner)


__all__ = ["PodOwner", "check_batch_job_spec", "check_pod_owner"]
