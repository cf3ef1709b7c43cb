"""One run: the plugins of a profile make plans on one view of the cluster.

The run is what plugins plan with. It asks the evictor plugins, counts limits, gangs and budgets over all plans of the
run, and gives each node one role: a node that pods leave takes none, and a node that takes pods loses none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stromboli.cluster import Job, JobKey, Node, Task, TaskKey
from stromboli.grammar import are, plural

from .planning import Disruptions, Move, Place, Plan, Removal, View
from .planning.disruptions import unavailable
from .planning.planned_cluster import Mask
from .plugin import EvictorPlugin, Guard
from .policy import Limits


@dataclass(slots=True)
class Options:
    """What a run by hand may say beyond the policy."""

    job: JobKey | None = None  # make room for this group, and do nothing else
    is_unknown: bool = False  # the run found nothing of that name
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Taken:
    task: Task
    source: Node
    target: Node


class Run:
    def __init__(
        self,
        view: View,
        *,
        profile: str,
        evictors: Sequence[EvictorPlugin],
        limits: Limits,
        guards: Sequence[tuple[str, Guard]] = (),
        options: Options | None = None,
        before: Run | None = None,
    ) -> None:
        """`guards`: what each balance plugin of the policy keeps the others from, by the plugin's name. `before`: the
        run of another profile on the same view; roles and counts go on from there."""
        self.view = view
        self.profile = profile
        self.options = options or Options()
        self.is_regular = options is None  # not by hand
        self.plans: list[Plan] = []
        self.disruptions: Disruptions = Disruptions(view) if before is None else before.disruptions
        self.refused: dict[TaskKey, str] = {}  # why pods that were looked at stay
        self.source_rows: set[int] = set() if before is None else before.source_rows
        self.target_rows: set[int] = set() if before is None else before.target_rows
        # Nodes that will be set aside for a job: nobody else may go there.
        self.closed_rows: set[int] = set() if before is None else before.closed_rows
        self._evictors = list(evictors)
        self._limits = limits
        self.guards = list(guards)
        self._filtered: dict[TaskKey, str | None] = {}
        self.taken: list[_Taken] = [] if before is None else before.taken  # moves so far, of all plans
        self._counts: Counter[tuple[str, str]] = Counter() if before is None else before._counts
        self._removed: set[TaskKey] = set() if before is None else before._removed
        self._away: dict[JobKey, int] = {} if before is None else before._away
        for evictor in self._evictors:
            evictor.open(view)

    # -- may it leave? ------------------------------------------------------------------------------------------

    def refusal(self, task: Task) -> str | None:
        """Why a pod must not leave its node in this run; None if it may."""
        why = self._filter(task) or self.disruptions.refusal(task) or self._over_limit(task)
        if task.key in self._removed:
            why = "it is evicted in this run"
        if why is not None:
            self.refused[task.key] = why
        return why

    def refusal_to_delete(self, task: Task) -> str | None:
        """Why a pod that has finished must not be deleted in this run; None if it may. Nobody misses it: gangs and
        budgets are not asked."""
        asked = (evictor.filter(task) for evictor in self._evictors)
        why = next((why for why in asked if why is not None), None) or self._over_limit(task)
        if task.key in self._removed:
            why = "it is deleted in this run"
        if why is not None:
            self.refused[task.key] = why
        return why

    def may_ever_leave(self, task: Task) -> bool:
        """Whether the evictor plugins agree; limits, gangs and budgets are not asked."""
        return self._filter(task) is None

    def _filter(self, task: Task) -> str | None:
        if task.key not in self._filtered:
            self._filtered[task.key] = self._ask_evictors(task)
        return self._filtered[task.key]

    def _ask_evictors(self, task: Task) -> str | None:
        if self.view.cooldowns.group_rests(task.job):
            return "its group was moved a short while ago"
        if self.view.group_moves(task.job):
            return "a pod of its group is being moved"
        for evictor in self._evictors:
            why = evictor.filter(task)
            if why is not None:
                return why
        return None

    def prefers_to_stay(self, task: Task) -> bool:
        return any(evictor.prefers_to_stay(task) for evictor in self._evictors)

    def _over_limit(self, task: Task) -> str | None:
        limits = self._limits
        for what, key, most in (
            ("run", "", limits.per_run),
            ("node", "" if task.node is None else task.node.name, limits.per_node),
            ("namespace", task.namespace, limits.per_namespace),
            ("workload", "" if task.job is None else task.job.key, limits.per_workload),
        ):
            if most is not None and self._counts[what, key] >= most:
                return f"this run may move {plural(most, 'pod')}{f' of a {what}' if key else ''}"
        if limits.per_workload is not None and task.job is not None:
            away = self._unavailable(task.job)
            if self._counts["workload", task.job.key] + away >= limits.per_workload:
                lacks = f"{plural(away, 'pod')} of its workload {are(away)} unavailable"
                return f"{lacks}, and this run may move {limits.per_workload}"
        return None

    def _unavailable(self, job: Job) -> int:
        """Pods that the workload lacks already. Those that this run moves still run, so nothing is counted twice."""
        if job.key not in self._away:
            self._away[job.key] = unavailable(job)
        return self._away[job.key]

    # -- moves --------------------------------------------------------------------------------------------------

    @property
    def open_targets(self) -> Mask:
        """Nodes that may take pods in this run."""
        mask = self.view.targets.copy()
        mask[sorted(self.source_rows | self.closed_rows)] = False
        return np.asarray(mask)

    def may_be_source(self, row: int) -> bool:
        return row not in self.target_rows

    def try_move(self, task: Task, target: Node, *, by: str) -> bool:
        """Move a task in the view, if nobody objects. `by`: the plugin that moves it."""
        source = task.node
        assert source is not None
        if any(guard(task, source, target) for owner, guard in self.guards if owner != by):
            return False
        if any(evictor.pre_eviction_filter(task, target) is not None for evictor in self._evictors):
            return False
        # Counted before it moves: then its node is still the source.
        self._count(task, source.name, 1)
        if not self.view.move(task, target):
            self._count(task, source.name, -1)
            return False
        self.disruptions.add(task)
        self.taken.append(_Taken(task, source, target))
        return True

    def remove(self, task: Task, *, plugin: str, why: str, has_finished: bool = False) -> Plan:
        """Evict a pod without a place for a successor, or delete one that has finished: a plan of its own. `why`: a
        sentence without its end, which goes on after the pod."""
        node = "" if task.node is None else task.node.name
        self._count(task, node, 1)
        if not has_finished:
            self.disruptions.add(task)
        self._removed.add(task.key)
        sentence = f"{why[:1].upper()}{why[1:]}."
        plan = Plan(
            name=f"{plugin.lower()}-{task.key.replace('/', '.')}-{int(self.view.now)}",
            profile=self.profile,
            plugin=plugin,
            goal=f"removes {task.key}: {why}",
            moves=(),
            removals=(Removal(task.key, task.uid, node, sentence, has_finished),),
        )
        self.plans.append(plan)
        return plan

    def _count(self, task: Task, source: str, change: int) -> None:
        workload = "" if task.job is None else task.job.key
        for what, key in (("run", ""), ("node", source), ("namespace", task.namespace), ("workload", workload)):
            self._counts[what, key] += change

    @property
    def mark(self) -> tuple[int, int]:
        return self.view.mark, len(self.taken)

    def undo(self, mark: tuple[int, int]) -> None:
        self.view.undo(mark[0])
        while len(self.taken) > mark[1]:
            taken = self.taken.pop()
            self.disruptions.remove(taken.task)
            self._count(taken.task, taken.source.name, -1)

    def moves_since(self, mark: tuple[int, int]) -> list[Move]:
        return [self.view.as_move(taken.task, taken.source, taken.target) for taken in self.taken[mark[1] :]]

    # -- plans --------------------------------------------------------------------------------------------------

    def accept(
        self,
        mark: tuple[int, int],
        *,
        plugin: str,
        subject: str,
        goal: str,
        cooldown: float,
        job: JobKey | None = None,
        places: Sequence[Place] = (),
        emptied: Sequence[str] = (),
    ) -> Plan | None:
        """Make a plan of the moves since a mark. `subject` tells it from the other plans of the same moment. None, and
        the moves are undone, if this plan has failed and nothing has changed since; by hand it is made again."""
        taken = self.taken[mark[1] :]
        moves = tuple(self.moves_since(mark))
        if self.is_regular and self.view.circumstances.has_failed(moves):
            self.undo(mark)
            return None
        frees: Counter[str] = Counter()
        for each in taken:
            self.source_rows.add(each.source.row)
            self.target_rows.add(each.target.row)
            frees.update(self.view.session.amounts(each.task.request))
        plan = Plan(
            name=f"{plugin.lower()}-{subject.replace('/', '.')}-{int(self.view.now)}",
            profile=self.profile,
            plugin=plugin,
            goal=goal,
            moves=moves,
            cooldown=cooldown,
            job=job,
            places=tuple(places),
            emptied=tuple(emptied),
            frees=dict(sorted(frees.items())),
        )
        self.plans.append(plan)
        return plan
