"""The search for victims in its plainest form: every node is looked at for every task, and nothing is remembered.

It is far too slow for real clusters. The fast search must come to the same decisions, and this one says which.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from stromboli.cluster import Job, JobKey, Node, Queue, Status, Task
from stromboli.scheduling.eviction.plans import EvictionPlan, EvictionUnit, Way
from stromboli.scheduling.eviction.reprieve import fits_within, is_torn
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

EVICTABLE = frozenset({Status.BOUND, Status.RUNNING})
OCCUPIES = EVICTABLE | {Status.BINDING, Status.ALLOCATED, Status.SUCCEEDED}


class PlainSearch:
    """Takes the arguments of `VictimSearch`, and is used like it."""

    def __init__(
        self,
        session: Session,
        kind: str,
        job: Job,
        queues: Sequence[Queue],
        *,
        rank: Callable[[Queue], Any],
        reason: str,
        message: Callable[[Task], str],
        inside: bool = False,
        group: Hashable = None,
        cost: Callable[[Sequence[Task]], Any] = lambda victims: 0,
        cost_basis: Callable[[], Hashable] = lambda: None,
    ) -> None:
        self.session = session
        self.kind = kind
        self.queues = queues
        self.among = lambda task: (task.job is job) == inside
        self.rank = rank
        self.reason = reason
        self.message = message
        self.cost = cost
        self.gone: list[EvictionUnit] = []
        self.spared: frozenset[JobKey] = frozenset()

    def protect(self, gangs: frozenset[JobKey]) -> None:
        self.spared = gangs

    def most_places(self, tasks: Sequence[Task]) -> int:
        return len(tasks)

    def make_room(self, statement: Statement, task: Task) -> bool:
        fitting = self.session.placement.fitting(task, ahead=True)
        best: tuple[Any, EvictionPlan] | None = None
        plans = self._plans(task, fitting)
        while plans:
            plan = min(plans, key=lambda plan: plan.key)
            plans.remove(plan)
            if best is not None and best[0] <= plan.key:
                break
            mark = len(statement)
            units = self._carry_out(statement, task, plan)
            statement.discard(down_to=mark)
            if units is None or {id(unit) for unit in units} != {id(unit) for unit in plan.needed}:
                # Others above the minimum of their gang may be enough. If not, the rest goes only with all of it.
                later = [way for way in Way if way > plan.way] if plan.way is Way.IN_ORDER else []
                ways = [self._plan_on(plan.node.row, task, fitting, {}, way=way) for way in later]
                plans += [instead for instead in ways if instead is not None]
            if units is not None:
                key = self._key([victim for unit in units for victim in unit.tasks], plan.node)
                if best is None or key < best[0]:
                    best = (key, plan)
        if best is None:
            return False
        carried = self._carry_out(statement, task, best[1])
        assert carried is not None
        self.gone += carried
        return True

    # -- plans --------------------------------------------------------------------------------------------------

    def _plans(self, task: Task, fitting: Fitting) -> list[EvictionPlan]:
        closed = set(self.session.points.closed_to_evictions.of(task))
        gangs: dict[JobKey, list[Task]] = {}
        rows = [row for row in range(len(self.session.nodes)) if row not in closed]
        plans = [self._plan_on(row, task, fitting, gangs) for row in rows]
        return [plan for plan in plans if plan is not None]

    def _evictable(self, row: int) -> list[Task]:
        return [
            task
            for queue in self.queues
            for job in queue.jobs.values()
            if job.object is not None
            for task in job.tasks.values()
            if task.status in EVICTABLE and task.node is not None and task.node.row == row and task.preemptable
        ]

    def _plan_on(
        self, row: int, task: Task, fitting: Fitting, gangs: dict[JobKey, list[Task]], *, way: Way = Way.IN_ORDER
    ) -> EvictionPlan | None:
        reason = int(fitting.reasons[row])
        if reason and not self.session.node_reasons[reason - 1].resolvable:
            return None
        columns = fitting.columns
        wanted = task.request[columns]
        room = self.session.nodes.future_idle_of(row)[columns]
        tasks = [
            candidate
            for candidate in self._evictable(row)
            if self.among(candidate) and (candidate.best_effort or not task.best_effort)
        ]
        most = room + sum((t.request[columns] for t in tasks), np.zeros_like(wanted))
        if not tasks or bool((most < wanted).any()):
            return None
        units = self._units(task, tasks, gangs)
        if way is Way.WHOLE_GANGS:
            units = self._as_gangs(task, units)
        plan = self._plan(task, self.session.nodes.nodes[row], units, room, columns, way)
        if plan is not None:
            plan.way = way
        return plan

    def _as_gangs(self, evictor: Task, units: list[EvictionUnit]) -> list[EvictionUnit]:
        """Gangs as a whole in place of tasks that they cannot all lose one by one."""
        found: list[EvictionUnit] = []
        seen: set[JobKey] = set()
        for unit in units:
            job = unit.tasks[0].job
            assert job is not None
            if unit.whole or self._can_lose(job, units):
                found.append(unit)
            elif job.key not in seen:
                seen.add(job.key)
                members = self._gang(evictor, job)
                here = [member for member in members if member.node is unit.tasks[0].node]
                found += [self._unit(members, here, whole=True)] if members else []
        return sorted(found, key=lambda unit: unit.harm)

    def _units(self, evictor: Task, tasks: list[Task], gangs: dict[JobKey, list[Task]]) -> list[EvictionUnit]:
        units: list[EvictionUnit] = []
        together: dict[JobKey, list[Task]] = {}
        for task in tasks:
            if self.session.may_evict(self.kind, evictor, task):
                units.append(self._unit([task], [task], whole=False))
            elif task.job is not None:
                together.setdefault(task.job.key, []).append(task)
        for key, here in together.items():
            members = gangs.get(key)
            if members is None:
                assert here[0].job is not None
                members = gangs[key] = self._gang(evictor, here[0].job)
            if members and any(self.session.protected(self.kind, evictor, task) for task in here):
                here = [member for member in members if member.node is here[0].node]
                units.append(self._unit(members, here, whole=True))
        units.sort(key=lambda unit: self._order(unit.tasks[0]), reverse=True)
        units.sort(key=lambda unit: unit.harm)
        return units

    def _can_lose(self, job: Job, units: list[EvictionUnit]) -> bool:
        """Whether a gang can run without its single tasks among these, or cannot run in any case."""
        going = [unit.tasks[0] for unit in units if not unit.whole and unit.tasks[0].job is job]
        left = [task for task in job.tasks.values() if task not in going and task.status in OCCUPIES]
        roles = job.role_minimums if job.roles_matter else {}
        enough = len(left) >= job.min_available and all(
            sum(task.role == role for task in left) >= least for role, least in roles.items()
        )
        return enough or not self.session.job_ready(job)

    def _above_minimum(self, units: list[EvictionUnit], short: Any, columns: Any) -> list[EvictionUnit]:
        """Those that help most, as long as their gangs can lose them; of a higher rank only if others are too few."""
        chosen: list[EvictionUnit] = []
        for rank in sorted({unit.harm[0] for unit in units}):
            chosen, left = [], short.copy()
            for _ in units:
                rest = [unit for unit in units if unit.harm[0] <= rank and unit not in chosen]
                rest = [u for u in rest if u.whole or self._can_lose(_job(u), [*chosen, u])]
                if rest and bool((left > 0).any()):
                    best = max(rest, key=lambda unit: _help(_freed(unit, columns), left))
                    chosen.append(best)
                    left = left - _freed(best, columns)
            if not bool((left > 0).any()):
                break
        return chosen

    def _order(self, task: Task) -> Any:
        assert task.job is not None
        return (self.session.job_key(task.job), self.session.task_key(task))

    def _unit(self, tasks: list[Task], here: list[Task], *, whole: bool) -> EvictionUnit:
        job = tasks[0].job
        assert job is not None
        rank = max(self._rank(task) for task in tasks)
        return EvictionUnit(tasks, here, (rank, whole, len(tasks)), whole, self.session.job_ready(job))

    def _gang(self, evictor: Task, job: Job) -> list[Task]:
        if evictor.job is job or job.key in self.spared:
            return []
        members = []
        for task in job.tasks.values():
            if task.status in EVICTABLE:
                if not self.session.may_evict(self.kind, evictor, task, whole=True):
                    return []
                members.append(task)
            elif task.node is not None and task.status is not Status.RELEASING:
                return []
        return sorted(members, key=lambda member: member.key)

    def _rank(self, task: Task) -> Any:
        assert task.job is not None
        return (self.rank(task.job.queue), task.job.priority, task.priority)

    def _plan(
        self, task: Task, node: Node, units: list[EvictionUnit], room: Any, columns: Any, way: Way
    ) -> EvictionPlan | None:
        wanted = task.request[columns]
        if way is Way.ABOVE_MINIMUM:
            chosen = self._above_minimum(units, wanted - room, columns)
            room = room + sum((_freed(unit, columns) for unit in chosen), np.zeros_like(wanted))
        else:
            units = _smallest_first(units, wanted - room, columns)
            chosen = []
            for unit in units:
                if chosen and bool((room >= wanted).all()):
                    break
                chosen.append(unit)
                room = room + _freed(unit, columns)
        if not chosen or not bool((room >= wanted).all()):
            return None
        needed = list(chosen)
        for unit in reversed(chosen):
            without = room - _freed(unit, columns)
            if len(needed) > 1 and bool((without >= wanted).all()):
                room = without
                needed.remove(unit)
        victims = [victim for unit in needed for victim in unit.tasks]
        return EvictionPlan(self._key(victims, node), node, units, needed)

    def _key(self, victims: list[Task], node: Node) -> Any:
        worst = max(self._rank(victim) for victim in victims)
        youngest = max(victim.created for victim in victims)
        return (self.cost(victims), worst, self._stopped(victims), len(victims), -youngest, node.name)

    def _stopped(self, victims: list[Task]) -> int:
        """How many of them belong to gangs that run now, and would lack some without them."""
        number = 0
        if self.session.points.job_ready:
            for job in {victim.job.key: victim.job for victim in victims if victim.job is not None}.values():
                lost = [victim for victim in victims if victim.job is job]
                short = job.ready_count - len(lost) < job.min_available
                for role, least in job.role_minimums.items() if job.roles_matter else ():
                    short |= job.role_occupied(role) - sum(victim.role == role for victim in lost) < least
                number += len(lost) if short and self.session.job_ready(job) else 0
        return number

    # -- for real -----------------------------------------------------------------------------------------------

    def _carry_out(self, statement: Statement, task: Task, plan: EvictionPlan) -> list[EvictionUnit] | None:
        assert task.job is not None
        mark = len(statement)
        had = task.job.queue.allocated.copy()
        gone: list[EvictionUnit] = []
        for unit in [*plan.needed, *(unit for unit in plan.units if unit not in plan.needed)]:
            if gone and fits_within(self.session, task, plan.node, self.kind, had):
                break
            if self._may_go(task, unit):
                for victim in unit.tasks:
                    statement.evict(victim, reason=self.reason, message=self.message(task))
                gone.append(unit)
        if not gone or not fits_within(self.session, task, plan.node, self.kind, had):
            statement.discard(down_to=mark)
            return None
        for unit in reversed(gone[:-1]) if len(gone) > 1 else ():
            for victim in unit.tasks:
                statement.spare(victim)
            if fits_within(self.session, task, plan.node, self.kind, had) and not is_torn(self.session, unit):
                gone.remove(unit)
            else:
                for victim in unit.tasks:
                    statement.evict(victim, reason=self.reason, message=self.message(task))
        if not statement.pipeline(task, plan.node):
            statement.discard(down_to=mark)
            return None
        return gone

    def _may_go(self, evictor: Task, unit: EvictionUnit) -> bool:
        if any(task.status not in EVICTABLE or not self.among(task) for task in unit.tasks):
            return False
        return all(self.session.may_evict(self.kind, evictor, task, whole=unit.whole) for task in unit.tasks)


def _smallest_first(units: list[EvictionUnit], short: Any, columns: Any) -> list[EvictionUnit]:
    alike = [unit for unit in units if unit.harm == units[0].harm]
    enough = [unit for unit in alike if bool((_freed(unit, columns) >= short).all())]
    if len(enough) < 2:
        return units
    first = min(enough, key=lambda unit: tuple(_freed(unit, columns).tolist()))
    return [first, *(unit for unit in units if unit is not first)]


def _freed(unit: EvictionUnit, columns: Any) -> Any:
    return sum((task.request[columns] for task in unit.here), np.zeros(len(columns), dtype=np.int64))


def _job(unit: EvictionUnit) -> Job:
    job = unit.tasks[0].job
    assert job is not None
    return job


def _help(freed: Any, short: Any) -> float:
    parts = [min(amount, lack) / lack for amount, lack in zip(freed.tolist(), short.tolist(), strict=True) if lack > 0]
    return sum(parts)
