"""StatefulSets whose pods start one after another.

The successor of a pod comes only when all pods before it run. So no pod is moved behind one that does not: its place
would be kept for nobody. And the pod before it could wait for just that place, since the queue pays for it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from stromboli.api import Pod, StatefulSet, key
from stromboli.api.migration_reservations import controlling_owner

from .plan_objects import Objects


class OrderedSets:
    """As of one moment."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def first_idle_before(self, pod: str, owner: str, *, moving: Collection[str] = ()) -> Pod | None:
        """The first pod of the StatefulSet that must run before a successor of this one comes, and does not. Both are
        given as "namespace/name". `moving`: pods whose places are kept; they are no obstacle."""
        of_set = self._objects.get(StatefulSet, owner)
        number = _number(pod, owner)
        if of_set is None or of_set.spec.pod_management_policy == "Parallel" or number is None:
            return None
        return next((one for at, one in self._idle.get(owner, ()) if at < number and key(one) not in moving), None)

    @cached_property
    def _idle(self) -> dict[str, list[tuple[int, Pod]]]:
        """By set: the pods that do not run, in order."""
        found: dict[str, list[tuple[int, Pod]]] = {}
        for pod in self._objects.list(Pod):
            reference = None if _runs(pod) else controlling_owner(pod)
            if reference is not None and reference.kind == "StatefulSet":
                owner = f"{pod.metadata.namespace}/{reference.name}"
                number = _number(key(pod), owner)
                if number is not None:
                    found.setdefault(owner, []).append((number, pod))
        return {owner: sorted(pods, key=lambda each: each[0]) for owner, pods in found.items()}


def _number(pod: str, owner: str) -> int | None:
    text = pod.removeprefix(f"{owner}-")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _runs(pod: Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    unready = any(each.type == "Ready" and each.status == "False" for each in pod.status.conditions)
    return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None and not unready
