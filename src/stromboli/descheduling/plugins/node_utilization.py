"""Balance by utilization: HighNodeUtilization, LowNodeUtilization and LoadAware.

The first two are those of the Kubernetes descheduler, with its arguments. HighNodeUtilization takes pods from nodes
that are hardly used, LowNodeUtilization from nodes that are used too much. LoadAware is the latter by what pods really
use.
Here as everywhere a pod moves only to a node that has a place for it, so sums over all targets are not enough.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from stromboli.cluster import Node, Task
from stromboli.descheduling.evictor.default_evictor import read_namespaces
from stromboli.descheduling.planning import AnomalyCondition
from stromboli.descheduling.planning.cooldowns import DEFAULT_COOLDOWN
from stromboli.descheduling.planning.planned_cluster import Mask
from stromboli.descheduling.plugin import Guard
from stromboli.descheduling.policy.thresholds import Thresholds, gpu_names, resources_of, thresholds
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import BalancePlugin
from stromboli.scheduling.configuration import Arguments

from .chosen_pods import in_order
from .single_move import seat

Percent = npt.NDArray[np.float64]
_GOAL: Final = "uses node {source} less and node {target} more"


class _ByUtilization(BalancePlugin):
    """What the three share: moves one by one, each a plan of its own."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._gpus = gpu_names(arguments)
        self._number = arguments.integer("numberOfNodes", 0, minimum=0)
        self._evictable = read_namespaces(arguments, "evictableNamespaces")
        self._cooldown = arguments.duration("coolDownTime", DEFAULT_COOLDOWN, minimum=0)

    def _use(self, run: Run, name: str) -> Percent:
        return run.view.utilization(resources_of(name, self._gpus))

    def _columns(self, run: Run, name: str) -> list[int]:
        index = run.view.session.axis.index
        return [index[each] for each in resources_of(name, self._gpus) if each in index]

    def _movable(self, run: Run, node: Node) -> list[Task]:
        """Pods that may leave; those of low priority first, then those with the weakest claim on what they use."""
        return in_order(run, [task for task in run.view.tasks_on(node) if self._evictable(task.namespace)])

    def _seat(self, run: Run, task: Task, open_: Mask) -> bool:
        return seat(run, task, open_, by=self.name, goal=_GOAL, cooldown=self._cooldown) is not None


class HighNodeUtilization(_ByUtilization):
    """Pods leave nodes that are used no more than `thresholds`, so that these can be removed."""

    name: ClassVar[str] = "HighNodeUtilization"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._thresholds = thresholds(arguments, "thresholds", {}, required=True)
        modes = arguments.get("evictionModes") or []
        if not isinstance(modes, list) or not set(modes) <= {"OnlyThresholdingResources"}:
            raise arguments.error("evictionModes", "must be a list of OnlyThresholdingResources")
        self._only_thresholded = bool(modes)

    def balance(self, run: Run) -> None:
        view = run.view
        low = view.nodes.ready.copy()
        for name, percent in self._thresholds.items():
            with np.errstate(invalid="ignore"):
                low &= np.nan_to_num(self._use(run, name), nan=np.inf) <= percent
        if not low.any() or int(low.sum()) <= self._number or low.all():
            return
        targets = view.targets & ~low
        sources = low & view.sources
        used = view.column_sum(view.nodes.used, ["cpu", "memory", "pods"])
        for row in sorted(np.flatnonzero(sources).tolist(), key=lambda row: (float(used[row]), row)):
            if not run.may_be_source(row):
                continue
            for task in self._movable(run, view.nodes.nodes[row]):
                if self._counts(run, task) and run.refusal(task) is None:
                    self._seat(run, task, targets)

    def _counts(self, run: Run, task: Task) -> bool:
        if not self._only_thresholded:
            return True
        return any(task.request[self._columns(run, name)].any() for name in self._thresholds)


class LowNodeUtilization(_ByUtilization):
    """Pods leave nodes that are used more than `targetThresholds` for nodes that are used no more than `thresholds`."""

    name: ClassVar[str] = "LowNodeUtilization"
    defaults: ClassVar[tuple[Thresholds, Thresholds] | None] = None

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        low, high = self.defaults or ({}, {})
        self._low = thresholds(arguments, "thresholds", low, required=self.defaults is None)
        self._high = thresholds(arguments, "targetThresholds", high, required=self.defaults is None)
        self._deviates = arguments.boolean("useDeviationThresholds", False)
        if set(self._low) != set(self._high):
            raise arguments.error("targetThresholds", "must name the same resources as thresholds")
        if not self._deviates and any(self._low[name] > self._high[name] for name in self._low):
            raise arguments.error("thresholds", "must not be above targetThresholds")
        limits = arguments.get("evictionLimits") or {}
        node_limit = limits.get("node") if isinstance(limits, dict) else -1
        if node_limit is not None and (not isinstance(node_limit, int) or node_limit < 0):
            raise arguments.error("evictionLimits", "must have a whole number as its node")
        self._node_limit: int | None = node_limit

    # What is measured; LoadAware measures something else.

    def _measured(self, run: Run, name: str) -> Percent:
        return self._use(run, name)

    def _amount(self, run: Run, task: Task, name: str) -> float:
        """What a task adds to what is measured, in the unit of the resource."""
        return float(task.request[self._columns(run, name)].sum())

    def _moved(self, run: Run, task: Task, source: Node, target: Node) -> None:
        """A task has moved in the view."""

    def _limits(self, run: Run) -> tuple[Thresholds, Thresholds]:
        if not self._deviates:
            return self._low, self._high
        low, high = {}, {}
        for name in self._low:
            mean = float(np.nanmean(self._measured(run, name)))
            low[name] = min(100.0, max(0.0, mean - self._low[name]))
            high[name] = min(100.0, max(0.0, mean + self._high[name]))
        return low, high

    def balance(self, run: Run) -> None:
        view = run.view
        low_limits, high_limits = self._limits(run)
        known = np.ones(len(view.nodes), dtype=np.bool_)
        low = view.targets.copy()
        high = np.zeros(len(view.nodes), dtype=np.bool_)
        excess = np.zeros(len(view.nodes))
        with np.errstate(invalid="ignore"):
            for name in low_limits:
                use = self._measured(run, name)
                known &= ~np.isnan(use)
                low &= use <= low_limits[name]
                high |= use > high_limits[name]
                excess = np.maximum(excess, np.nan_to_num(use - high_limits[name]))
        low &= known
        high &= self._lasting(run, high, known) & known & view.sources
        if not low.any() or not high.any() or int(low.sum()) <= self._number:
            return
        for row in sorted(np.flatnonzero(high).tolist(), key=lambda row: (-float(excess[row]), row)):
            if run.may_be_source(row):
                self._relieve(run, view.nodes.nodes[row], low, high_limits)

    def _lasting(self, run: Run, high: Mask, known: Mask) -> Mask:
        """Which nodes have been used too much for long enough; `known`: those that are measured."""
        return high

    def _relieve(self, run: Run, node: Node, low: Mask, limits: Thresholds) -> None:
        moved = 0
        for task in self._leaving_order(run, node, limits):
            over = [name for name in limits if self._measured(run, name)[node.row] > limits[name]]
            if not over or (self._node_limit is not None and moved >= self._node_limit):
                return
            if not any(self._amount(run, task, name) > 0 for name in over) or run.refusal(task) is not None:
                continue
            if self._seat(run, task, low & self._stays_below(run, task, limits)):
                taken = run.taken[-1]
                self._moved(run, task, node, taken.target)
                moved += 1

    def _leaving_order(self, run: Run, node: Node, limits: Thresholds) -> list[Task]:
        return self._movable(run, node)

    def _stays_below(self, run: Run, task: Task, limits: Thresholds) -> Mask:
        """By row: whether the node does not exceed its target with this task."""
        fine = np.ones(len(run.view.nodes), dtype=np.bool_)
        for name, percent in limits.items():
            offered = run.view.nodes.allocatable[:, self._columns(run, name)].sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                after = self._measured(run, name) + 100.0 * self._amount(run, task, name) / offered
                fine &= after <= percent
        return fine


class LoadAware(LowNodeUtilization):
    """Rebalance by what pods really use. A node of which one pod is not measured is left alone."""

    name: ClassVar[str] = "LoadAware"
    defaults: ClassVar[tuple[Thresholds, Thresholds] | None] = (
        {"cpu": 30.0, "memory": 30.0}, {"cpu": 80.0, "memory": 85.0}
    )  # fmt: skip

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        arguments.get("metrics")  # accepted: the metrics API is always used
        arguments.get("duration")
        self._sums: dict[str, Percent] = {}
        self._condition = AnomalyCondition(
            arguments.integer("consecutiveAbnormalities", 0, minimum=0),
            arguments.integer("consecutiveNormalities", 3, minimum=0),
            arguments.duration("anomalyTimeout", 60.0, minimum=0),
        )

    def _lasting(self, run: Run, high: Mask, known: Mask) -> Mask:
        """Runs by hand look at what the regular ones have measured, and do not count."""
        view = run.view
        if not self._condition.abnormalities:
            return high
        if run.is_regular:
            for row in np.flatnonzero(known).tolist():
                view.anomalies.observe(view.nodes.nodes[row].name, bool(high[row]), view.now, self._condition)
        lasting = [view.anomalies.lasts(node.name, view.now, self._condition) for node in view.nodes.nodes]
        return np.asarray(high & np.array(lasting, dtype=np.bool_))

    def _real(self, run: Run, task: Task, name: str) -> float | None:
        use = run.view.real_use(task.pod)
        return None if use is None else float(sum(use.get(each, 0) for each in resources_of(name, self._gpus)))

    def _measured(self, run: Run, name: str) -> Percent:
        known = self._sums.get(name)
        if known is None:
            sums = np.zeros(len(run.view.nodes))
            for node in run.view.nodes.nodes:
                for task in node.tasks.values():
                    if task.true_node is node:
                        use = self._real(run, task, name)
                        sums[node.row] += np.nan if use is None else use
            offered = run.view.nodes.allocatable[:, self._columns(run, name)].sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                known = np.where(offered > 0, 100.0 * sums / offered, np.nan)
            self._sums[name] = known
        return known

    def _amount(self, run: Run, task: Task, name: str) -> float:
        return self._real(run, task, name) or 0.0

    def _moved(self, run: Run, task: Task, source: Node, target: Node) -> None:
        for name in self._sums:
            amount = self._amount(run, task, name)
            for node, sign in ((source, -1), (target, 1)):
                offered = run.view.nodes.allocatable[node.row, self._columns(run, name)].sum()
                self._sums[name][node.row] += sign * 100.0 * amount / max(1.0, float(offered))

    def _leaving_order(self, run: Run, node: Node, limits: Thresholds) -> list[Task]:
        """The largest users of what is used too much first, CPUs before the rest."""
        over = [name for name in limits if self._measured(run, name)[node.row] > limits[name]]
        tasks = self._movable(run, node)
        return sorted(tasks, key=lambda t: (*(-self._amount(run, t, name) for name in over[:1]), t.key))

    def guard(self, run: Run) -> Guard | None:
        """Others must not fill a node beyond what would be relieved next."""
        _, limits = self._limits(run)

        def makes_a_source(task: Task, source: Node, target: Node) -> bool:
            for name, percent in limits.items():
                offered = float(run.view.nodes.allocatable[target.row, self._columns(run, name)].sum())
                if not offered:
                    continue
                amount = self._real(run, task, name)
                newcomers = (each for each in target.tasks.values() if each.true_node is not target)
                planned = sum(self._real(run, each, name) or 0.0 for each in newcomers)
                before = self._measured(run, name)[target.row]
                if amount is None or np.isnan(before) or before + 100.0 * (planned + amount) / offered > percent:
                    return True
            return False

        return makes_a_source
