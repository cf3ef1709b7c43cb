"""The rules for what makes pods from templates: those of the API server that decide which pods there are."""

from __future__ import annotations

from stromboli.api.kinds.apps import Deployment, ReplicaSet, StatefulSet

from .sets import check_deployment, check_set

PodOwner = ReplicaSet | StatefulSet | Deployment


def check_pod_owner(owner: PodOwner) -> None:
    match owner:
        case Deployment():
            check_deployment(owner)
        case _:
            check_set(owner)


__all__ = ["PodOwner", "check_pod_owner"]
