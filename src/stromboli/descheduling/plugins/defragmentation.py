"""Defragmentation: empty nodes that are hardly used, and make room for jobs that wait.

By thresholds, nodes below `lowThresholds` are emptied, the least used first, and their pods go to nodes that are used
well already, as long as these stay within `protectionThresholds`. Targets come in tiers:

    1   defragment < use < protection
    2   low <= use <= defragment
    3   use < low, but used more than the source; or as much, and later by name

A source is emptied as a whole or left alone: a node with one pod left helps nobody. With `forPending` room is made for
a job that waits instead, see `pending_room`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np

from stromboli.cluster import Node, Status, Task
from stromboli.descheduling.evictor.default_evictor import read_namespaces
from stromboli.descheduling.planning.cooldowns import DEFAULT_COOLDOWN
from stromboli.descheduling.plugin import Guard
from stromboli.descheduling.policy.thresholds import GPU, Thresholds, gpu_names, is_resource, resources_of, thresholds
from stromboli.descheduling.run import Run
from stromboli.descheduling.strategy import BalancePlugin
from stromboli.scheduling.configuration import Arguments

from .pending_room import PendingRoom
from .target_order import TargetOrder

LOW: Final = 30.0
DEFRAGMENT: Final = 75.0
PROTECTION: Final = 95.0


@dataclass(frozen=True, slots=True)
class DefragmentationArgs:
    resource: str
    gpus: tuple[str, ...]
    low: Thresholds
    defragment: Thresholds
    protection: Thresholds
    number_of_nodes: int
    cooldown: float
    strict_targets: bool
    for_pending: bool
    min_pending: float
    wait_per_move: float
    max_moves: int

    @classmethod
    def read(cls, arguments: Arguments) -> DefragmentationArgs:
        resource = arguments.text("ResourceType", GPU)
        if not is_resource(resource):
            raise arguments.error("ResourceType", "must be cpu, gpu, memory or a full resource name")
        found = cls(
            resource=resource,
            gpus=gpu_names(arguments),
            low=thresholds(arguments, "lowThresholds", {resource: LOW}),
            defragment=thresholds(arguments, "defragmentThresholds", {resource: DEFRAGMENT}),
            protection=thresholds(arguments, "protectionThresholds", {resource: PROTECTION}),
            number_of_nodes=arguments.integer("numberOfNodes", 0, minimum=0),
            cooldown=arguments.duration("coolDownTime", DEFAULT_COOLDOWN, minimum=0),
            strict_targets=arguments.boolean("strictTargets", False),
            for_pending=arguments.boolean("forPending", False),
            min_pending=arguments.duration("minPendingTime", 0.0, minimum=0),
            wait_per_move=arguments.duration("minPendingTimePerMove", 0.0, minimum=0),
            max_moves=arguments.integer("maxMovesForPending", 16, minimum=1),
        )
        for key, limits in (
            ("lowThresholds", found.low), ("defragmentThresholds", found.defragment),
            ("protectionThresholds", found.protection),
        ):  # fmt: skip
            if resource not in limits:
                raise arguments.error(key, f"must have a percentage for {resource}, the ResourceType")
        for name in {*found.low, *found.defragment, *found.protection}:
            low, middle, high = (limits.get(name) for limits in (found.low, found.defragment, found.protection))
            known = [limit for limit in (low, middle, high) if limit is not None]
            if any(a >= b for a, b in pairwise(known)):
                wanted = "must be below defragmentThresholds, and those below protectionThresholds"
                raise arguments.error("lowThresholds", f"{wanted} ({name})")
        return found


class Defragmentation(BalancePlugin):
    name: ClassVar[str] = "Defragmentation"
    makes_room: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.args = DefragmentationArgs.read(arguments)
        self._evictable = read_namespaces(arguments, "evictableNamespaces")

    def balance(self, run: Run) -> None:
        if self.args.for_pending or run.options.job is not None:
            room = PendingRoom(
                run, self.name, self.args.cooldown, self._evictable,
                max_moves=self.args.max_moves, wait_per_move=self.args.wait_per_move,
            )  # fmt: skip
            room.make(run.options.job, min_pending=self.args.min_pending)
            return
        self._empty_low_nodes(run)

    def guard(self, run: Run) -> Guard | None:
        """Others must not leave a node so little used that it would be emptied next."""
        if self.args.for_pending:
            return None
        view = run.view

        def makes_a_source(task: Task, source: Node, target: Node) -> bool:
            after = self._after(run, source, task)
            return after is not None and 0 < after < self.args.low[self.args.resource]

        return makes_a_source if len(view.nodes) else None

    def _after(self, run: Run, node: Node, task: Task) -> float | None:
        """The use of a node in percent once a task has left; None if it offers nothing of the resource."""
        view = run.view
        columns = self._columns(run)
        offered = int(view.nodes.allocatable[node.row, columns].sum())
        used = int(view.nodes.used[node.row, columns].sum()) - int(task.request[columns].sum())
        return 100.0 * used / offered if offered else None

    def _resources(self, name: str | None = None) -> tuple[str, ...]:
        return resources_of(name or self.args.resource, self.args.gpus)

    # -- by thresholds ------------------------------------------------------------------------------------------

    def _empty_low_nodes(self, run: Run) -> None:
        view = run.view
        use = view.utilization(self._resources())
        low = view.sources & (use > 0)
        for name, percent in self.args.low.items():
            with np.errstate(invalid="ignore"):
                low &= view.utilization(self._resources(name)) < percent
        rows = [row for row in np.flatnonzero(low).tolist() if run.may_be_source(row) and self._is_movable(run, row)]
        if len(rows) <= self.args.number_of_nodes:
            return
        for row in sorted(rows, key=lambda row: (not self._is_preferred(run, row), float(use[row]), row)):
            if run.may_be_source(row):
                self._empty(run, row)

    def _is_movable(self, run: Run, row: int) -> bool:
        """Whether everything on a node could leave it, if it had a place to go."""
        node = run.view.nodes.nodes[row]
        tasks = run.view.tasks_on(node)
        if not tasks or run.view.nodes.held[row].any():
            return False
        if node.lock is not None and any(t.job is not None and t.job.queue.name in node.lock.opens_to for t in tasks):
            return False
        return all(self._evictable(task.namespace) and run.may_ever_leave(task) for task in tasks)

    def _is_preferred(self, run: Run, row: int) -> bool:
        """Somebody waits for this node: it is locked for another queue than that of its pods, or set aside."""
        node = run.view.nodes.nodes[row]
        return node.lock is not None or any(task.status is Status.RESERVED for task in node.tasks.values())

    def _empty(self, run: Run, row: int) -> None:
        view = run.view
        node = view.nodes.nodes[row]
        mark = run.mark
        columns = self._columns(run)

        def largest_first(task: Task) -> tuple[int, int, str]:
            return (-int(task.request[columns].sum()), -int(task.request.sum()), task.key)

        limits = (self.args.low, self.args.defragment, self.args.protection)
        resource = self.args.resource
        order = TargetOrder(
            run, row, columns, (limits[0][resource], limits[1][resource], limits[2][resource]),
            {tuple(self._columns(run, name)): percent for name, percent in self.args.protection.items()},
            strict=self.args.strict_targets,
        )  # fmt: skip
        for task in sorted(view.tasks_on(node), key=largest_first):
            if run.refusal(task) is not None or not order.find(task, by=self.name):
                run.undo(mark)
                return
        run.accept(
            mark, plugin=self.name, subject=node.name, goal=f"empties node {node.name}", cooldown=self.args.cooldown,
            emptied=[node.name],
        )  # fmt: skip

    def _columns(self, run: Run, name: str | None = None) -> list[int]:
        index = run.view.session.axis.index
        return [index[each] for each in self._resources(name) if each in index]
