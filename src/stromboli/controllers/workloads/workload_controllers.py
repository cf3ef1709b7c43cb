"""The controllers of all workloads as one: they share what is known of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stromboli.api import ControllerRevision, KObject, Node, Pod, ReplicaSet
from stromboli.controllers.changes import Change, Objects
from stromboli.controllers.pod_owners import controlling_reference

from .batch_jobs import BatchJobController
from .daemon_sets import DaemonSetController
from .deployments import DeploymentController
from .owned_pods import TRACKING, OwnedPods
from .replica_sets import ReplicaSetController
from .stateful_sets import StatefulSetController
from .surroundings import Surroundings
from .workload_controller import WorkloadController


class WorkloadControllers:
    def __init__(self, surroundings: Surroundings) -> None:
        self._pods: Final = OwnedPods(by_name=surroundings.is_virtual)
        self._stateful_sets = StatefulSetController(self._pods, surroundings)
        self._jobs = BatchJobController(self._pods, surroundings)
        self._daemon_sets = DaemonSetController(self._pods, surroundings)
        replica_sets = ReplicaSetController(self._pods, surroundings)
        self._deployments = DeploymentController(self._pods, surroundings)
        self._controllers: tuple[WorkloadController[Any], ...] = (
            self._deployments, replica_sets, self._stateful_sets, self._daemon_sets, self._jobs,
        )  # fmt: skip
        self._by_kind: dict[type[Any], WorkloadController[Any]] = {one.kind: one for one in self._controllers}
        self._by_name = {one.kind().kind: one for one in self._controllers}

    @property
    def observes(self) -> Sequence[type[KObject]]:
        return (Pod, Node, ControllerRevision, *self._by_kind)

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        self.changed(obj, exists=after is not None)

    def changed(self, obj: KObject, *, exists: bool) -> None:
        """An object was created, changed or deleted."""
        if isinstance(obj, Pod):
            owners = list(self._pods.update(obj, exists=exists))
            if exists and TRACKING in obj.metadata.finalizers and not _is_of_job(obj):
                self._jobs.pod_is_loose(obj)
            for kind, owner, pod in owners:
                if kind in self._by_name:
                    self._by_name[kind].pod_changed(owner, pod)
                if kind == ReplicaSet.__name__ and not pod.is_active:
                    self._deployments.pod_of_set_ended(owner)
            if not exists:
                self._stateful_sets.name_is_free(obj)
            return
        if isinstance(obj, ControllerRevision):
            self._stateful_sets.revision_changed(obj, exists=exists)
            self._daemon_sets.revision_changed(obj, exists=exists)
            return
        if isinstance(obj, Node):
            self._daemon_sets.node_changed(obj, exists=exists)
            return
        self._by_kind[type(obj)].changed(obj, exists=exists)
        if isinstance(obj, ReplicaSet):
            self._deployments.set_changed(obj, exists=exists)
        if not exists:
            self._pods.owner_deleted(obj.kind, obj.metadata.namespace, obj.metadata.name, obj.metadata.uid)

    def create_failed(self, owner: KObject, now: float) -> None:
        """An object for the owner could not be created: it is tried again later."""
        self._by_kind[type(owner)].create_failed(f"{owner.metadata.namespace}/{owner.metadata.name}", now)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for controller in self._controllers:
            changes += controller.reconcile(objects, now)
        return changes

    @property
    def unfinished(self) -> bool:
        """Whether the last pass left work for the next one, although nothing changed."""
        return any(controller.unfinished for controller in self._controllers)

    def next_due(self, now: float) -> float | None:
        dues = (controller.next_due(now) for controller in self._controllers)
        return min((due for due in dues if due is not None), default=None)


def _is_of_job(pod: Pod) -> bool:
    reference = controlling_reference(pod.metadata)
    return reference is not None and (reference.api_version, reference.kind) == ("batch/v1", "Job")
