"""The pods of a StatefulSet, and the claims that are made for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from stromboli.api import ControllerRevision, ObjectMeta, PersistentVolumeClaim, Pod, PodTemplateSpec, StatefulSet

from .owned_pods import REVISION
from .pod_template import pod_from_template
from .revisions import template_of

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


def numbered_pod(
    owner: StatefulSet, number: int, revision_name: str, revision: ControllerRevision | None
) -> tuple[Pod, PodTemplateSpec]:
    """The pod, and the template that it is made from."""
    name = f"{owner.metadata.name}-{number}"
    pod = pod_from_template(owner, name, revision)
    marks = {POD_NAME: name, POD_INDEX: str(number), REVISION: revision_name}
    mounted: dict[str, dict[str, Any]] = {
        template.metadata.name: {
            "name": template.metadata.name,
            "persistentVolumeClaim": {"claimName": claim.metadata.name},
        }
        for template, claim in zip(owner.spec.volume_claim_templates, claims_of(owner, number), strict=True)
    }
    volumes = [volume for volume in pod.spec.volumes if volume.get("name") not in mounted]
    made = replace(
        pod,
        metadata=replace(pod.metadata, labels=pod.metadata.labels | marks),
        spec=replace(
            pod.spec,
            hostname=name,
            subdomain=owner.spec.service_name,
            volumes=[*volumes, *mounted.values()] if mounted else pod.spec.volumes,
        ),
    )
    return made, template_of(revision, owner)


def claims_of(owner: StatefulSet, number: int) -> Iterator[PersistentVolumeClaim]:
    labels = owner.spec.selector.match_labels if owner.spec.selector is not None else {}
    for template in owner.spec.volume_claim_templates:
        yield PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=f"{template.metadata.name}-{owner.metadata.name}-{number}",
                namespace=owner.metadata.namespace,
                labels=template.metadata.labels | labels,
                annotations=dict(template.metadata.annotations),
            ),
            spec=replace(template.spec),
        )
