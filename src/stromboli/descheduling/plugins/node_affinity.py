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
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, texts
from .seating import seat

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

    def deschedule(self, run: Run) -> None:
        for node in run.view.nodes.nodes:
            if not run.view.sources[node.row] or not run.may_be_source(node.row):
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
            here = preferred_node_weight(spec, node.object)
            better = [preferred_node_weight(spec, each.object) > here for each in nodes]
            return np.array(better, dtype=np.bool_), "prefers node {target} to node {source}"
        return np.zeros(len(nodes), dtype=np.bool_), ""
