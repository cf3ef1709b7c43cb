"""Finding the pods whose eviction does the least harm.

For one task that fits nowhere, every node is looked at on which evictions could help. Evictable units on a node are
single tasks above their gang's minimum, and whole gangs. By arithmetic alone a plan is made for each node: the least
valuable units until the task would fit, then spare whoever is not needed after all. Plans are tried for real, in the
statement, best first: the plugins are asked again before each eviction (what was evicted so far counts), and filters
and the queue's limits have to be satisfied, too. The best plan that works is carried out.

Best means: the highest-ranking victim ranks lowest; then the fewest victims; then the youngest; then the node's name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from stromboli.cluster import Job, JobKey, Node, Queue, Status, Task
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .memory import EVICTABLE, EvictionMemory, KnownPlans
from .plans import EvictionPlan, EvictionUnit
from .reprieve import fits_within, is_torn


class VictimSearch:
    """Evictions for the tasks of one job, by the rules of one kind (preemptable or reclaimable)."""

    def __init__(
        self,
        session: Session,
        kind: str,
        queues: Sequence[Queue],
        *,
        among: Callable[[Task], bool],
        rank: Callable[[Task], Any],
        reason: str,
        message: Callable[[Task], str],
        group: Hashable = None,
        cost: Callable[[Sequence[Task]], Any] = lambda victims: 0,
    ) -> None:
        """Candidates are the tasks of `queues` for which `among` holds. Hunts of equal `group` choose and rank alike
        (but for tasks of the evictor's own job). `rank`: how much a candidate's loss would hurt, before its priority
        is looked at; lower goes first. `cost`: of several plans, the one that costs least is chosen, whatever the
        ranks."""
        self.session = session
        self._known = session.state(EvictionMemory)
        self.kind = kind
        self.queues = queues
        self.among = among
        self.rank = rank
        self.reason = reason
        self.message = message
        self.group = group
        self.cost = cost
        self.gone: list[EvictionUnit] = []  # all that was evicted, for all tasks so far

    def make_room(self, statement: Statement, task: Task) -> bool:
        """Evict what is needed for `task` and promise it the room; False, and nothing done, if nothing works."""
        signature = self._signature(task)
        if self._known.failed.get(signature) == self.session.version:
            return False
        fitting = self.session.placement.fitting(task, ahead=True)
        best: tuple[Any, EvictionPlan] | None = None
        for plan in sorted(self._plans(task, fitting), key=lambda plan: plan.key):
            if best is not None and best[0] <= plan.key:
                break
            mark = len(statement)
            units = self._carry_out(statement, task, plan)
            statement.discard(down_to=mark)
            if units is not None:
                key = self._key([victim for unit in units for victim in unit.tasks], plan.node)
                if best is None or key < best[0]:
                    best = (key, plan)
        if best is None:
            if not statement.operations:
                self._known.failed[signature] = self.session.version
            return False
        carried = self._carry_out(statement, task, best[1])
        assert carried is not None, "what worked a moment ago works again"
        self.gone += carried
        return True

    def _signature(self, task: Task) -> Any:
        """Tasks alike in this fare alike in a hunt, as long as nothing is committed in between: most of a long line
        of waiting jobs need not be tried. What else a gang needs to start counts: its queue must have a right to all
        of it."""
        job = task.job
        assert job is not None
        has = job.allocated.tobytes()
        missing = job.min_available - job.ready_count - job.waiting_count
        gang = (missing, self._known.composition(job)) if missing > 1 else None
        return (self.kind, self.group, job.queue.name, job.namespace, job.priority, task.priority, has, gang,
                self.session.placement.key(task))  # fmt: skip

    # -- plans --------------------------------------------------------------------------------------------------

    def _plans(self, task: Task, fitting: Fitting) -> list[EvictionPlan]:
        """A plan for every node where evictions could help. Most stay as they were since the last task of this kind
        was hunted for: only nodes that changed are looked at again. A plan that has become worse, or impossible, is
        found out when it is tried."""
        session = self.session
        log = session.ledger.log
        memory = self._known.plans.get(self._memory_key(task))
        if memory is None:
            memory = self._known.plans[self._memory_key(task)] = KnownPlans({}, 0)
            rows = {row for queue in self.queues for row in self._known.evictable(queue)}
        else:
            rows = set(log[memory.read_to :])
            rows |= {row for changed in rows for row in self._rows_of_torn_gangs(changed)}
        memory.read_to = len(log)
        gangs: dict[JobKey, list[Task]] = {}
        for row in sorted(rows):
            plan = self._plan_on(row, task, fitting, gangs)
            if plan is not None:
                memory.plans[row] = plan
            else:
                memory.plans.pop(row, None)
        closed = {row for hook in session.hooks("closedToEvictions") for row in hook.call(task)}
        return [plan for row, plan in memory.plans.items() if row not in closed]

    def _memory_key(self, task: Task) -> Any:
        """Jobs that run nothing themselves can learn from each other."""
        job = task.job
        assert job is not None
        shared = not (job.counts[Status.RUNNING] or job.counts[Status.BOUND])
        return (self._signature(task), None if shared else job.key)

    def _rows_of_torn_gangs(self, row: int) -> set[int]:
        """Where else tasks of jobs are that just lost a task here."""
        rows: set[int] = set()
        for task in self.session.nodes.nodes[row].tasks.values():
            if task.status is Status.RELEASING and task.job is not None:
                rows.update(t.node.row for t in task.job.tasks.values() if t.node is not None)
        return rows

    def _plan_on(
        self, row: int, task: Task, fitting: Fitting, gangs: dict[JobKey, list[Task]]
    ) -> EvictionPlan | None:
        session = self.session
        reason = int(fitting.reasons[row])
        if reason and not session.node_reasons[reason - 1].resolvable:
            return None
        columns = fitting.columns
        wanted = task.request[columns]
        room = session.nodes.future_idle_of(row)[columns]
        # Nothing that asks for room is evicted for a task that asks for none.
        tasks = [
            candidate
            for queue in self.queues
            for candidate in self._known.evictable(queue).get(row, ())
            if candidate.status in EVICTABLE
            and self.among(candidate)
            and (candidate.best_effort or not task.best_effort)
        ]
        most = room + sum((t.request[columns] for t in tasks), np.zeros_like(wanted))
        if not tasks or bool((most < wanted).any()):
            return None
        units = self._units(task, tasks, gangs)
        return self._plan(task, session.nodes.nodes[row], units, room, columns)

    def _units(self, evictor: Task, tasks: list[Task], gangs: dict[JobKey, list[Task]]) -> list[EvictionUnit]:
        """Single tasks of one node that may go, and whole gangs; least valuable first. `gangs`: what is known already
        of gangs that may go as a whole."""
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
            # As a whole it goes because its members may not go one by one. Where one of them could, but nobody permits
            # it, all of them together must not be a way around that.
            if members and any(self.session.protected(self.kind, evictor, task) for task in here):
                here = [member for member in members if member.node is here[0].node]
                units.append(self._unit(members, here, whole=True))
        # Of equal rank, the last in the order go first: the last job, and in it the last role and the highest index.
        units.sort(key=lambda unit: self._order(unit.tasks[0]), reverse=True)
        units.sort(key=_harm)
        return units

    def _order(self, task: Task) -> Any:
        assert task.job is not None
        return (self.session.job_key(task.job), self.session.task_key(task))

    def _unit(self, tasks: list[Task], here: list[Task], *, whole: bool) -> EvictionUnit:
        job = tasks[0].job
        assert job is not None
        return EvictionUnit(tasks, here, max(self._rank(task) for task in tasks), whole, self.session.job_ready(job))

    def _gang(self, evictor: Task, job: Job) -> list[Task]:
        """All tasks of a gang, if it may go as a whole; else none."""
        if evictor.job is job:
            return []
        members = []
        for task in job.tasks.values():
            if task.status in EVICTABLE:
                if not self.session.may_evict(self.kind, evictor, task, whole=True):
                    return []
                members.append(task)
            elif task.node is not None and task.status is not Status.RELEASING:
                return []  # one of them is just being bound
        return sorted(members, key=lambda member: member.key)

    def _rank(self, task: Task) -> Any:
        assert task.job is not None
        return (self.rank(task), task.job.priority, task.priority)

    def _plan(self, task: Task, node: Node, units: list[EvictionUnit], room: Any, columns: Any) -> EvictionPlan | None:
        wanted = task.request[columns]
        units = _smallest_first(units, wanted - room, columns)
        chosen: list[EvictionUnit] = []
        for unit in units:
            if chosen and bool((room >= wanted).all()):
                break
            chosen.append(unit)
            room = room + sum((t.request[columns] for t in unit.here), np.zeros_like(wanted))
        if not chosen or not bool((room >= wanted).all()):
            return None
        needed = list(chosen)
        for unit in reversed(chosen):
            without = room - sum((t.request[columns] for t in unit.here), np.zeros_like(wanted))
            if len(needed) > 1 and bool((without >= wanted).all()):
                room = without
                needed.remove(unit)
        victims = [victim for unit in needed for victim in unit.tasks]
        return EvictionPlan(self._key(victims, node), node, units)

    def _key(self, victims: list[Task], node: Node) -> Any:
        worst = max((self.rank(v), v.job.priority if v.job else 0, v.priority) for v in victims)
        youngest = max(v.created for v in victims)
        return (self.cost(victims), worst, len(victims), -youngest, node.name)

    # -- for real -----------------------------------------------------------------------------------------------

    def _carry_out(self, statement: Statement, task: Task, plan: EvictionPlan) -> list[EvictionUnit] | None:
        """Evict until the task fits, spare who is not needed, promise the room. None, and nothing done, if it
        never fits."""
        assert task.job is not None
        mark = len(statement)
        had = task.job.queue.allocated.copy()
        gone: list[EvictionUnit] = []
        for unit in plan.units:
            if gone and fits_within(self.session, task, plan.node, had):
                break
            if self._may_go(task, unit):
                for victim in unit.tasks:
                    statement.evict(victim, reason=self.reason, message=self.message(task))
                gone.append(unit)
        if not gone or not fits_within(self.session, task, plan.node, had):
            statement.discard(down_to=mark)
            return None
        for unit in reversed(gone[:-1]) if len(gone) > 1 else ():
            for victim in unit.tasks:
                statement.spare(victim)
            if fits_within(self.session, task, plan.node, had) and not is_torn(self.session, unit):
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
    """Where one of several units of the lowest rank would do, the smallest that suffices comes first."""
    alike = [unit for unit in units if _harm(unit) == _harm(units[0])]
    enough = [unit for unit in alike if bool((_freed(unit, columns) >= short).all())]
    if len(enough) < 2:
        return units
    first = min(enough, key=lambda unit: tuple(_freed(unit, columns).tolist()))
    return [first, *(unit for unit in units if unit is not first)]


def _harm(unit: EvictionUnit) -> Any:
    return (unit.rank, unit.whole, len(unit.tasks))


def _freed(unit: EvictionUnit, columns: Any) -> Any:
    return sum((task.request[columns] for task in unit.here), np.zeros(len(columns), dtype=np.int64))
