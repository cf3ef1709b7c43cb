"""RemoveFailedPods: pods that have failed, and that nobody has deleted.

They occupy no node. What is left of them are objects, which make lists long and keep their groups. So nothing needs a
place, and no budget is asked. Failed pods of Volcano Jobs stay, because the Job counts them; those without an owner
stay unless the evictor has `evictFailedBarePods`.
"""

from __future__ import annotations

from typing import ClassVar

from stromboli.api import Pod
from stromboli.api.quantity import format_duration
from stromboli.cluster import Status
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import DeschedulePlugin
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, texts
from .pod_life_time import read_numbers
from .pod_states import age, exit_codes, states


class RemoveFailedPods(DeschedulePlugin):
    name: ClassVar[str] = "RemoveFailedPods"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments)
        self._excluded = texts(arguments, "excludeOwnerKinds")
        self._least_age = arguments.integer("minPodLifetimeSeconds", 3600, minimum=0)
        self._reasons = texts(arguments, "reasons")
        self._codes = read_numbers(arguments, "exitCodes")
        self._init = arguments.boolean("includingInitContainers", False)

    def deschedule(self, run: Run) -> None:
        now = run.view.now
        for task in run.view.finished_tasks():
            if task.status is not Status.FAILED or not self._fits(task.pod, now):
                continue
            if run.refusal_to_delete(task) is None:
                why = f"it has failed and is {format_duration(round(age(task.pod, now)))} old"
                run.remove(task, plugin=self.name, why=why, has_finished=True)

    def _fits(self, pod: Pod, now: float) -> bool:
        if not self._pods.covers(pod) or age(pod, now) < self._least_age:
            return False
        if any(owner.kind in self._excluded for owner in pod.metadata.owner_references):
            return False
        if self._reasons and not {*states(pod, init=self._init)} & {*self._reasons}:
            return False
        return not self._codes or bool({*exit_codes(pod, init=self._init)} & self._codes)
