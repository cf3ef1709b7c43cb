"""Running groups whose pods must be in one domain, and are in several since domains changed.

Nobody is evicted for that, so their PodGroups say it. A tree may change while the pods of a group do not; then the
group is looked at again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from stromboli.cluster import OCCUPYING, Job, Task
from stromboli.cluster.topology import Closeness, Tree, sub_groups
from stromboli.scheduling.explanation import topology_reasons
from stromboli.scheduling.session import Session
from stromboli.scheduling.topology import allowed_tiers, home_domains, tree_for

SCATTERED: Final = "Scattered"
"""The type of the condition."""
REASON: Final = "SeveralDomains"


class TreesSeen:
    """The trees by which running groups were judged last."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}  # by the label whose domains they have; "" for the one of the cluster

    def renew(self, session: Session) -> set[str]:
        """Those that are others than in the last session."""
        needed = {one.label_key: tree_for(session, one) for job in session.active for one in _closenesses(job)}
        changed = {key for key, tree in needed.items() if self._trees.get(key) is not tree}
        self._trees = needed
        return changed


def may_be_scattered(job: Job, changed: set[str]) -> bool:
    """`changed`: see `TreesSeen.renew`."""
    return any(closeness.label_key in changed for closeness in _closenesses(job))


def scattered(session: Session, job: Job) -> str:
    """The sentence for the group; "" if its pods are where they must be."""
    for closeness, members in _units(job):
        if said := _unit_scattered(session, closeness, members):
            return said
    return ""


def _unit_scattered(session: Session, closeness: Closeness, members: Sequence[Task]) -> str:
    rows = [task.node.row for task in members if task.status in OCCUPYING and task.node is not None]
    tree = tree_for(session, closeness)
    tiers = allowed_tiers(tree, closeness)
    if not rows:
        return ""
    homes = home_domains(tree, tiers, rows)
    if homes and homes[-1].mask[sorted(set(rows))].all():
        return ""
    by_domain = Counter(tree.at(tiers[-1], row) for row in rows) if tiers else Counter({-1: len(rows)})
    outside = by_domain.pop(-1, 0)
    ordered = sorted(by_domain.items(), key=lambda one: (-one[1], one[0]))
    return topology_reasons.several_domains(closeness, [(tree.domains[one], n) for one, n in ordered], outside)


def _units(job: Job) -> Iterator[tuple[Closeness, Sequence[Task]]]:
    """What must be in one domain: the group, and sub-groups."""
    if job.layout is None:
        return
    if job.layout.closeness is not None and job.layout.closeness.hard:
        yield job.layout.closeness, list(job.tasks.values())
    for group in sub_groups(job).all:
        closeness = group.policy.closeness
        if closeness is not None and closeness.hard:
            yield closeness, group.tasks


def _closenesses(job: Job) -> list[Closeness]:
    if job.layout is None:
        return []
    found = [job.layout.closeness, *(policy.closeness for policy in job.layout.policies)]
    return [closeness for closeness in found if closeness is not None and closeness.hard]
