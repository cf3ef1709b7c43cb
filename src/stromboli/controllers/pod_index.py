"""The pods of one pass, by owner, by group and by namespace.

Every controller needs "the pods of this owner" or "the pods of this group". `PodIndex` reads the pods once for all of
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from stromboli.api import Job, Pod, PodGroup, ReplicaSet, group_name_of

from .changes import Objects
from .pod_owners import controlling_reference, is_watched_kind


class PodIndex:
    """Lists are in the order of keys.

    The index is built in every pass, whether or not anything has changed, so the loop avoids all work that nobody may
    need, such as building keys.
    """

    def __init__(self, objects: Objects) -> None:
        self.without_group: list[Pod] = []
        self._by_group: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
        self._by_owner: defaultdict[tuple[str, str, str], list[Pod]] = defaultdict(list)
        self._by_namespace: defaultdict[str, list[Pod]] | None = None
        self._pods = objects.list(Pod)
        for pod in self._pods:
            metadata = pod.metadata
            namespace = metadata.namespace
            if metadata.owner_references:
                reference = controlling_reference(metadata)
                if reference is not None and is_watched_kind(reference):
                    self._by_owner[reference.kind, namespace, reference.name].append(pod)
            group = group_name_of(pod)
            if group:
                self._by_group[namespace, group].append(pod)
            else:
                self.without_group.append(pod)

    def of_replica_set(self, replica_set: ReplicaSet) -> list[Pod]:
        return self._by_owner.get(("ReplicaSet", replica_set.metadata.namespace, replica_set.metadata.name), [])

    def of_job(self, job: Job) -> list[Pod]:
        return self._by_owner.get(("Job", job.metadata.namespace, job.metadata.name), [])

    def of_missing_groups(self, existing: Collection[tuple[str, str]]) -> Iterator[Pod]:
        """Pods whose group (namespace and name) is not among the existing ones."""
        for group, pods in self._by_group.items():
            if group not in existing:
                yield from pods

    def has_pods(self, group: PodGroup) -> bool:
        return (group.metadata.namespace, group.metadata.name) in self._by_group

    def in_namespace(self, namespace: str) -> list[Pod]:
        if self._by_namespace is None:
            self._by_namespace = defaultdict(list)
            for pod in self._pods:
                self._by_namespace[pod.metadata.namespace].append(pod)
        return self._by_namespace.get(namespace, [])
