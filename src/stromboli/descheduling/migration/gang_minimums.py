"""Whether a gang can still spare the pods that are about to be evicted.

The scheduler makes a place Available only if the gang keeps its minimum without the pod, and evicts none of its
siblings from then on. But a node may be lost while the descheduler is away, so the pods are counted once more before
every eviction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from stromboli.api import Pod, PodGroup, group_name_of
from stromboli.api.generated_groups import is_generated_group
from stromboli.api.migration_reservations import Migration
from stromboli.cluster.object_fields import role_of
from stromboli.descheduling.planning import Objects
from stromboli.descheduling.planning.disruptions import shortage_clause
from stromboli.scheduling.gang import shortage


def short_gang(objects: Objects, leaving: Iterable[Migration]) -> str | None:
    """A gang that would fall below a minimum if these pods left, in a clause; None if there is none."""
    uids: dict[str, set[str]] = {}
    for move in leaving:
        group = objects.get(PodGroup, move.group) if move.group else None
        if group is not None and not is_generated_group(group):
            uids.setdefault(move.group, set()).add(move.uid)
    if not uids:
        return None
    members = _members(objects, uids)
    for name, gone in sorted(uids.items()):
        group = objects.get(PodGroup, name)
        assert group is not None
        roles = Counter(role_of(pod) for pod in members[name] if pod.metadata.uid not in gone)
        short = shortage(
            group.spec.min_member,
            group.spec.min_task_member,
            left=roles.total(),
            left_of=roles.__getitem__,
            leaving=[role_of(pod) for pod in members[name] if pod.metadata.uid in gone],
        )
        if short is not None:
            return shortage_clause(name, short)
    return None


def _members(objects: Objects, names: Collection[str]) -> dict[str, list[Pod]]:
    """The pods of these groups that run, or have completed."""
    found: dict[str, list[Pod]] = {name: [] for name in names}
    for pod in objects.list(Pod):
        group = group_name_of(pod)
        if group and (name := f"{pod.metadata.namespace}/{group}") in found and _counts(pod):
            found[name].append(pod)
    return found


def _counts(pod: Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    return bool(pod.spec.node_name) and pod.status.phase != "Failed" and pod.metadata.deletion_timestamp is None
