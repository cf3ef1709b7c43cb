"""RemovePodsViolatingNodeTaints: pods that do not tolerate a taint that their node got later.

Taints with the effect NoSchedule keep pods away and leave those that are there, with `includePreferNoSchedule` also
PreferNoSchedule. Those with NoExecute are none of this plugin's: Kubernetes evicts for them at once.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stromboli.api import Taint, Toleration
from stromboli.api.selectors import tolerates
from stromboli.cluster import Node
from stromboli.descheduling.planning.cooldowns import DEFAULT_COOLDOWN
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import DeschedulePlugin
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, texts
from .single_move import seat


class RemovePodsViolatingNodeTaints(DeschedulePlugin):
    name: ClassVar[str] = "RemovePodsViolatingNodeTaints"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments)
        prefers = arguments.boolean("includePreferNoSchedule", False)
        self._effects = {"NoSchedule", "PreferNoSchedule"} if prefers else {"NoSchedule"}
        self._excluded, self._included = texts(arguments, "excludedTaints"), texts(arguments, "includedTaints")
        if self._excluded and self._included:
            raise arguments.error("includedTaints", "cannot be combined with excludedTaints")
        self._cooldown = arguments.duration("coolDownTime", DEFAULT_COOLDOWN, minimum=0)

    def deschedule(self, run: Run) -> None:
        nodes, sources = run.view.nodes.nodes, run.view.sources
        for node in nodes:
            if not node.object.spec.taints or not sources[node.row] or not run.may_be_source(node.row):
                continue
            for task in self._pods.on_node(run, node):
                taint = self._violated(task.pod.spec.tolerations, node)
                if taint is None or run.refusal(task) is not None:
                    continue
                fine = [self._violated(task.pod.spec.tolerations, each) is None for each in nodes]
                goal = f"leaves node {{source}}, whose taint {taint.key} it does not tolerate"
                seat(run, task, np.array(fine, dtype=np.bool_), by=self.name, goal=goal, cooldown=self._cooldown)

    def _violated(self, tolerations: list[Toleration], node: Node) -> Taint | None:
        for taint in node.object.spec.taints:
            if taint.effect in self._effects and self._counts(taint) and not tolerates(tolerations, taint):
                return taint
        return None

    def _counts(self, taint: Taint) -> bool:
        """Taints are named by their key, or by `key=value`."""
        named = {taint.key, f"{taint.key}={taint.value}"}
        return not named & {*self._excluded} and (not self._included or bool(named & {*self._included}))
