"""What the controllers of workloads have in common: the pods of an owner, and new pods from its template."""

from __future__ import annotations

import copy
from typing import Any

from stromboli.embedded.kinds import Object, dig
from stromboli.embedded.store import Record, Store

FINISHED = ("Succeeded", "Failed")


def pods_of(store: Store, uid: str) -> list[tuple[Record, Object]]:
    """The pods that an object controls."""
    return [
        (record, record.value())
        for record in store.dependents(uid)
        if record.key.resource == "pods"
        and any(owner.uid == uid and owner.controller for owner in record.metadata.owner_references)
    ]


def phase(pod: Object) -> str:
    return str(dig(pod, "status", "phase", default=""))


def is_terminating(pod: Object) -> bool:
    return dig(pod, "metadata", "deletionTimestamp") is not None


def is_ready(pod: Object) -> bool:
    conditions = dig(pod, "status", "conditions", default=[])
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def pod_from_template(owner: Object, *, finalizers: list[str] | None = None) -> dict[str, Any]:
    template = copy.deepcopy(dig(owner, "spec", "template", default={}))
    metadata = template.get("metadata") or {}
    written: dict[str, Any] = {
        "generateName": f"{owner['metadata']['name']}-",
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "ownerReferences": [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if finalizers:
        written["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "Pod", "metadata": written, "spec": template.get("spec") or {}}


def deletion_order(pods: list[tuple[Record, Object]]) -> list[tuple[Record, Object]]:
    """Whom a smaller set loses first: pods without a node, then those that are not ready, then the youngest."""

    def rank(one: tuple[Record, Object]) -> tuple[bool, bool, bool]:
        pod = one[1]
        return bool(dig(pod, "spec", "nodeName")), phase(pod) == "Running", is_ready(pod)

    youngest_first = sorted(pods, key=lambda one: one[0].metadata.creation_timestamp or "", reverse=True)
    return sorted(youngest_first, key=rank)
