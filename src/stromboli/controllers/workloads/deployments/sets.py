"""The ReplicaSets of a Deployment: which has the present template, and what their annotations say.

    deployment.kubernetes.io/revision            the place of its template in the history, which `kubectl rollout` reads
    deployment.kubernetes.io/desired-replicas    the size of the Deployment when it was last divided among the sets
    deployment.kubernetes.io/max-replicas        how many pods all of them might have together then

A set with another size in its annotation than the Deployment has now tells that the Deployment was scaled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from stromboli.api import Deployment, LabelSelector, ObjectMeta, ReplicaSet, ReplicaSetSpec, RollingUpdateDeployment
from stromboli.controllers.workloads.amounts import resolved
from stromboli.controllers.workloads.pod_template import TEMPLATE_HASH, controlled_by, fingerprint, template_hash

REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
_OWN: Final = {
    REVISION, DESIRED, MOST, "deployment.kubernetes.io/revision-history", "deprecated.deployment.rollback.to",
    "kubectl.kubernetes.io/last-applied-configuration",
}  # fmt: skip
"""Annotations of Deployments and of sets that are not passed on."""


@dataclass(frozen=True, slots=True)
class Sets:
    new: ReplicaSet | None  # with the present template
    old: Sequence[ReplicaSet]  # in the order in which they were created

    @property
    def every(self) -> list[ReplicaSet]:
        return [*self.old, *([] if self.new is None else [self.new])]


def sets_among(deployment: Deployment, owned: Sequence[ReplicaSet]) -> Sets:
    in_order = sorted(owned, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))
    wanted = fingerprint(deployment.spec.template)
    new = next((one for one in in_order if fingerprint(one.spec.template) == wanted), None)
    return Sets(new, [one for one in in_order if one is not new])


def surge_and_unavailable(deployment: Deployment) -> tuple[int, int]:
    """How many pods there may be above the number that is wanted, and how many of that number may be missing."""
    spec = deployment.spec
    if spec.strategy.type == "Recreate":
        return 0, spec.replicas
    rolling = spec.strategy.rolling_update or RollingUpdateDeployment(max_surge="25%", max_unavailable="25%")
    surge = resolved(rolling.max_surge, spec.replicas, round_up=True)
    unavailable = resolved(rolling.max_unavailable, spec.replicas, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def revision_of(metadata: ObjectMeta) -> int:
    return _number(metadata.annotations, REVISION) or 0


def desired_in(replicas: ReplicaSet) -> int | None:
    return _number(replicas.metadata.annotations, DESIRED)


def most_in(replicas: ReplicaSet) -> int | None:
    return _number(replicas.metadata.annotations, MOST)


def next_revision(sets: Sets) -> int:
    """Of the set with the present template: above all others. One that is used again gets a new number."""
    return max((revision_of(one.metadata) for one in sets.old), default=0) + 1


def new_set(deployment: Deployment, revision: int, size: int) -> ReplicaSet:
    template = deployment.spec.template
    name = template_hash(template, deployment.status.collision_count)
    mark = {TEMPLATE_HASH: name}
    labels = template.metadata.labels | mark
    selector = deployment.spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{name}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            annotations=_passed_on(deployment) | {REVISION: str(revision)} | sizes(deployment),
            owner_references=[controlled_by(deployment)],
        ),
        spec=ReplicaSetSpec(
            replicas=size,
            min_ready_seconds=deployment.spec.min_ready_seconds,
            selector=replace(selector, match_labels=selector.match_labels | mark),
            template=replace(template, metadata=replace(template.metadata, labels=labels)),
        ),
    )


def brought_up_to_date(replicas: ReplicaSet, deployment: Deployment, revision: int) -> ReplicaSet:
    """The set with the present template, with what the Deployment passes on."""
    number = max(revision, revision_of(replicas.metadata))
    annotations = replicas.metadata.annotations | _passed_on(deployment) | {REVISION: str(number)}
    return replace(
        replicas,
        metadata=replace(replicas.metadata, annotations=annotations),
        spec=replace(replicas.spec, min_ready_seconds=deployment.spec.min_ready_seconds),
    )


def resized(replicas: ReplicaSet, deployment: Deployment, size: int) -> ReplicaSet:
    annotations = replicas.metadata.annotations | sizes(deployment)
    metadata = replace(replicas.metadata, annotations=annotations)
    return replace(replicas, metadata=metadata, spec=replace(replicas.spec, replicas=max(0, size)))


def sizes(deployment: Deployment) -> dict[str, str]:
    wanted = deployment.spec.replicas
    return {DESIRED: str(wanted), MOST: str(wanted + surge_and_unavailable(deployment)[0])}


def _passed_on(deployment: Deployment) -> dict[str, str]:
    return {name: value for name, value in deployment.metadata.annotations.items() if name not in _OWN}


def _number(annotations: Mapping[str, str], name: str) -> int | None:
    text = annotations.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
