"""The templates that a StatefulSet or a DaemonSet has had, as ControllerRevisions.

While a set passes from one template to the next it has pods of both, and a pod of the earlier one may have to be made
again. So each template is kept, and pods say in a label which one they are from. `kubectl rollout undo` writes an
earlier one back.

Templates are compared when the set has changed since the controller saw it last. So a set that is copied from a cluster
without its revisions (a rehearsal) goes on with the ones that its status names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from stromboli.api import (
    ControllerRevision,
    DaemonSet,
    ObjectMeta,
    PodTemplateSpec,
    RevisionData,
    RevisionSpec,
    StatefulSet,
)
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update

from .owned_pods import REVISION
from .pod_template import controlled_by, fingerprint, template_hash


@dataclass(slots=True)
class Revisions:
    owned: Sequence[ControllerRevision]
    present: str  # the name of the one with the present template
    changes: list[Change] = field(default_factory=list)
    collisions: int | None = None  # a number for the status of the set, if it has to be written first

    def named(self, name: str) -> ControllerRevision | None:
        return next((one for one in self.owned if one.metadata.name == name), None)

    def beyond(self, limit: int | None, live: set[str]) -> Iterator[Change]:
        """The oldest ones that no pod is from, above the number that is kept."""
        spare = sorted((one for one in self.owned if one.metadata.name not in live), key=lambda one: one.revision)
        for one in spare[: max(0, len(spare) - (10 if limit is None else limit))]:
            yield Delete(one, reason="its set keeps enough later revisions")


def revisions_of(
    owner: StatefulSet | DaemonSet,
    owned: Sequence[ControllerRevision],
    objects: Objects,
    *,
    present: str = "",
    may_be_copy: bool = False,
) -> Revisions:
    """`present`: the name of the one with the present template, if the set has not changed since it was found.
    `may_be_copy`: if there are none at all, they were left behind."""
    if present and ((may_be_copy and not owned) or any(one.metadata.name == present for one in owned)):
        return Revisions(owned, present)
    wanted = fingerprint(owner.spec.template)
    last = max((one.revision for one in owned), default=0)
    found = next((one for one in owned if fingerprint(one.data.spec.template) == wanted), None)
    if found is not None:
        again: list[Change] = [] if found.revision == last else [Update(replace(found, revision=last + 1))]
        return Revisions(owned, found.metadata.name, again)
    collisions = owner.status.collision_count or 0
    mark = template_hash(owner.spec.template, collisions)
    made = ControllerRevision(
        metadata=ObjectMeta(
            name=f"{owner.metadata.name}-{mark}",
            namespace=owner.metadata.namespace,
            labels=owner.spec.template.metadata.labels | {REVISION: mark},
            annotations=dict(owner.metadata.annotations),
            owner_references=[controlled_by(owner)],
        ),
        data=RevisionData(spec=RevisionSpec(template=owner.spec.template)),
        revision=last + 1,
    )
    if objects.get(ControllerRevision, f"{made.metadata.namespace}/{made.metadata.name}") is not None:
        return Revisions(owned, "", collisions=collisions + 1)  # of somebody else: another name
    return Revisions([*owned, made], made.metadata.name, [Create(made, owner.spec.template)])


def template_of(revision: ControllerRevision | None, owner: StatefulSet | DaemonSet) -> PodTemplateSpec:
    return owner.spec.template if revision is None else revision.data.spec.template
