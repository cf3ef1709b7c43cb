"""New objects from the template of a workload.

Our types hold only the fields that we read, but a pod that really runs needs all of them. So a server gives its
workloads templates of the type `WrittenTemplate`, which also have what was written. A controller treats both types
alike: it builds a pod, and says in the change which template the pod is made from. Where there is something written,
the caller takes that, with what the controller set or changed on top.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stromboli.api import (
    BatchJob,
    ControllerRevision,
    DaemonSet,
    Deployment,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodTemplateSpec,
    ReplicaSet,
    StatefulSet,
)

TEMPLATE_HASH: Final = "pod-template-hash"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes: no vowels, so that no words come out


class WrittenTemplate(PodTemplateSpec):
    written: dict[str, Any] = msgspec.field(default_factory=dict)


Workload = ReplicaSet | StatefulSet | DaemonSet | BatchJob | Deployment


def pod_from_template(
    owner: ReplicaSet | StatefulSet | DaemonSet | BatchJob, name: str, source: ControllerRevision | None = None
) -> Pod:
    """A name that ends with "-" is completed by the server."""
    template = (owner.spec if source is None else source.data.spec).template
    is_prefix = name.endswith("-")
    return Pod(
        metadata=ObjectMeta(
            name="" if is_prefix else name,
            generate_name=name if is_prefix else "",
            namespace=owner.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations=dict(template.metadata.annotations),
            finalizers=list(template.metadata.finalizers),
            owner_references=[controlled_by(owner)],
        ),
        spec=replace(template.spec),
    )


def controlled_by(owner: Any) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version, kind=owner.kind, name=owner.metadata.name, uid=owner.metadata.uid,
        controller=True, block_owner_deletion=True,
    )  # fmt: skip


def is_controlled_by(metadata: ObjectMeta, owner: Workload) -> bool:
    reference = next((one for one in metadata.owner_references if one.controller), None)
    return reference is not None and reference.uid == owner.metadata.uid


def fingerprint(template: PodTemplateSpec) -> bytes:
    """Equal for templates that make equal pods. The hash that a ReplicaSet adds to its labels is none of it."""
    if isinstance(template, WrittenTemplate):
        content = dict(template.written)
    else:
        content = msgspec.to_builtins(template)
    metadata = dict(content.get("metadata") or {})
    labels = {name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != TEMPLATE_HASH}
    metadata = {name: value for name, value in metadata.items() if value} | ({"labels": labels} if labels else {})
    return msgspec.json.encode({**content, "metadata": metadata}, order="sorted")


def template_hash(template: PodTemplateSpec, collisions: int = 0) -> str:
    """A short name for a template. Another one for each number of collisions."""
    digest = int.from_bytes(sha256(fingerprint(template) + str(collisions).encode()).digest()[:8])
    letters = []
    for _ in range(10):
        digest, rest = divmod(digest, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)
