"""RemovePodsViolatingInterPodAntiAffinity: pods that others beside them do not want there.

Labels of pods change, and pods come that are bound without a look at the rules. A pod leaves if another one in the same
topology requires not to be with it. Of two that do not want each other the one of lower priority goes.
"""

from __future__ import annotations

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
from .seating import seat


class RemovePodsViolatingInterPodAntiAffinity(DeschedulePlugin):
    name: ClassVar[str] = "RemovePodsViolatingInterPodAntiAffinity"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments)
        self._cooldown = arguments.duration("coolDownTime", DEFAULT_COOLDOWN, minimum=0)

    def deschedule(self, run: Run) -> None:
        nodes = run.view.nodes.nodes
        anywhere = np.ones(len(nodes), dtype=np.bool_)
        unwilling = [
            (task, node, term) for node in nodes for task in run.view.tasks_on(node) for term in _terms(task)
        ]  # pods that do not want others beside them
        if not unwilling:
            return
        candidates = [task for node in nodes for task in self._pods.on_node(run, node)]
        for task in in_order(run, candidates):
            source = task.node
            if source is None or not run.view.sources[source.row] or not run.may_be_source(source.row):
                continue
            other = next((one for one, at, term in unwilling if _objects(run, one, at, term, task, source)), None)
            if other is None or run.refusal(task) is not None:
                continue
            goal = f"leaves node {{source}}, where {other.key} does not want it"
            seat(run, task, anywhere, by=self.name, goal=goal, cooldown=self._cooldown)


def _terms(task: Task) -> list[PodAffinityTerm]:
    affinity = task.pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity is not None else None
    return [] if anti is None else anti.required_during_scheduling_ignored_during_execution


def _objects(run: Run, one: Task, at: Node, term: PodAffinityTerm, task: Task, source: Node) -> bool:
    """Whether a pod does not want another one in its topology. One that has moved in this run is not there."""
    if one is task or one.node is not at:
        return False
    domain = at.labels.get(term.topology_key)
    if domain is None or source.labels.get(term.topology_key) != domain:
        return False
    known = run.view.session.namespaces.get(task.namespace)
    return affinity_term_selects(
        term,
        own_namespace=one.namespace,
        own_labels=one.pod.metadata.labels,
        namespace=task.namespace,
        labels=task.pod.metadata.labels,
        namespace_labels={} if known is None else known.labels,
    )
