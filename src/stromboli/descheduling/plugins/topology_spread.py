"""RemovePodsViolatingTopologySpreadConstraint: pods of which too many are in one domain.

Pods come and go, and nodes too; the scheduler looks at a spread constraint only when a pod starts. For each constraint,
pods leave the domain with the most pods for those with the fewest, until the difference is `maxSkew` at most.

    maxSkew 1    domains with 5, 1 and 0 pods    one goes from the first to the third, then one to the second,
                                                 then one more to the third: 2, 2, 2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from stromboli.api import TopologySpreadConstraint
from stromboli.api.selectors import KEEPS_AWAY, matches_required_node, spread_constraint_selects, untolerated
from stromboli.cluster import Node, Task
from stromboli.descheduling.planning.cooldowns import DEFAULT_COOLDOWN
from stromboli.descheduling.planning.planned_cluster import Mask
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import BalancePlugin
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, in_order, texts
from .single_move import seat

_KINDS: Final = ("DoNotSchedule", "ScheduleAnyway")
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Spread:
    """One constraint, of pods of one namespace with the same labels as far as it reads them."""

    constraint: TopologySpreadConstraint
    holder: Task  # one of those that have it
    domains: dict[str, list[Task]] = field(default_factory=dict)  # the pods that count, by value of the label
    holders: set[str] = field(default_factory=set)  # keys of the pods that have it


class RemovePodsViolatingTopologySpreadConstraint(BalancePlugin):
    name: ClassVar[str] = "RemovePodsViolatingTopologySpreadConstraint"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments)
        self._kinds = texts(arguments, "constraints", _KINDS) or _KINDS[:1]
        self._has_fit = arguments.boolean("topologyBalanceNodeFit", True)
        self._cooldown = arguments.duration("coolDownTime", DEFAULT_COOLDOWN, minimum=0)

    def warnings(self) -> tuple[str, ...]:
        if self._has_fit:
            return ()
        return (f"{self.name}: topologyBalanceNodeFit has no effect here: a pod never leaves before it has a place",)

    def balance(self, run: Run) -> None:
        sources = run.view.sources
        for spread in self._spreads(run):
            self._level(run, spread, sources)

    def _spreads(self, run: Run) -> Iterator[_Spread]:
        tasks = [task for node in run.view.nodes.nodes for task in run.view.tasks_on(node)]
        found: dict[object, _Spread] = {}
        for task in sorted(tasks, key=lambda task: task.key):
            for constraint in task.pod.spec.topology_spread_constraints:
                if constraint.when_unsatisfiable not in self._kinds or constraint.label_selector is None:
                    continue
                own = tuple((name, task.pod.metadata.labels.get(name)) for name in constraint.match_label_keys)
                known = found.setdefault((task.namespace, repr(constraint), own), _Spread(constraint, task))
                known.holders.add(task.key)
        alike = _by_labels(tasks)
        open_nodes: dict[object, list[Node]] = {}
        for spread in found.values():
            holder, constraint = spread.holder, spread.constraint
            rules = (id(holder.shape), constraint.node_affinity_policy, constraint.node_taints_policy)
            if rules not in open_nodes:
                open_nodes[rules] = [node for node in run.view.nodes.nodes if _is_open(holder, node, constraint)]
            for node in open_nodes[rules]:
                if (domain := node.labels.get(constraint.topology_key)) is not None:
                    spread.domains.setdefault(domain, [])
            if len(spread.domains) > 1:
                self._count(spread, alike)
                yield spread

    def _count(self, spread: _Spread, alike: dict[tuple[str, Labels], list[Task]]) -> None:
        own, key = spread.holder.pod.metadata.labels, spread.constraint.topology_key
        for (namespace, labels), tasks in alike.items():
            if namespace != spread.holder.namespace or not spread_constraint_selects(
                spread.constraint, own_labels=own, labels=dict(labels)
            ):
                continue
            for task in tasks:
                domain = None if task.node is None else task.node.labels.get(key)
                if domain in spread.domains:
                    spread.domains[domain].append(task)

    def _level(self, run: Run, spread: _Spread, sources: Mask) -> None:
        stuck: set[str] = set()  # domains that nothing can leave
        while True:
            sizes = {domain: len(tasks) for domain, tasks in spread.domains.items()}
            least = min(sizes.values())
            over = [name for name in sizes if name not in stuck and sizes[name] - least > spread.constraint.max_skew]
            if not over:
                return
            fullest = min(over, key=lambda name: (-sizes[name], name))
            moved = self._move_one(run, spread, fullest, sizes, sources)
            if moved is None:
                stuck.add(fullest)

    def _move_one(self, run: Run, spread: _Spread, fullest: str, sizes: dict[str, int], sources: Mask) -> Task | None:
        key = spread.constraint.topology_key
        for task in in_order(run, [one for one in spread.domains[fullest] if one.key in spread.holders]):
            source = task.node
            if source is None or not self._pods.covers(task.pod) or not run.may_be_source(source.row):
                continue
            if not sources[source.row] or run.refusal(task) is not None:
                continue
            for size in sorted({size for size in sizes.values() if size < sizes[fullest] - 1}):
                names = {name for name, number in sizes.items() if number == size}
                allowed = [node.labels.get(key) in names for node in run.view.nodes.nodes]
                goal = f"leaves node {{source}}: {key}={fullest} has {sizes[fullest]} pods, others {size}"
                target = seat(
                    run, task, np.array(allowed, dtype=np.bool_), by=self.name, goal=goal, cooldown=self._cooldown
                )
                if target is not None:
                    spread.domains[fullest].remove(task)
                    spread.domains[target.labels[key]].append(task)
                    return task
        return None


def _by_labels(tasks: list[Task]) -> dict[tuple[str, Labels], list[Task]]:
    """By namespace and labels: a selector is asked once for pods that are alike."""
    found: dict[tuple[str, Labels], list[Task]] = {}
    for task in tasks:
        labels = tuple(sorted(task.pod.metadata.labels.items()))
        found.setdefault((task.namespace, labels), []).append(task)
    return found


def _is_open(holder: Task, node: Node, constraint: TopologySpreadConstraint) -> bool:
    """Whether a domain counts because of this node: as the scheduler sees it."""
    spec = holder.pod.spec
    if constraint.node_affinity_policy == "Honor" and not matches_required_node(spec, node.object):
        return False
    honours = constraint.node_taints_policy == "Honor"
    return not honours or untolerated(spec.tolerations, node.object.spec.taints, KEEPS_AWAY) is None
