"""The StatefulSet controller: pods with numbers, each replaced under its own name.

It replaces Kubernetes' own controller where that one does not run, and reproduces only what a scheduler can observe.
Pods are created in the order of their numbers, each when all before it run, unless `podManagementPolicy` is Parallel. A
pod that is gone is created again one second later, under the same name.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from stromboli.api import KObject, ObjectMeta, OwnerReference, Pod, StatefulSet, StatefulSetStatus, key

from .changes import Change, Create, Delete, Objects, Update
from .pod_owners import is_terminating
from .work_queue import WorkQueue

REPLACEMENT_DELAY = 1.0


class StatefulSetController:
    observes: ClassVar = (StatefulSet, Pod)

    def __init__(self) -> None:
        self._sets = WorkQueue()
        self._gone: dict[str, float] = {}  # by key of a pod: when it may be created again

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        for version in (before, after):
            if isinstance(version, StatefulSet):
                self._sets.add(key(version))
            elif isinstance(version, Pod) and (owner := _set_of(version)) is not None:
                self._sets.add(owner)

    def pod_deleted(self, pod: Pod, now: float) -> None:
        owner = _set_of(pod)
        if owner is not None:
            self._gone.setdefault(key(pod), now + REPLACEMENT_DELAY)
            self._sets.set_due(owner, self._gone[key(pod)])

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
        changes: list[Change] = []
        in_order = owner.spec.pod_management_policy != "Parallel"
        running = existing = 0
        held_up = False
        for number in range(owner.spec.replicas):
            pod = objects.get(Pod, f"{set_key}-{number}")
            if pod is not None:
                existing += not is_terminating(pod)
                runs = pod.status.phase in ("Running", "Succeeded") and not is_terminating(pod)
                running += runs
                held_up = held_up or (in_order and not runs)
                continue
            due = self._gone.get(f"{set_key}-{number}", now)
            if due > now:
                self._sets.set_due(set_key, due)
                held_up = held_up or in_order
            elif not held_up:
                self._gone.pop(f"{set_key}-{number}", None)
                changes.append(Create(_new_pod(owner, number)))
                held_up = in_order
        changes += self._surplus(owner, objects)
        status: StatefulSetStatus = replace(
            owner.status, replicas=existing, ready_replicas=running, available_replicas=running
        )
        if status != owner.status:
            changes.append(Update(replace(owner, status=status)))
        return changes

    def _surplus(self, owner: StatefulSet, objects: Objects) -> list[Change]:
        """The pod with the highest number goes first."""
        number = owner.spec.replicas
        surplus = []
        while (pod := objects.get(Pod, f"{key(owner)}-{number}")) is not None:
            if not is_terminating(pod):
                surplus.append(pod)
            number += 1
        return [Delete(surplus[-1], reason="the StatefulSet was scaled down")] if surplus else []


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
