"""RemoveDuplicates: pods of one owner that crowd on one node while others have none of them.

After a node was lost, all pods of a set may be on the nodes that were left. Pods are duplicates if they have the same
owner and the same images. Each node should have no more of them than they would have if they were divided evenly:

    7 pods, 3 nodes that they may use    7 / 3, rounded up, is 3 on a node: a node with 5 gives 2 away
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stromboli.api.selectors import KEEPS_AWAY, matches_required_node, untolerated
from stromboli.cluster import Task
from stromboli.descheduling.planning.cooldowns import DEFAULT_COOLDOWN
from stromboli.descheduling.planning.planned_cluster import Mask
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import BalancePlugin
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, texts
from .single_move import seat


class RemoveDuplicates(BalancePlugin):
    name: ClassVar[str] = "RemoveDuplicates"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments, has_selector=False)
        self._excluded = texts(arguments, "excludeOwnerKinds")
        self._cooldown = arguments.duration("coolDownTime", DEFAULT_COOLDOWN, minimum=0)

    def balance(self, run: Run) -> None:
        crowds: dict[object, list[Task]] = {}
        for node in run.view.nodes.nodes:
            for task in run.view.tasks_on(node):
                same = self._what_it_is(task)
                if same is not None and self._pods.covers(task.pod):
                    crowds.setdefault(same, []).append(task)
        sources, usable = run.view.sources, dict[int, Mask]()
        for tasks in crowds.values():
            if len(tasks) > 1:
                shape = id(tasks[0].shape)
                if shape not in usable:
                    usable[shape] = _usable(run, tasks[0])
                self._spread(run, tasks, usable[shape], sources)

    def _what_it_is(self, task: Task) -> object:
        """Equal for duplicates; None for pods that have none."""
        meta = task.pod.metadata
        owners = meta.owner_references
        if not owners or any(owner.kind in self._excluded for owner in owners):
            return None
        images = tuple(sorted(container.image for container in task.pod.spec.containers))
        return meta.namespace, tuple(sorted((one.kind, one.name, one.uid) for one in owners)), images

    def _spread(self, run: Run, tasks: list[Task], usable: Mask, sources: Mask) -> None:
        if not usable.any():
            return
        most = -(-len(tasks) // int(usable.sum()))
        on_node: dict[int, list[Task]] = {}
        for task in tasks:
            assert task.node is not None
            on_node.setdefault(task.node.row, []).append(task)
        counts = np.zeros(len(run.view.nodes), dtype=np.int64)
        for row, here in on_node.items():
            counts[row] = len(here)
        for row in sorted(on_node, key=lambda row: (-counts[row], row)):
            # The youngest first: the others have done more.
            youngest = sorted(
                on_node[row], key=lambda t: (t.pod.metadata.creation_timestamp or "", t.key), reverse=True
            )
            for task in youngest:
                if counts[row] <= most or not sources[row] or not run.may_be_source(row):
                    break
                if run.refusal(task) is not None:
                    continue
                goal = f"leaves {counts[row] - 1} of its kind on node {{source}} for node {{target}}"
                target = seat(run, task, usable & (counts < most), by=self.name, goal=goal, cooldown=self._cooldown)
                if target is not None:
                    counts[row] -= 1
                    counts[target.row] += 1


def _usable(run: Run, task: Task) -> Mask:
    """Nodes that such a pod could run on if they were empty."""
    spec = task.pod.spec
    fine = [
        matches_required_node(spec, node.object)
        and untolerated(spec.tolerations, node.object.spec.taints, KEEPS_AWAY) is None
        for node in run.view.nodes.nodes
    ]
    return np.array(fine, dtype=np.bool_) & run.view.nodes.ready & run.view.nodes.schedulable
