"""Whether a gang can still spare the pods that are about to be evicted.

The scheduler makes a place Available only if the gang keeps its minimum without the pod, and evicts none of its
siblings from then on. But a node may be lost while the descheduler is away, so the pods are counted once more before
every eviction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from stromboli.api import Pod, PodGroup, group_name_of
from stromboli.api.generated_groups import is_generated_group
from stromboli.api.migration_reservations import Migration
from stromboli.cluster.object_fields import role_of
from stromboli.descheduling.planning import Objects
from stromboli.descheduling.planning.disruptions import shortage_clause
from stromboli.scheduling.gang import shortage


class Gangs:
    """As of one pass."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def shortage(self, leaving: Iterable[Migration]) -> str | None:
        """A gang that would fall below a minimum if these pods left, in a clause; None if there is none."""
        uids: dict[str, set[str]] = {}
        for move in leaving:
            group = self._objects.get(PodGroup, move.group) if move.group else None
            if group is not None and not is_generated_group(group):
                uids.setdefault(move.group, set()).add(move.uid)
        for name, gone in sorted(uids.items()):
            group = self._objects.get(PodGroup, name)
            assert group is not None
            members = self._members.get(name, [])
            roles = Counter(role_of(pod) for pod in members if pod.metadata.uid not in gone)
            short = shortage(
                group.spec.min_member,
                group.spec.min_task_member,
                left=roles.total(),
                left_of=roles.__getitem__,
                leaving=[role_of(pod) for pod in members if pod.metadata.uid in gone],
            )
            if short is not None:
                return shortage_clause(name, short)
        return None

    @cached_property
    def _members(self) -> dict[str, list[Pod]]:
        """By group: the pods that run, or have completed."""
        found: dict[str, list[Pod]] = {}
        for pod in self._objects.list(Pod):
            group = group_name_of(pod)
            if group and _counts(pod):
                found.setdefault(f"{pod.metadata.namespace}/{group}", []).append(pod)
        return found


def _counts(pod: Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    return bool(pod.spec.node_name) and pod.status.phase != "Failed" and pod.metadata.deletion_timestamp is None
