"""Whether a successor can still come for a place that is kept.

A workload replaces a pod that was evicted, unless it has all the pods that it wants: it was scaled down, it ended, or
the successor runs elsewhere because its place could not be used. Then the place would be kept for nobody.
A set that starts its pods in order replaces it when all before it run.
Where the workload is of a kind that we do not know, a successor may come until the time of the place is over.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import NamedTuple, TypeVar

from stromboli.api import Job, KObject, Pod, ReplicaSet, Reservation, StatefulSet
from stromboli.api.migration_reservations import Migration, controlling_owner, migration_of
from stromboli.api.reservations import may_use, uses
from stromboli.cluster.object_fields import role_of
from stromboli.descheduling.planning import Objects, OrderedSets

_OVER = frozenset({"Completing", "Completed", "Terminating", "Terminated", "Aborting", "Aborted", "Failed"})


T = TypeVar("T", bound=KObject)


class _Workload(NamedTuple):
    """`role`: of the pods of a Job; others have none."""

    namespace: str
    kind: str
    name: str
    role: str


class Successors:
    """As of one pass."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._ordered = OrderedSets(objects)

    def can_come(self, move: Migration) -> bool:
        """Or has come, and its place is not yet shown as used."""
        workload = _workload_of(move)
        wanted = None if workload is None else self._wanted(workload)
        if workload is None or wanted is None or self._is_used(move):
            return True
        return self._placed[workload] < wanted

    def waits(self, move: Migration) -> bool:
        """Whether a successor is there and has no node."""
        return not self._is_used(move) and any(may_use(move.reservation, pod) for pod in self._waiting)

    def first_idle_before(self, move: Migration) -> Pod | None:
        """The pod that must run before a successor comes, does not, and moves to no place of its own."""
        workload = _workload_of(move)
        if workload is None or workload.kind != "StatefulSet":
            return None
        return self._ordered.first_idle_before(move.pod, f"{workload.namespace}/{workload.name}", moving=self._moving)

    def _wanted(self, workload: _Workload) -> int | None:
        """How many pods it is to have; None if that is unknown."""
        key = f"{workload.namespace}/{workload.name}"
        match workload.kind:
            case "ReplicaSet":
                found = _present(self._objects.get(ReplicaSet, key))
                return 0 if found is None else found.spec.replicas
            case "StatefulSet":
                stateful = _present(self._objects.get(StatefulSet, key))
                return 0 if stateful is None else stateful.spec.replicas
            case "Job":
                job = _present(self._objects.get(Job, key))
                if job is None or job.status.state.phase in _OVER:
                    return 0
                return sum(task.replicas for task in job.spec.tasks if task.name == workload.role)
        return None

    def _is_used(self, move: Migration) -> bool:
        for owner in move.reservation.status.current_owners:
            pod = self._objects.get(Pod, f"{owner.namespace}/{owner.name}")
            if pod is not None and pod.metadata.deletion_timestamp is None and uses(move.reservation, pod):
                return True
        return False

    @cached_property
    def _moving(self) -> frozenset[str]:
        migrations = (migration_of(reservation) for reservation in self._objects.list(Reservation))
        return frozenset(move.pod for move in migrations if move is not None and move.evicting_since is not None)

    @cached_property
    def _waiting(self) -> list[Pod]:
        waiting = (pod for pod in self._pods if not pod.spec.node_name and pod.status.phase in ("", "Pending"))
        return [pod for pod in waiting if pod.metadata.deletion_timestamp is None]

    @cached_property
    def _placed(self) -> Counter[_Workload]:
        """How many pods of each workload have a node, or have done their work."""
        return Counter(workload for pod in self._pods if _counts(pod) and (workload := _workload(pod)) is not None)

    @cached_property
    def _pods(self) -> list[Pod]:
        return list(self._objects.list(Pod))


def _present(obj: T | None) -> T | None:
    return None if obj is None or obj.metadata.deletion_timestamp is not None else obj


def _workload_of(move: Migration) -> _Workload | None:
    reservation = move.reservation
    controller = next((o.controller for o in reservation.spec.owners if o.controller is not None), None)
    if controller is None:
        return None
    template = reservation.spec.template
    role = "" if template is None else role_of(Pod(metadata=template.metadata))
    return _known(controller.namespace, controller.api_version, controller.kind, controller.name, role)


def _workload(pod: Pod) -> _Workload | None:
    owner = controlling_owner(pod)
    if owner is None:
        return None
    return _known(pod.metadata.namespace, owner.api_version, owner.kind, owner.name, role_of(pod))


def _known(namespace: str, api_version: str, kind: str, name: str, role: str) -> _Workload | None:
    if kind == "Job":
        return _Workload(namespace, kind, name, role) if api_version.startswith("batch.volcano.sh/") else None
    return _Workload(namespace, kind, name, "")


def _counts(pod: Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    return bool(pod.spec.node_name) and pod.status.phase != "Failed" and pod.metadata.deletion_timestamp is None
