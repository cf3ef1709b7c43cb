"""New pods from the template of a set or a Job."""

from __future__ import annotations

import copy
from typing import Any

from stromboli.embedded.kinds import Object, dig


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
