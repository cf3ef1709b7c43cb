"""Who replaces a pod that leaves, and whether that owner is at rest.

A pod that nobody replaces would be lost, so it stays where it is. A set in the middle of a rollout, or one that is
scaled down, may delete the successor at once. One that starts its pods in order does not make the successor before all
pods in front of it run.
"""

from __future__ import annotations

from collections import Counter

from stromboli.api import Job, Pod, ReplicaSet, StatefulSet, key, names
from stromboli.api.migration_reservations import controlling_owner
from stromboli.api.upstream import UpstreamGroup
from stromboli.cluster import Status, Task, TaskKey
from stromboli.descheduling.planning import OrderedSets, View

_SERVES = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
_VOLCANO = "batch.volcano.sh/"
_GONE = (Status.SUCCEEDED, Status.FAILED, Status.RELEASING)


class Owners:
    def __init__(self, view: View) -> None:
        self._view = view
        self._objects = view.objects
        self._ordered = OrderedSets(view.objects)
        self._replicas: Counter[tuple[str, str, str]] | None = None
        self._sets_of: dict[str, list[ReplicaSet]] | None = None

    def replicas(self, task: Task) -> int:
        """How many pods its owner has, that neither finished nor terminate."""
        owner = controlling_owner(task.pod)
        if owner is None:
            return 0
        if self._replicas is None:
            self._replicas = Counter()
            for each in self._tasks():
                reference = controlling_owner(each.pod)
                if reference is not None and each.status not in _GONE:
                    self._replicas[each.namespace, reference.kind, reference.name] += 1
        return self._replicas[task.namespace, owner.kind, owner.name]

    def _tasks(self) -> list[Task]:
        seen: dict[TaskKey, Task] = {}
        for node in self._view.nodes.nodes:
            seen.update(node.tasks)
        for job in self._view.session.jobs:
            seen.update(job.tasks)
        return list(seen.values())

    def refusal(self, task: Task) -> str | None:
        """Why a successor is not certain; None if it is."""
        if task.job is not None and isinstance(task.job.object, UpstreamGroup):
            return "it is in a PodGroup of scheduling.k8s.io, which has no place to write down how far a move is"
        owner = controlling_owner(task.pod)
        if owner is None:
            return "it has no owner that would replace it"
        name = f"{task.namespace}/{owner.name}"
        if owner.kind == "ReplicaSet":
            return self._set_refusal(task, self._objects.get(ReplicaSet, name))
        if owner.kind == "StatefulSet":
            return self._stateful_refusal(task, self._objects.get(StatefulSet, name))
        if owner.kind == "Job" and owner.api_version.startswith(_VOLCANO):
            return self._job_refusal(task, self._objects.get(Job, name))
        return _completion_refusal(task) if owner.kind not in _SERVES else None

    def _set_refusal(self, task: Task, owner: ReplicaSet | None) -> str | None:
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return "its ReplicaSet is gone"
        if not owner.spec.replicas:
            return "its ReplicaSet is scaled to 0"
        deployment = controlling_owner_uid(owner)
        if deployment:
            others = [each for each in self._of_deployment(deployment) if each.spec.replicas]
            if len(others) > 1:
                return "its Deployment is rolled out"
        if self.replicas(task) != owner.spec.replicas:
            return f"its ReplicaSet has {self.replicas(task)} of {owner.spec.replicas} pods"
        return None

    def _of_deployment(self, uid: str) -> list[ReplicaSet]:
        if self._sets_of is None:
            self._sets_of = {}
            for each in self._objects.list(ReplicaSet):
                self._sets_of.setdefault(controlling_owner_uid(each), []).append(each)
        return self._sets_of.get(uid, [])

    def _stateful_refusal(self, task: Task, owner: StatefulSet | None) -> str | None:
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return "its StatefulSet is gone"
        status = owner.status
        if status.update_revision and status.current_revision and status.update_revision != status.current_revision:
            return "its StatefulSet is rolled out"
        if self.replicas(task) != owner.spec.replicas:
            return f"its StatefulSet has {self.replicas(task)} of {owner.spec.replicas} pods"
        before = self._ordered.first_idle_before(task.key, key(owner))
        if before is not None:
            return f"its successor would come after pod {before.metadata.name}, which does not run"
        return None

    def _job_refusal(self, task: Task, owner: Job | None) -> str | None:
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return "its Job is gone"
        if owner.status.state.phase != "Running":
            return f"its Job is {owner.status.state.phase or 'Pending'}"
        if task.job is not None and task.job.goes_whole:
            return "its Job restarts or stops as a whole when a pod is evicted"
        return _completion_refusal(task)


def controlling_owner_uid(owner: ReplicaSet) -> str:
    return next((each.uid for each in owner.metadata.owner_references if each.controller), "")


def _completion_refusal(task: Task) -> str | None:
    """A pod that runs to completion loses its work, so somebody must have agreed to that."""
    if _agrees(task.pod) or (task.job is not None and task.job.object is not None and _agrees(task.job.object)):
        return None
    return f"it runs to completion, and no annotation {names.MOVABLE} allows to move it"


def _agrees(obj: Pod | object) -> bool:
    annotations: dict[str, str] = getattr(obj, "metadata").annotations  # noqa: B009
    return annotations.get(names.MOVABLE, "").lower() == "true"
