"""The StatefulSet controller: pods with numbers, each replaced under its own name.

It replaces Kubernetes' own controller where that one does not run, and reproduces only what a scheduler can observe.
Pods are created in the order of their numbers, each when all before it run, unless `podManagementPolicy` is Parallel. A
pod that is gone is created again one second later, under the same name. That a pod is gone follows from the status of
the set, which counts the pods there were, and an annotation has the time of its replacement (`replacement_times`): so
restarts change nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from stromboli.api import KObject, ObjectMeta, OwnerReference, Pod, StatefulSet, StatefulSetStatus, key
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update
from stromboli.controllers.pod_owners import is_terminating
from stromboli.controllers.work_queue import WorkQueue

from .replacement_times import REPLACEMENT_DELAY, read_replacements, with_replacements


class StatefulSetController:
    observes: ClassVar = (StatefulSet, Pod)

    def __init__(self) -> None:
        self._sets = WorkQueue()

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        for version in (before, after):
            if isinstance(version, StatefulSet):
                self._sets.add(key(version))
            elif isinstance(version, Pod) and (owner := _set_of(version)) is not None:
                self._sets.add(owner)

    def pod_deleted(self, pod: Pod) -> None:
        owner = _set_of(pod)
        if owner is not None:
            self._sets.add(owner)

    def next_due(self, now: float) -> float | None:
        return self._sets.next_due(now)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for set_key in self._sets.take(now):
            owner = objects.get(StatefulSet, set_key)
            if owner is not None and owner.metadata.deletion_timestamp is None:
                of_set = self._reconcile_set(owner, objects, now)
                if of_set:
                    self._sets.add(set_key)
                changes += of_set
        return changes

    def _reconcile_set(self, owner: StatefulSet, objects: Objects, now: float) -> list[Change]:
        set_key = key(owner)
        pods = {number: objects.get(Pod, f"{set_key}-{number}") for number in range(owner.spec.replicas)}
        there = {number for number, pod in pods.items() if pod is not None and not is_terminating(pod)}
        running = {number for number in there if _runs(pods[number])}
        times = self._replacements(owner, [number for number in pods if number not in there], now)
        missing = _to_create(owner, pods, running, times, now)
        for number in missing:
            times.pop(number, None)
        changes: list[Change] = [Create(_new_pod(owner, number)) for number in missing]
        self._sets.set_due(set_key, min((due for due in times.values() if due > now), default=None))
        changes += self._surplus(owner, objects)
        status: StatefulSetStatus = replace(
            owner.status, replicas=len(there), ready_replicas=len(running), available_replicas=len(running)
        )
        by_time: dict[float, str] = {}
        for number, due in sorted(times.items()):
            by_time[due] = f"{by_time[due]},{number}" if due in by_time else str(number)
        annotations = with_replacements(owner.metadata.annotations, by_time)
        if status != owner.status or annotations != owner.metadata.annotations:
            metadata = replace(owner.metadata, annotations=annotations)
            changes.append(Update(replace(owner, metadata=metadata, status=status)))
        return changes

    def _replacements(self, owner: StatefulSet, missing: list[int], now: float) -> dict[int, float]:
        """When each of the missing pods may be created. Those that never were there wait for their turn in any case."""
        times: dict[int, float] = {}
        for due, numbers in read_replacements(owner.metadata).items():
            named = set(numbers.split(","))
            times |= {number: due for number in missing if str(number) in named}
        if owner.spec.replicas - len(missing) < min(owner.status.replicas, owner.spec.replicas):
            for number in missing:
                times.setdefault(number, now + REPLACEMENT_DELAY)
        return times

    def _surplus(self, owner: StatefulSet, objects: Objects) -> list[Change]:
        """The pod with the highest number goes first."""
        number = owner.spec.replicas
        surplus = []
        while (pod := objects.get(Pod, f"{key(owner)}-{number}")) is not None:
            if not is_terminating(pod):
                surplus.append(pod)
            number += 1
        return [Delete(surplus[-1], reason="the StatefulSet was scaled down")] if surplus else []


def _runs(pod: Pod | None) -> bool:
    return pod is not None and pod.status.phase in ("Running", "Succeeded")


def _to_create(
    owner: StatefulSet, pods: dict[int, Pod | None], running: set[int], times: dict[int, float], now: float
) -> list[int]:
    """The numbers of the pods that are created now. In order means: the next when all before it run."""
    in_order = owner.spec.pod_management_policy != "Parallel"
    found: list[int] = []
    for number, pod in pods.items():
        if pod is None and times.get(number, now) <= now:
            found.append(number)
        if in_order and number not in running:
            break
    return found


def _set_of(pod: Pod) -> str | None:
    for reference in pod.metadata.owner_references:
        if reference.kind == "StatefulSet":
            return f"{pod.metadata.namespace}/{reference.name}"
    return None


def _new_pod(owner: StatefulSet, number: int) -> Pod:
    template = owner.spec.template
    reference = OwnerReference(
        api_version=owner.api_version, kind=owner.kind, name=owner.metadata.name, uid=owner.metadata.uid,
        controller=True, block_owner_deletion=True,
    )  # fmt: skip
    return Pod(
        metadata=ObjectMeta(
            name=f"{owner.metadata.name}-{number}",
            namespace=owner.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations=dict(template.metadata.annotations),
            owner_references=[reference],
        ),
        spec=replace(template.spec),
    )
