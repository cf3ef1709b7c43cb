"""RemovePodsHavingTooManyRestarts: pods whose containers end again and again.

Another node may be what they need: a broken device, a full disk. Such a pod does not serve, so it is evicted without a
place for its successor.
"""

from __future__ import annotations

from typing import ClassVar, Final

from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import DeschedulePlugin
from stromboli.grammar import plural
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import ChosenPods, texts
from .pod_states import restarts, states

_STATES: Final = ("Running", "CrashLoopBackOff")


class RemovePodsHavingTooManyRestarts(DeschedulePlugin):
    name: ClassVar[str] = "RemovePodsHavingTooManyRestarts"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._pods = ChosenPods(arguments)
        self._init = arguments.boolean("includingInitContainers", False)
        self._states = texts(arguments, "states", _STATES)
        self._threshold = arguments.integer("podRestartThreshold", 0, minimum=0)
        if self._threshold < 1:
            raise arguments.error("podRestartThreshold", "is required: a number of restarts, at least 1")

    def deschedule(self, run: Run) -> None:
        for node in run.view.nodes.nodes:
            for task in self._pods.on_node(run, node):
                number = restarts(task.pod, init=self._init)
                if number < self._threshold:
                    continue
                if self._states and not {*states(task.pod, init=self._init)} & {*self._states}:
                    continue
                if run.refusal(task) is None:
                    run.remove(task, plugin=self.name, why=f"its containers have made {plural(number, 'restart')}")
