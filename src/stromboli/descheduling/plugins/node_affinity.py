"""RemovePodsViolatingNodeAffinity: pods whose node does not match their node affinity any more.

Labels of nodes change, and pods stay. A pod leaves if its node no longer matches what it requires, or, with
`preferredDuringSchedulingIgnoredDuringExecution`, if another node has more of what it prefers.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from stromboli.api.selectors import matches_required_node, preferred_node_weight
from stromboli.cluster import Node, Task
from stromboli.descheduling.planning.cooldowns import DEFAULT_COOLDOWN
from stromboli.descheduling.planning.planned_cluster import Mask
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import DeschedulePlugin
from stromboli.scheduling.callbacks import Scores
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, texts
from .single_move import seat

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class RemovePodsViolatingNodeAffinity(DeschedulePlugin):
    name: ClassVar[str] = "RemovePodsViolatingNodeAffinity"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments)
        self._types = texts(arguments, "nodeAffinityType", (REQUIRED, PREFERRED))
        if not self._types:
            raise arguments.error("nodeAffinityType", f"is required: a list of {REQUIRED} and {PREFERRED}")
        self._cooldown = arguments.duration("coolDownTime", DEFAULT_COOLDOWN, minimum=0)
        self._weights: dict[int, Scores] = {}  # of all nodes, by the number of a kind of pod

    def deschedule(self, run: Run) -> None:
        self._weights = {}
        sources = run.view.sources
        for node in run.view.nodes.nodes:
            if not sources[node.row] or not run.may_be_source(node.row):
                continue
            for task in self._pods.on_node(run, node):
                wanted, goal = self._wanted(run, task, node)
                if wanted.any() and run.refusal(task) is None:
                    seat(run, task, wanted, by=self.name, goal=goal, cooldown=self._cooldown)

    def _wanted(self, run: Run, task: Task, node: Node) -> tuple[Mask, str]:
        """Where it should go, and why; nowhere if it may stay."""
        spec, nodes = task.pod.spec, run.view.nodes.nodes
        if REQUIRED in self._types and not matches_required_node(spec, node.object):
            return np.ones(len(nodes), dtype=np.bool_), "leaves node {source}, which its node affinity forbids"
        preferred = spec.affinity.node_affinity if spec.affinity is not None else None
        if PREFERRED in self._types and preferred is not None:
            weights = self._weights.get(id(task.shape))
            if weights is None:
                found = [preferred_node_weight(spec, each.object) for each in nodes]
                weights = self._weights[id(task.shape)] = np.array(found, dtype=np.float64)
            return weights > weights[node.row], "prefers node {target} to node {source}"
        return np.zeros(len(nodes), dtype=np.bool_), ""
