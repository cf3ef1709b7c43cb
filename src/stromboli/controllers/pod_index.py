"""The pods by owner, by group and by namespace.

Controllers need "the pods of this owner" or "the pods of this group". The index is kept up to date pod by pod, so
asking costs no more than the answer.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from stromboli.api import Job, KObject, Pod, group_name_of, key

from .pod_owners import Owner, controlling_reference, is_watched_kind

Place = TypeVar("Place", bound=Hashable)


class _PodsBy(Generic[Place]):
    """Pods by something that they have in common. Lists are in the order of keys, and must not be changed."""

    def __init__(self) -> None:
        self._pods: dict[Place, dict[str, Pod]] = {}
        self._sorted: dict[Place, list[Pod]] = {}  # of those that were asked for and have not changed since

    def move(self, pod_key: str, before: Place | None, pod: Pod | None, after: Place | None) -> None:
        if before is not None and before != after:
            pods = self._pods[before]
            del pods[pod_key]
            if not pods:
                del self._pods[before]
            self._sorted.pop(before, None)
        if after is not None and pod is not None:
            self._pods.setdefault(after, {})[pod_key] = pod
            self._sorted.pop(after, None)

    def __contains__(self, place: Place) -> bool:
        return place in self._pods

    def __getitem__(self, place: Place) -> list[Pod]:
        known = self._sorted.get(place)
        if known is None:
            pods = self._pods.get(place)
            if pods is None:
                return []
            known = self._sorted[place] = [pods[pod_key] for pod_key in sorted(pods)]
        return known


class PodIndex:
    """Lists are in the order of keys, and must not be changed."""

    def __init__(self) -> None:
        self._by_owner: _PodsBy[tuple[str, str, str]] = _PodsBy()
        self._by_group: _PodsBy[tuple[str, str]] = _PodsBy()
        self._by_namespace: _PodsBy[str] = _PodsBy()

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        """A pod was created, changed or deleted; other objects have no effect."""
        pod = after if after is not None else before
        if not isinstance(pod, Pod):
            return
        old = before if isinstance(before, Pod) else None
        new = after if isinstance(after, Pod) else None
        pod_key = key(pod)
        self._by_owner.move(pod_key, owner_of(old), new, owner_of(new))
        self._by_group.move(pod_key, group_of(old), new, group_of(new))
        namespace = pod.metadata.namespace
        self._by_namespace.move(pod_key, namespace if old else None, new, namespace if new else None)

    def of_job(self, job: Job) -> list[Pod]:
        return self._by_owner["Job", job.metadata.namespace, job.metadata.name]

    def of_owner(self, owner: Owner) -> list[Pod]:
        return self._by_owner[owner.kind, owner.metadata.namespace, owner.metadata.name]

    def of_group(self, namespace: str, name: str) -> list[Pod]:
        return self._by_group[namespace, name]

    def has_pods(self, namespace: str, group_name: str) -> bool:
        return (namespace, group_name) in self._by_group

    def in_namespace(self, namespace: str) -> list[Pod]:
        return self._by_namespace[namespace]


def owner_of(pod: Pod | None) -> tuple[str, str, str] | None:
    """Kind, namespace and name of the owner that the pod belongs to, if we would see it, whether or not it exists."""
    if pod is None or not pod.metadata.owner_references:
        return None
    reference = controlling_reference(pod.metadata)
    if reference is None or not is_watched_kind(reference):
        return None
    return reference.kind, pod.metadata.namespace, reference.name


def group_of(pod: Pod | None) -> tuple[str, str] | None:
    """Namespace and name of the group that the pod names, whether or not that exists."""
    group = group_name_of(pod) if pod is not None else ""
    return (pod.metadata.namespace, group) if pod is not None and group else None
