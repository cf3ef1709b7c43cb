"""The Deployment controller: one ReplicaSet for each template that a Deployment has had, and the steps between them.

A visit finds the ReplicaSets of a Deployment and does one step: make the set for the present template, or resize sets
(`rollout`), or delete sets beyond the history. The ReplicaSet controller makes and deletes the pods, which leads to the
next visit. A paused Deployment is scaled, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from stromboli.api import Deployment, ReplicaSet, key
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update
from stromboli.controllers.workloads.dependents import Dependents
from stromboli.controllers.workloads.owned_pods import OwnedPods
from stromboli.controllers.workloads.surroundings import Surroundings
from stromboli.controllers.workloads.workload_controller import WorkloadController

from .deployment_status import Present, deadline_of, is_complete, status_of
from .rollout import Sizes, first_size, next_sizes, sizes_while_paused
from .sets import (
    REVISION,
    Sets,
    brought_up_to_date,
    new_set,
    next_revision,
    resized,
    revision_of,
    sets_among,
)


class DeploymentController(WorkloadController[Deployment]):
    kind = Deployment

    def __init__(self, pods: OwnedPods, surroundings: Surroundings) -> None:
        super().__init__(pods, surroundings)
        self._sets = Dependents(ReplicaSet, Deployment)

    def set_changed(self, replicas: ReplicaSet, *, exists: bool) -> None:
        """A ReplicaSet was created, changed or deleted."""
        self._queue.add_all(self._sets.update(replicas, exists=exists))

    def pod_of_set_ended(self, set_key: str) -> None:
        """Who recreates pods waits for the last one. The set said nothing: it did not count this one any more."""
        if (owner := self._sets.owner_of(set_key)) is not None:
            self._queue.add(owner)

    def _visit(self, owner: Deployment, objects: Objects, most: int, now: float) -> Iterable[Change]:
        if owner.metadata.deletion_timestamp is not None:
            return
        sets = sets_among(owner, list(self._sets.of(owner, objects)))
        if owner.spec.paused:
            yield from _resize(owner, sets, sizes_while_paused(owner, sets))
            yield from self._tell(owner, sets, now)
            return
        revision = next_revision(sets)
        if sets.new is None:
            yield from self._begin(owner, sets, revision, objects, now)
            return
        new = brought_up_to_date(sets.new, owner, revision)
        if new != sets.new:
            yield Update(new)
            yield from self._tell(owner, sets, now, revision_of(new.metadata))
            return
        sizes = next_sizes(owner, sets, old_pods=self._pods_left(sets.old))
        yield from _resize(owner, sets, sizes)
        yield from self._tell(owner, sets, now, revision_of(new.metadata))
        if is_complete(owner, owner.status):
            yield from _beyond_history(owner, sets)

    def _begin(self, owner: Deployment, sets: Sets, revision: int, objects: Objects, now: float) -> Iterable[Change]:
        """Make the set for the present template."""
        made = new_set(owner, revision, first_size(owner, sets, old_pods=self._pods_left(sets.old)))
        if objects.get(ReplicaSet, key(made)) is not None:  # of somebody else: another name
            status = replace(owner.status, collision_count=owner.status.collision_count + 1)
            yield Update(replace(owner, status=status))
            return
        yield Create(made, owner.spec.template)
        yield from self._tell(owner, sets, now, revision, has_created=True)

    def _tell(
        self, owner: Deployment, sets: Sets, now: float, revision: int | None = None, *, has_created: bool = False
    ) -> Iterable[Change]:
        status = status_of(Present(owner, sets, now, self._in.stamp(now), has_created))
        self._queue.set_due(key(owner), deadline_of(owner, status))
        annotations = owner.metadata.annotations
        if revision is not None:
            annotations = annotations | {REVISION: str(revision)}
        if status != owner.status or annotations != owner.metadata.annotations:
            yield Update(replace(owner, metadata=replace(owner.metadata, annotations=annotations), status=status))

    def _pods_left(self, sets: Iterable[ReplicaSet]) -> int:
        pods = (self._pods.of(one.kind, one.metadata.namespace, one.metadata.name, one.metadata.uid) for one in sets)
        return sum(of_set.unfinished for of_set in pods)


def _resize(owner: Deployment, sets: Sets, sizes: Sizes) -> Iterator[Change]:
    for one in sets.every:
        size = sizes.get(key(one))
        if size is not None:
            after = resized(one, owner, size)
            if after != one:
                yield Update(after)


def _beyond_history(owner: Deployment, sets: Sets) -> Iterator[Change]:
    limit = owner.spec.revision_history_limit
    empty = [one for one in sets.old if not one.spec.replicas and not one.status.replicas]
    empty = [one for one in empty if one.metadata.deletion_timestamp is None]
    empty.sort(key=lambda one: revision_of(one.metadata))
    for one in empty[: max(0, len(empty) - limit)] if limit is not None else ():
        yield Delete(one, reason="the Deployment keeps enough later ones")
