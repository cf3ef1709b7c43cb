"""Finding the pods whose eviction does the least harm.

For one task that fits nowhere, nodes on which evictions could help are looked at, the most promising first
(`prospects`). By arithmetic alone a plan is made for a node (`victims_on_node`). Plans are tried for real, in the
statement, best first: the plugins are asked again before each eviction (what was evicted so far counts), and filters
and the queue's limits have to be satisfied, too. The best plan that works is carried out.

Best means: the highest-ranking victim ranks lowest; then the fewest victims of jobs that stop without them; then the
fewest victims; then the youngest; then the node's name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import gt, lt
from typing import Any

import numpy as np

from stromboli.cluster import Job, JobKey, Queue, Task
from stromboli.scheduling.callbacks import EvictionKind
from stromboli.scheduling.gang import can_spare
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.queue_books import RowMask
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .candidates import RUNS, Candidates, Flags, Integers, is_evictable
from .eviction_memory import EvictionMemory
from .plans import EvictionPlan, EvictionUnit, Way
from .prospects import Prospects
from .reprieve import fits_within, is_torn
from .search_turns import Turns
from .victims_on_node import Planner


class VictimSearch:
    """Evictions for the tasks of one job, by the rules of one kind (preemptable or reclaimable)."""

    def __init__(
        self,
        session: Session,
        kind: EvictionKind,
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
        """Candidates are the tasks of `queues`: those of other jobs or, with `inside`, those of this job. Searches of
        equal `group` choose and rank alike. `rank`: how much a loss would hurt a queue, before the priority of a
        candidate is looked at; lower goes first. `cost`: of several plans, the one that costs least is chosen, whatever
        the ranks. `cost_basis`: while this is the same, evictions make no plan cost less."""
        self.session = session
        self._known = session.state(EvictionMemory)
        self.kind = kind
        self.job = job
        self.queues = queues
        self.inside = inside
        self.rank = rank
        self.reason = reason
        self.message = message
        self.group = group
        self._cost_basis = cost_basis
        self._turns = session.state(Turns)
        self._kind_of_job: tuple[Any, ...] = (
            kind, group, inside, job.queue.name, self._kind_of_namespace(), job.priority,
        )  # fmt: skip
        self._planner = Planner(session, kind, rank, cost)
        self._used: set[Any] = set()  # keys of prospects that this search has used
        self.gone: list[EvictionUnit] = []  # all that was evicted, for all tasks so far

    def protect(self, gangs: frozenset[JobKey]) -> None:
        """None of these may stop: they lose only what they have above their minimum."""
        if gangs:
            self._planner.protected = gangs
            self._kind_of_job = (*self._kind_of_job, gangs)

    def most_places(self, tasks: Sequence[Task]) -> int:
        """How many of these tasks could have a place at most, if all candidates were evicted."""
        kinds = self.session.placement.kinds(tasks)
        return sum(min(number, int(self.most_places_by_row(first).sum())) for first, number in kinds)

    def most_places_by_row(self, task: Task) -> Integers:
        """By row, how many tasks like this one could have a place at most, if all candidates were evicted."""
        session, candidates = self.session, self._candidates()
        open_to = self._open_rows(session.placement.fitting(task, ahead=True))
        among = self._among(candidates, best_effort=False)
        return candidates.places(task.request, session.nodes.future_idle, open_to, among)

    def cost_of_all(self) -> Any:
        """What all that was evicted so far costs, before ranks are compared."""
        return self._planner.cost([victim for unit in self.gone for victim in unit.tasks])

    def make_room(self, statement: Statement, task: Task) -> bool:
        """Evict what is needed for `task` and promise it the room; False, and nothing done, if nothing works. Nodes of
        the queue's own come first."""
        own = self.session.books.own_rows(task)
        if own is not None and self._make_room(statement, task, only=own):
            return True
        return self._make_room(statement, task)

    def _make_room(self, statement: Statement, task: Task, *, only: RowMask | None = None) -> bool:
        """`only`: the nodes in question, if not all."""
        session, queue = self.session, self.job.queue
        fitting = session.placement.fitting(task, ahead=True)
        domain = session.domain
        kind = (self._kind_of_job, task.priority, fitting, only is not None, domain)
        # Tasks alike in this fare alike in a hunt, as long as nothing is committed in between: most of a long line of
        # waiting jobs need not be tried.
        signature = (kind, self._held())
        if self._failed_before(signature):
            return False
        had = queue.allocated.tolist()
        inside = queue.by_namespace.get(self.job.namespace)
        namespace_had = None if inside is None else inside.tolist()
        prospects = self._prospects(kind, task, fitting, only)
        carried = self._best_that_works(statement, task, fitting, prospects)
        if carried is None:
            self._known.failed[signature] = (session.ledger.views.moment(), not statement.operations)
            return False
        self.gone += carried
        prospects.ended = (session.ledger.views.moment(), signature[1])
        torn = [unit for unit in carried if is_torn(session, unit)]
        if torn:
            prospects.forget_plans(self._rows_of(torn))
        if any(map(lt, queue.allocated.tolist(), had)):
            prospects.retry_failed()
        self._forget_if_entitled(prospects, task, carried, namespace_had)
        return True

    def _best_that_works(
        self, statement: Statement, task: Task, fitting: Fitting, prospects: Prospects
    ) -> list[EvictionUnit] | None:
        def plan_on(row: int) -> EvictionPlan | None:
            self._turns.plans += 1
            return self._plan_on(prospects, row, task, fitting)

        best: tuple[Any, EvictionPlan] | None = None
        worked: list[EvictionPlan] = []
        carried: list[EvictionUnit] | None = None
        while (plan := prospects.best(plan_on)) is not None and (best is None or plan.key < best[0]):
            prospects.set_aside(plan)
            mark, key = len(statement), None
            plan, carried = self._try(statement, task, plan, fitting, prospects)
            if carried is not None:
                worked.append(plan)
                if plan.is_done_by(carried):
                    break  # no other plan is better
                statement.discard(down_to=mark)
                key = self._planner.key([victim for unit in carried for victim in unit.tasks], plan.node)
                if best is None or key < best[0]:
                    best = (key, plan)
            carried = None
            prospects.rows.renew()  # all is as it was
            self._look_for_another_way(prospects, plan, key, task, fitting)
        for plan in worked[:-1] if carried is not None else worked:  # on the node of the last, all is different now
            prospects.put_back(plan)
        if carried is None and best is not None:
            carried = self._carry_out(statement, task, best[1], fitting)
            assert carried is not None, "what worked a moment ago works again"
        return carried

    def _plan_on(
        self, prospects: Prospects, row: int, task: Task, fitting: Fitting, *, whole: bool = False,
        way: Way = Way.IN_ORDER,
    ) -> EvictionPlan | None:  # fmt: skip
        candidates = self._candidates_on(prospects, row, task)
        return self._planner.plan_on(row, task, fitting, candidates, whole=whole, way=way)

    def _try(
        self, statement: Statement, task: Task, plan: EvictionPlan, fitting: Fitting, prospects: Prospects
    ) -> tuple[EvictionPlan, list[EvictionUnit] | None]:
        """Carry out a plan. If a partial one is not enough, the whole one is made, and carried out."""
        carried = self._carry_out(statement, task, plan, fitting)
        if carried is None and plan.partial:
            plan = self._plan_on(prospects, plan.node.row, task, fitting, whole=True) or plan
            carried = self._carry_out(statement, task, plan, fitting)
        return plan, carried

    def _look_for_another_way(
        self, prospects: Prospects, plan: EvictionPlan, key: Any, task: Task, fitting: Fitting
    ) -> None:
        """Others had to go than planned, or it did not work: then `key` is None. Another way may do less harm."""
        instead = self._other_way(plan, prospects, task, fitting)
        if instead is not None and (key is None or instead.key < key):
            prospects.put_instead(instead)
        elif key is None:
            prospects.put_away(plan)

    def _other_way(self, plan: EvictionPlan, prospects: Prospects, task: Task, fitting: Fitting) -> EvictionPlan | None:
        """Instead of a plan that did not work: a gang may lose what it has above its minimum one by one, and the rest
        only together with all of it."""
        if plan.way is Way.IN_ORDER and self._planner.any_runs_short(plan.units):
            row, ways = plan.node.row, (Way.ABOVE_MINIMUM, Way.WHOLE_GANGS)
            others = [self._plan_on(prospects, row, task, fitting, whole=True, way=way) for way in ways]
            plan.others = sorted([other for other in others if other is not None], key=lambda other: other.key)
        if not plan.others:
            return None
        best, *plan.others = plan.others
        best.others = plan.others
        return best

    # -- searches that failed -----------------------------------------------------------------------------------

    def _held(self) -> Hashable:
        """What the job has, and what else it needs to start: its queue must have a right to all of it."""
        job = self.job
        missing = job.min_available - job.ready_count - job.waiting_count
        return (job.allocated.tobytes(), (missing, self._known.composition(job)) if missing > 1 else None)

    def _kind_of_namespace(self) -> Hashable:
        """Equal for namespaces that fare alike: they have nobody to lose, hold the same, and have the same weight. A
        cluster may have as many namespaces as pods, and to search for each of them anew would take long."""
        session, queue, name = self.session, self.job.queue, self.job.namespace
        by_name = session.points.victims[self.kind].by_namespace or session.ledger.holdings or self.inside
        if by_name or not session.alike_in_queue(self.job) or name in self._candidates().namespaces:
            return name
        held, known = queue.by_namespace.get(name), session.namespaces.get(name)
        return (1 if known is None else known.weight, held.tobytes() if held is not None and held.any() else b"")

    def _failed_before(self, signature: Any) -> bool:
        """Nothing was committed since a search that began with nothing failed; or nothing has changed at all."""
        known = self._known.failed.get(signature)
        if known is None:
            return False
        moment, began_with_nothing = known
        return moment.nothing_moved or (began_with_nothing and moment.nothing_settled)

    # -- prospects ----------------------------------------------------------------------------------------------

    def _prospects(self, kind: Any, task: Task, fitting: Fitting, only: RowMask | None) -> Prospects:
        """Those of this kind of task, up to date."""
        session, job = self.session, self.job
        # Jobs that run nothing themselves can learn from each other.
        shared = not self.inside and not job.ready_count
        key = (kind, None if shared else job.key)
        prospects = self._known.prospects.get(key)
        closed = set(session.points.closed_to_evictions.of(task))
        if only is not None:
            closed |= set(np.flatnonzero(~only).tolist())
        if session.domain is not None:
            closed |= set(np.flatnonzero(~session.domain.mask).tolist())
        if prospects is None:
            candidates = self._candidates()
            bounds = candidates.bounds(
                task.request, fitting.columns, session.nodes.future_idle, self._open_rows(fitting),
                self._among(candidates, best_effort=task.best_effort), gangs=bool(session.points.job_ready),
            )  # fmt: skip
            rows = session.ledger.views.rows()
            prospects = self._known.prospects[key] = Prospects(candidates, bounds, session.nodes.nodes, rows)
            rows.renew()
        # Another job may be entitled to more than the one before, unless both had the same and nothing else happened.
        # And filters that look at other nodes may accept anywhere what they rejected.
        continues = key in self._used or (
            prospects.ended is not None and prospects.ended[0].nothing_moved and prospects.ended[1] == self._held()
        )
        self._used.add(key)
        basis = self._cost_basis()
        if changed_rows := prospects.rows.news():
            prospects.changed(set(changed_rows))
        changed = (closed, basis) != (prospects.closed, prospects.cost_basis)
        if not continues or changed or fitting.looks_elsewhere:
            prospects.closed, prospects.cost_basis = closed, basis
            prospects.forget_unsure()
        return prospects

    def _candidates(self) -> Candidates:
        key = (self.kind, self.group, self.job.queue.name)
        known = self._known.candidates.get(key)
        if known is None:
            columns = self._known.columns(self.queues)
            known = self._known.candidates[key] = Candidates(columns, self.rank, self._known.still_evictable)
        return known

    def _open_rows(self, fitting: Fitting) -> Flags:
        """Nodes that no filter rejects, or only because of what runs there."""
        if fitting.looks_elsewhere:
            return np.ones(len(self.session.nodes), dtype=np.bool_)
        resolvable = [True, *[reason.resolvable for reason in self.session.node_reasons]]
        return np.array(resolvable, dtype=np.bool_)[fitting.reasons]

    def _among(self, candidates: Candidates, *, best_effort: bool) -> Flags:
        inside, outside = (self.job, None) if self.inside else (None, self.job)
        return candidates.evictable(inside=inside, outside=outside, best_effort=best_effort)

    def _candidates_on(self, prospects: Prospects, row: int, task: Task) -> list[Task]:
        """Nothing that requests resources is evicted for a task that requests none."""
        job, inside, ledger = self.job, self.inside, self.session.ledger
        found = [
            candidate
            for candidate in prospects.candidates.on(row)
            if (candidate.job is job) == inside and (candidate.status in RUNS or is_evictable(ledger, candidate))
        ]
        return [candidate for candidate in found if candidate.best_effort] if task.best_effort else found

    def _rows_of(self, torn: Iterable[EvictionUnit]) -> set[int]:
        """Where tasks of gangs are left that were complete, and are not any more."""
        return {
            task.node.row
            for unit in torn
            if (job := unit.tasks[0].job) is not None
            for task in job.tasks.values()
            if task.node is not None and is_evictable(self.session.ledger, task)
        }

    def _forget_if_entitled(
        self, prospects: Prospects, task: Task, carried: Iterable[EvictionUnit], namespace_had: list[int] | None
    ) -> None:
        """More may have left than arrived. Then the job's namespace, or something that both queues are part of, has
        less than before, and is entitled to more."""
        job = self.job
        if len(self.queues) > 1:
            gone = [victim.request.tolist() for unit in carried for victim in unit.tasks]
            left = gone[0] if len(gone) == 1 else [sum(amounts) for amounts in zip(*gone, strict=True)]
            entitled = any(map(gt, left, task.request.tolist()))
        else:
            has = job.queue.by_namespace[job.namespace]
            entitled = (
                len(prospects.candidates.namespaces) > 1
                and namespace_had is not None
                and any(map(lt, has.tolist(), namespace_had))
            )
        if entitled:
            prospects.forget_unsure()

    # -- for real -----------------------------------------------------------------------------------------------

    def _carry_out(
        self, statement: Statement, task: Task, plan: EvictionPlan, fitting: Fitting
    ) -> list[EvictionUnit] | None:
        """Evict until the task fits, spare who is not needed, promise the room. None, and nothing done, if it
        never fits."""
        mark = len(statement)
        had = self.job.queue.allocated.copy()

        def fits_now() -> bool:
            return fits_within(self.session, task, plan.node, self.kind, had, fitting)

        gone = self._evict_until(fits_now, statement, task, plan)
        if gone is None:
            statement.discard(down_to=mark)
            return None
        for unit in reversed(gone[:-1]):
            for victim in unit.tasks:
                statement.spare(victim)
            if fits_now() and not is_torn(self.session, unit):
                gone.remove(unit)
            else:
                self._evict(statement, task, unit)
        if not statement.pipeline(task, plan.node):
            statement.discard(down_to=mark)
            return None
        return gone

    def _evict_until(
        self, fits_now: Callable[[], bool], statement: Statement, task: Task, plan: EvictionPlan
    ) -> list[EvictionUnit] | None:
        """Who had to go; None if the task never fits."""
        gone: list[EvictionUnit] = []
        was_ready: dict[JobKey, bool] = {}
        # First those that suffice by arithmetic: if others go before them, their gang may be at its minimum by then.
        for unit in [*plan.needed, *[unit for unit in plan.units if unit not in plan.needed]]:
            if gone and fits_now():
                return gone
            # Before the first eviction, all is as it was when the plan was made.
            if not gone or self._may_go(task, unit):
                job = unit.tasks[0].job
                assert job is not None
                if job.key not in was_ready:
                    was_ready[job.key] = self.session.job_ready(job)
                unit.was_ready = was_ready[job.key]
                self._evict(statement, task, unit)
                gone.append(unit)
        return gone if gone and fits_now() else None

    def _evict(self, statement: Statement, task: Task, unit: EvictionUnit) -> None:
        message = self.message(task)
        for victim in unit.tasks:
            statement.evict(victim, reason=self.reason, message=message)

    def _may_go(self, evictor: Task, unit: EvictionUnit) -> bool:
        ledger = self.session.ledger
        if not all((task.job is self.job) == self.inside and is_evictable(ledger, task) for task in unit.tasks):
            return False
        job = unit.tasks[0].job
        if unit.sub_group is not None and job is not None and not can_spare(job, unit.sub_group):
            return False
        if unit.sub_group is not None:
            return self.session.may_evict_sub_group(self.kind, evictor, unit.sub_group, unit.tasks)
        return all(self.session.may_evict(self.kind, evictor, task, whole=unit.whole) for task in unit.tasks)
