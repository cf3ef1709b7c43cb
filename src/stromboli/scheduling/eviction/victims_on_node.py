"""The plan of evictions for one task on one node.

Evictable units on a node are single tasks above their gang's minimum, and whole gangs. By arithmetic alone the least
valuable units are chosen until the task would fit, and then whoever is not needed after all is spared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import add, ge, itemgetter, sub
from typing import Any

from stromboli.cluster import Job, JobKey, Node, Queue, Status, Task
from stromboli.cluster.topology import SubGroup, sub_groups
from stromboli.scheduling.callbacks import EvictionKind
from stromboli.scheduling.gang import can_spare
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session

from .candidates import is_evictable, runs_short_without
from .plans import EvictionPlan, EvictionUnit, Way

Amounts = list[int]  # by column of the task's request


class Planner:
    """Makes plans for the tasks of one job, by the rules of one kind (preemptable or reclaimable)."""

    def __init__(
        self,
        session: Session,
        kind: EvictionKind,
        rank: Callable[[Queue], Any],
        cost: Callable[[Sequence[Task]], Any],
    ) -> None:
        self._session = session
        self._kind = kind
        self._rank_of = rank
        self.cost = cost
        self.protected: frozenset[JobKey] = frozenset()  # gangs that must not stop
        self._has_gangs = bool(session.points.job_ready)
        self._gangs: dict[JobKey, list[Task]] = {}  # what is known of gangs that may go as a whole
        self._gangs_of: tuple[int, int] | None = None  # the kind of evictor
        self._rows = session.ledger.views.rows()

    def plan_on(
        self, row: int, task: Task, fitting: Fitting, tasks: list[Task], *, whole: bool = False, way: Way = Way.IN_ORDER
    ) -> EvictionPlan | None:
        """`tasks`: those on the node that could be evicted. `whole`: not a partial plan."""
        session, node = self._session, self._session.nodes.nodes[row]
        reason = int(fitting.reasons[row])
        if not tasks or (reason and not session.node_reasons[reason - 1].resolvable):
            return None
        short = list(map(sub, fitting.wanted, fitting.room_later(row)))
        if not whole and not reason:
            plan = self._one_of_the_least(node, task, tasks, fitting, short)
            if plan is not None:
                return plan
        if not _covers(_sum(tasks, fitting), short):
            return None
        units = self._units(task, tasks)
        if way is Way.WHOLE_GANGS:
            units = self._by_gangs(task, units)
        gives = {id(unit): _sum(unit.here, fitting) for unit in units}
        chosen = self._above_minimum if way is Way.ABOVE_MINIMUM else _in_order
        plan = self._plan(node, *chosen(units, gives, short), gives, short) if units else None
        if plan is not None:
            plan.way = way
            plan.sure = way is Way.IN_ORDER and plan.key[0] == 0 and self._is_sure(plan, units, tasks)
        return plan

    def _is_sure(self, plan: EvictionPlan, units: list[EvictionUnit], tasks: list[Task]) -> bool:
        """Whether all who may not go one by one rank higher than those who go."""
        single = {id(unit.tasks[0]) for unit in units if not unit.whole}
        return all(self._rank(candidate) > plan.key[1] for candidate in tasks if id(candidate) not in single)

    def key(self, victims: list[Task], node: Node) -> Any:
        """The key of a plan that evicts these: less is better."""
        if len(victims) == 1:
            worst, youngest = self._rank(victims[0]), victims[0].created
        else:
            worst, youngest = max(map(self._rank, victims)), max(victim.created for victim in victims)
        return (self.cost(victims), worst, self.stopped(victims), len(victims), -youngest, node.name)

    def stopped(self, victims: Sequence[Task]) -> int:
        """How many of these belong to gangs that can run now and could not without them."""
        if not self._has_gangs:
            return 0
        by_job: dict[JobKey, list[Task]] = {}
        for victim in victims:
            if victim.job is not None:
                by_job.setdefault(victim.job.key, []).append(victim)
        return sum(len(going) for going in by_job.values() if self._stops(going))

    def _stops(self, going: list[Task]) -> bool:
        job = going[0].job
        assert job is not None
        return self._session.job_ready(job) and runs_short_without(job, going)

    def _one_of_the_least(
        self, node: Node, evictor: Task, tasks: list[Task], fitting: Fitting, short: Amounts
    ) -> EvictionPlan | None:
        """Where the least valuable tasks are alike and each of them is enough, the last in the order goes, and the
        others need not be asked about. None if it is not that simple."""
        ranks = list(map(self._rank, tasks))
        worst = min(ranks)
        least = [task for task, rank in zip(tasks, ranks, strict=True) if rank == worst]
        shape = least[0].shape
        if len({task.shape.id for task in least}) > 1 or not _covers(fitting.amounts(shape), short):
            return None
        if len(least) > 1:
            in_order = sorted(zip(self._orders(least), least, strict=True), key=itemgetter(0), reverse=True)
            least = [task for _, task in in_order]
        for task in least:
            if self._session.may_evict(self._kind, evictor, task):
                victims, cost = [task], self.cost([task])
                units = [EvictionUnit(victims, victims, (worst, False, 1), False)]
                key = (cost, worst, self.stopped(victims), 1, -task.created, node.name)
                return EvictionPlan(key, node, units, units, cost == 0 and task is least[0], True)
        return None

    def _units(self, evictor: Task, tasks: list[Task]) -> list[EvictionUnit]:
        """Single tasks of one node that may go, and whole gangs; least valuable first."""
        units: list[EvictionUnit] = []
        together: dict[JobKey, list[Task]] = {}
        for task in tasks:
            if self._session.may_evict(self._kind, evictor, task):
                units.append(self._unit([task], [task], whole=False))
            elif task.job is not None:
                together.setdefault(task.job.key, []).append(task)
        units += self._sub_group_units(evictor, together)
        for here in filter(None, together.values()):
            assert here[0].job is not None
            members = self._gang(evictor, here[0].job)
            # As a whole it goes because its members may not go one by one. Where one of them could, but nobody permits
            # it, all of them together must not be a way around that.
            if members and any(self._session.protected(self._kind, evictor, task) for task in here):
                here = [member for member in members if member.node is here[0].node]
                units.append(self._unit(members, here, whole=True))
        if len(units) > 1:
            # Of equal rank, the last in the order go first: the last job, and in it the last role and the highest
            # index.
            orders = self._orders([unit.tasks[0] for unit in units])
            in_order = sorted(zip(orders, units, strict=True), key=itemgetter(0), reverse=True)
            units = sorted([unit for _, unit in in_order], key=_harm)
        return units

    def _sub_group_units(self, evictor: Task, together: dict[JobKey, list[Task]]) -> list[EvictionUnit]:
        """Whole sub-groups without which their gangs can go on. Their tasks are taken out of `together`."""
        units: list[EvictionUnit] = []
        for here in together.values():
            job = here[0].job
            if job is None or job.layout is None or job is evictor.job or job.goes_whole:
                continue
            groups = {group: task for task in here if (group := sub_groups(job).of_task.get(task.key)) is not None}
            for group, task in groups.items():
                if can_spare(job, group) and self._all_may_go(evictor, group.tasks, group):
                    units.append(self._sub_group_unit(group, task))
                    here[:] = [one for one in here if sub_groups(job).of_task.get(one.key) is not group]
        return units

    def _sub_group_unit(self, group: SubGroup, task: Task) -> EvictionUnit:
        members = sorted((one for one in group.tasks if one.node is not None), key=lambda member: member.key)
        members = [one for one in members if is_evictable(self._session.ledger, one)]
        unit = self._unit(members, [one for one in members if one.node is task.node], whole=True)
        unit.sub_group = group
        return unit

    def _by_gangs(self, evictor: Task, units: list[EvictionUnit]) -> list[EvictionUnit]:
        """With gangs as a whole in place of those of their tasks that cannot all go one by one."""
        found: list[EvictionUnit] = []
        wholes: dict[JobKey, list[Task]] = {}
        for unit in units:
            job = unit.tasks[0].job
            if job is None or unit.whole or not self.runs_short(job, units):
                found.append(unit)
            elif job.key not in wholes:
                members = wholes[job.key] = self._gang(evictor, job)
                if members:
                    here = [member for member in members if member.node is unit.tasks[0].node]
                    found.append(self._unit(members, here, whole=True))
        return sorted(found, key=_harm)

    def any_runs_short(self, units: Sequence[EvictionUnit]) -> bool:
        return any(self.runs_short(unit.tasks[0].job, units) for unit in units if not unit.whole)

    def runs_short(self, job: Job | None, units: Sequence[EvictionUnit]) -> bool:
        """Whether a gang that can run now could not without those of its tasks that are units."""
        if job is None or not self._session.job_ready(job):
            return False
        return runs_short_without(job, [unit.tasks[0] for unit in units if not unit.whole and unit.tasks[0].job is job])

    def _above_minimum(
        self, units: list[EvictionUnit], gives: dict[int, Amounts], short: Amounts
    ) -> tuple[list[EvictionUnit], list[EvictionUnit]]:
        """All units, and some that suffice: no gang loses more than it has above its minimum, nobody of a higher rank
        goes if others are enough, and otherwise those go first that help most."""
        chosen: list[EvictionUnit] = []
        for rank in sorted({unit.harm[0] for unit in units}):
            open_ = [unit for unit in units if unit.harm[0] <= rank]
            chosen, left = [], list(short)
            while open_ and any(lack > 0 for lack in left):
                best = max(open_, key=lambda unit: _help(gives[id(unit)], left))
                open_.remove(best)
                if best.whole or not self.runs_short(best.tasks[0].job, [*chosen, best]):
                    chosen.append(best)
                    left = list(map(sub, left, gives[id(best)]))
            if not any(lack > 0 for lack in left):
                break
        return units, chosen

    def _orders(self, tasks: list[Task]) -> list[Any]:
        """What to sort these tasks by: the keys of their jobs, and of tasks in the same job their own."""
        session = self._session
        jobs = {task.job.key: task.job for task in tasks if task.job is not None}
        if len(jobs) == len(tasks):
            return list(map(session.job_key, jobs.values()))
        keys = {key: session.job_key(job) for key, job in jobs.items()} if len(jobs) > 1 else {}
        return [(keys.get(task.job.key), session.task_key(task)) for task in tasks if task.job is not None]

    def _unit(self, tasks: list[Task], here: list[Task], *, whole: bool) -> EvictionUnit:
        rank = self._rank(tasks[0]) if len(tasks) == 1 else max(map(self._rank, tasks))
        return EvictionUnit(tasks, here, (rank, whole, len(tasks)), whole)

    def _gang(self, evictor: Task, job: Job) -> list[Task]:
        """All tasks of a gang, if it may go as a whole; else none."""
        kind = (evictor.shape.id, evictor.priority)
        if self._rows.changed() or self._gangs_of != kind:
            self._gangs_of = kind
            self._gangs.clear()
        members = self._gangs.get(job.key)
        if members is None:
            stays = evictor.job is job or job.key in self.protected
            members = self._gangs[job.key] = [] if stays else self._members(evictor, job)
        return members

    def _members(self, evictor: Task, job: Job) -> list[Task]:
        if not self._all_may_go(evictor, job.tasks.values()):
            return []
        # Those on nodes that are gone hold nothing.
        placed = [task for task in job.tasks.values() if task.node is not None]
        members = [task for task in placed if is_evictable(self._session.ledger, task)]
        return sorted(members, key=lambda member: member.key)

    def _all_may_go(self, evictor: Task, tasks: Iterable[Task], group: SubGroup | None = None) -> bool:
        """Whether those of these tasks that have a place may be evicted together. `group`: the sub-group that they are,
        if not all of their gang."""
        going: list[Task] = []
        for task in tasks:
            if is_evictable(self._session.ledger, task):
                going.append(task)
            elif task.node is not None and task.status is not Status.RELEASING:
                return False  # one of them is just being bound
        if group is not None:
            return self._session.may_evict_sub_group(self._kind, evictor, group, going)
        return all(self._session.may_evict(self._kind, evictor, task, whole=True) for task in going)

    def _rank(self, task: Task) -> Any:
        assert task.job is not None
        return (self._rank_of(task.job.queue), task.job.priority, task.priority)

    def _plan(
        self,
        node: Node,
        units: list[EvictionUnit],
        chosen: list[EvictionUnit],
        gives: dict[int, Amounts],
        short: Amounts,
    ) -> EvictionPlan | None:
        """`chosen`: those of the units that go, without whom of them is not needed."""
        freed = [0] * len(short)
        for unit in chosen:
            freed = list(map(add, freed, gives[id(unit)]))
        if not chosen or not _covers(freed, short):
            return None
        needed = list(chosen)
        for unit in reversed(chosen):
            if len(needed) == 1:
                break
            without = list(map(sub, freed, gives[id(unit)]))
            if _covers(without, short):
                freed = without
                needed.remove(unit)
        victims = [victim for unit in needed for victim in unit.tasks]
        return EvictionPlan(self.key(victims, node), node, units, needed)


def _in_order(
    units: list[EvictionUnit], gives: dict[int, Amounts], short: Amounts
) -> tuple[list[EvictionUnit], list[EvictionUnit]]:
    """All units in order, and the first of them that suffice."""
    units = _smallest_first(units, gives, short)
    chosen: list[EvictionUnit] = []
    freed = [0] * len(short)
    for unit in units:
        if chosen and _covers(freed, short):
            break
        chosen.append(unit)
        freed = list(map(add, freed, gives[id(unit)]))
    return units, chosen


def _help(amounts: Amounts, short: Amounts) -> float:
    """Which part of what is short these amounts are, added up over all resources."""
    return sum(min(amount, lack) / lack for amount, lack in zip(amounts, short, strict=True) if lack > 0)


def _smallest_first(units: list[EvictionUnit], gives: dict[int, Amounts], short: Amounts) -> list[EvictionUnit]:
    """Where one of several units of the lowest rank would do, the smallest that suffices comes first."""
    if len(units) < 2:
        return units
    least = units[0].harm
    enough = [unit for unit in units if unit.harm == least and _covers(gives[id(unit)], short)]
    if len(enough) < 2:
        return units
    first = min(enough, key=lambda unit: gives[id(unit)])
    return [first, *(unit for unit in units if unit is not first)]


def _covers(amounts: Amounts, short: Amounts) -> bool:
    return all(map(ge, amounts, short))


def _sum(tasks: Sequence[Task], fitting: Fitting) -> Amounts:
    """What at least one task gives."""
    total = fitting.amounts(tasks[0].shape)
    for task in tasks[1:]:
        total = list(map(add, total, fitting.amounts(task.shape)))
    return total


def _harm(unit: EvictionUnit) -> tuple[Any, bool, int]:
    return unit.harm
