"""RemovePodsViolatingInterPodAntiAffinity: pods that others beside them do not want there.

Labels of pods change, and pods come that are bound without a look at the rules. A pod leaves if another one in the same
topology requires not to be with it. Of two that do not want each other the one of lower priority goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stromboli.api import PodAffinityTerm
from stromboli.api.selectors import affinity_term_selects
from stromboli.cluster import Node, Task
from stromboli.descheduling.planning.cooldowns import DEFAULT_COOLDOWN
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import DeschedulePlugin
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, in_order
from .single_move import seat


class RemovePodsViolatingInterPodAntiAffinity(DeschedulePlugin):
    name: ClassVar[str] = "RemovePodsViolatingInterPodAntiAffinity"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments)
        self._cooldown = arguments.duration("coolDownTime", DEFAULT_COOLDOWN, minimum=0)

    def deschedule(self, run: Run) -> None:
        nodes, sources = run.view.nodes.nodes, run.view.sources
        unwilling = _unwilling(run)
        if not unwilling:
            return
        anywhere = np.ones(len(nodes), dtype=np.bool_)
        candidates = [task for node in nodes for task in self._pods.on_node(run, node)]
        for task in in_order(run, candidates):
            source = task.node
            if source is None or not sources[source.row] or not run.may_be_source(source.row):
                continue
            other = _who_objects(run, unwilling, task, source)
            if other is None or run.refusal(task) is not None:
                continue
            goal = f"leaves node {{source}}, where {other.key} does not want it"
            seat(run, task, anywhere, by=self.name, goal=goal, cooldown=self._cooldown)


@dataclass(slots=True)
class _Unwilling:
    """Pods of one domain that have the same term and look at the same."""

    term: PodAffinityTerm
    tasks: list[tuple[Task, Node]]  # each with where it was when the run began


_Domain = tuple[str, str]
"""The label of a topology, and its value."""


def _unwilling(run: Run) -> dict[_Domain, list[_Unwilling]]:
    """Pods that do not want others beside them, by domain. Pods of one set are looked at as one."""
    found: dict[_Domain, dict[object, _Unwilling]] = {}
    for node in run.view.nodes.nodes:
        for task in run.view.tasks_on(node):
            for term in _terms(task):
                value = node.labels.get(term.topology_key)
                if value is None:
                    continue
                labels = task.pod.metadata.labels
                keys = (*term.match_label_keys, *term.mismatch_label_keys)
                same = (task.namespace, repr(term), tuple(labels.get(name) for name in keys))
                of_domain = found.setdefault((term.topology_key, value), {})
                of_domain.setdefault(same, _Unwilling(term, [])).tasks.append((task, node))
    return {domain: list(groups.values()) for domain, groups in found.items()}


def _terms(task: Task) -> list[PodAffinityTerm]:
    affinity = task.pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity is not None else None
    return [] if anti is None else anti.required_during_scheduling_ignored_during_execution


def _who_objects(run: Run, unwilling: dict[_Domain, list[_Unwilling]], task: Task, source: Node) -> Task | None:
    """A pod in the same domain that does not want this one. One that has moved in this run is not there."""
    known = run.view.session.namespaces.get(task.namespace)
    for key in dict.fromkeys(key for key, _ in unwilling):
        for group in unwilling.get((key, source.labels.get(key, "")), ()):
            other = next((one for one, at in group.tasks if one is not task and one.node is at), None)
            if other is not None and affinity_term_selects(
                group.term,
                own_namespace=other.namespace,
                own_labels=other.pod.metadata.labels,
                namespace=task.namespace,
                labels=task.pod.metadata.labels,
                namespace_labels={} if known is None else known.labels,
            ):
                return other
    return None
