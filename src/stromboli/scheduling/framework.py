"""What a session knows of the cluster, and how the answers of all plugins become one.

`Framework` is the half of a session that everything else builds on: the snapshot, the registered callbacks, and the
methods that ask them (`points` has the rules by which answers are combined). Placement, statements and explanations
need no more than this; `Session` adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from stromboli.cluster import OCCUPYING, Job, JobKey, Queue, QueueName, Snapshot, Task, Vector
from stromboli.cluster.topology import Domain, SubGroup, Tree

from . import callbacks as cb
from .callbacks import EvictionKind, Refusal, Verdict
from .configuration import Arguments, Configuration
from .decisions import Cycle
from .extension_points import ExtensionPoints
from .queue_books import QueueBooks
from .turns import Turns

# Looked up once: it takes long to find members of an enumeration.
_NOTHING = Verdict.NOTHING
_YES = Verdict.YES
_MOMENT: Final = 1e-6  # seconds; the smallest difference between the times of two cycles


class Framework(ExtensionPoints):
    # Set by `divide`.
    divisible: Vector
    books: QueueBooks

    def __init__(
        self, snapshot: Snapshot, configuration: Configuration, now: float, turns: Turns | None = None
    ) -> None:
        super().__init__(snapshot.ledger.table)
        self.turns = Turns() if turns is None else turns
        self.snapshot = snapshot
        self.configuration = configuration
        self._actions = frozenset(action.name for action in configuration.actions)
        self.now = now
        self.ledger = snapshot.ledger
        self.axis = snapshot.ledger.axis
        self.jobs: list[Job] = snapshot.jobs
        self.active: list[Job] = snapshot.active
        # Those with tasks to place. No task begins to wait during a session.
        self.waiting: list[Job] = []
        self.list_waiting()
        self.queues: dict[QueueName, Queue] = snapshot.queues
        self.namespaces = snapshot.namespaces
        self.budgets = snapshot.budgets
        self.total: Vector = snapshot.total
        self.cycle = Cycle()
        self.deserved: dict[QueueName, Vector] = {}  # empty if no plugin divides the cluster
        # What queues would deserve by other books than those of this session; None if no plugin divides the cluster.
        self.division: Callable[[QueueBooks], dict[QueueName, Vector]] | None = None
        # What tasks took in this session of what was held for them, by the queue that was charged for it.
        self.consumed: dict[QueueName, Vector] = {}
        # Set while filters and scores are computed: who counts as a neighbour, and, if all that may drain has drained,
        # for which job.
        self.horizon = cb.Horizon.NOW
        self.drained_for: Job | None = None
        # While a group is placed that must be close together: the domain that its nodes must be in.
        self.domain: Domain | None = None
        # By row: what is added to the score of a node there, so that its parts are filled one after the other.
        self.fill_order: cb.Scores | None = None
        # While plugins are asked about a sub-group that may go without the rest of its gang.
        self._sub_group: SubGroup | None = None
        # Since when jobs wait, as their groups say. They do not change during a session, and this is needed often.
        self.waiting_times: dict[JobKey, float] = {}
        # While decisions are made permanent. An error in between cannot be undone.
        self.is_settling = False

    @property
    def topology(self) -> Tree:
        """Which nodes are close together: by HyperNodes, or else by the labels that the configuration names."""
        return self.snapshot.topology.tree(self.configuration.topology_keys)

    def has_action(self, name: str) -> bool:
        return name in self._actions

    def action_arguments(self, name: str) -> Arguments | None:
        """The arguments of an action; None if it is not configured."""
        return next((action.arguments for action in self.configuration.actions if action.name == name), None)

    # -- orders -------------------------------------------------------------------------------------------------

    def job_key(self, job: Job) -> tuple[Any, ...]:
        return (*[key(job) for key in self.points.job_order.calls], job.created, job.key)

    @contextmanager
    def inside(self, domain: Domain | None, fill_order: cb.Scores | None = None) -> Iterator[None]:
        """Look at the nodes of a domain only; None: at all nodes. `fill_order`: by row, what is added to the score of a
        node in it."""
        before = self.domain, self.fill_order
        self.domain, self.fill_order = domain, fill_order
        try:
            yield
        finally:
            self.domain, self.fill_order = before

    def divide(self) -> None:
        """Find out what there is for queues to divide: before plugins are opened, and after features have given back
        room that is not needed any more. What they leave on nodes that take no pods is not there for anybody."""
        self.divisible = self.snapshot.divisible()
        self.books = QueueBooks(self.divisible)

    def list_waiting(self) -> None:
        """Find the jobs with tasks that wait for a place, again if tasks gave theirs up before the actions began."""
        self.waiting = [job for job in self.active if job.pending_count]

    def queue_key(self, queue: Queue) -> tuple[Any, ...]:
        return (*[key(queue) for key in self.points.queue_order.calls], queue.created, queue.name)

    def queue_path(self, queue: Queue) -> cb.QueuePath:
        """The steps from the top of the tree of queues down to this one. Queues are compared by the keys of the first
        steps that differ. Without a tree, there is one step: the queue."""
        orders, trees = self.points.queue_order.hooks, self.points.queue_path.hooks
        if trees and trees[0].plugin == orders[0].plugin:
            return trees[0].call(queue)
        return [(queue.name, partial(self.queue_key, queue))]

    def queue_key_falls(self) -> int:
        """Grows whenever the key of some queue may have become smaller."""
        return sum(falls() for falls in self.points.queue_key_falls.calls)

    def namespace_key(self, queue: Queue, namespace: str) -> tuple[Any, ...]:
        return (*self.namespace_share_key(queue, namespace), namespace)

    def namespace_share_key(self, queue: Queue, namespace: str) -> tuple[Any, ...]:
        """The key without the name: equal for namespaces with equal shares."""
        return tuple([key(queue, namespace) for key in self.points.namespace_order.calls])

    def namespace_share(self, queue: Queue, namespace: str) -> tuple[float, int] | None:
        """A namespace's share of the cluster in a queue, and its weight; None if no plugin measures it."""
        shares = self.namespace_shares
        if shares is None:
            return None
        held = queue.by_namespace.get(namespace)
        return (0.0 if held is None else shares.share(held) / shares.one, shares.weight(namespace))

    def task_key(self, task: Task) -> tuple[Any, ...]:
        return (*[key(task) for key in self.points.task_order.calls], task.index, task.created, task.key)

    # -- questions ----------------------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        """Whether the queue is passed over. One with unused room of its own is not: that room is there for nobody
        else."""
        unused = self.books.unused(queue)
        if unused is not None and bool((unused > 0).any()):
            return False
        for test in self.points.overused.calls:  # noqa: SIM110 - before every job, and a generator takes longer
            if test(queue):
                return True
        return False

    def allocatable(
        self,
        queue: Queue,
        request: Vector,
        *,
        job: Job | None = None,
        credit: Vector | None = None,
        lending: bool = False,
    ) -> Refusal | None:
        """May this much more be placed in the queue? `job`: for which of its jobs; `credit`: what the placement gives
        back; `lending`: only hard limits count."""
        refusal = self.points.allocatable.first(queue, request, credit, lending)
        if refusal is None and job is not None:
            refusal = self.points.job_allocatable.first(job, request, credit)
        return refusal

    def alike_in_queue(self, job: Job) -> bool:
        """Whether `allocatable` has the same answer for all jobs of this job's kind, which have no place yet."""
        points = self.points
        if len(points.job_allocatable_differs.calls) < len(points.job_allocatable.calls):
            return False
        return not points.job_allocatable_differs.any(job)

    def may_batch(self, job: Job, *, placing: bool = False) -> bool:
        """Whether tasks of this job may share answers with others that are alike: where one finds no place, the next
        finds none. `placing`: also whether they may be placed in one step, because nobody must hear of each."""
        points = self.points
        if points.desk.hears_all if placing else points.desk.asks_all:
            return False
        if not points.kept_places.calls and not points.kept_room.calls:
            return True
        return not self.with_kept_places(job.tasks.values()) and not self.kept_room(job)

    def allocatable_on_own_rows(self, task: Task, count: int = 1) -> Refusal | None:
        """May so many tasks like this one be placed on nodes that are the queue's own? Those count as its already, so
        what it deserves does not matter; its hard limits count what it really uses."""
        assert task.job is not None
        queue, request = task.job.queue, task.request * count
        refusal = self.books.refuse_on_own_rows(queue, request)
        return refusal or self.points.allocatable_on_own_rows.first(queue, request, self.books.unused(queue))

    def may_start(self, queue: Queue, request: Vector) -> Refusal | None:
        """May this much of a queue start now, although some of its pods have not terminated yet?"""
        return self.points.startable.first(queue, request) if self.ledger.releasing else None

    def startable(self, task: Task, count: int = 1) -> int:
        """How many tasks like this one may start now. The others may be promised what terminating pods leave."""
        if task.job is None or not self.ledger.releasing:
            return count
        while count and self.may_start(task.job.queue, task.request * count) is not None:
            count -= 1
        return count

    def within_hard_limits(self, queue: Queue, request: Vector) -> Refusal | None:
        """May the queue use so much more, whatever it deserves? It counts what it really uses."""
        return self.points.allocatable_on_own_rows.first(queue, request, self.books.unused(queue))

    def within_shared_limits(
        self, queue: Queue, request: Vector, credit: Vector | None, kept: Mapping[QueueName, Vector]
    ) -> Refusal | None:
        """May the queue take so much more, and leave what is kept for jobs of other queues with the same limits?"""
        return self.points.shared_limits.first(queue, request, credit, kept)

    @cached_property
    def closed_room(self) -> list[int]:
        """What is idle on nodes that take no pods."""
        room = self.nodes.future_idle[~self.nodes.takes_pods]
        return [int(amount) for amount in np.maximum(room, 0).sum(axis=0)]

    def undivided(self, column: int) -> int:
        """What queues may divide some day beside what they divide now: the closed room, and what pods in no queue
        use."""
        return max(0, int(self.total[column] - self.divisible[column]))

    def some_day(self, refusal: Refusal) -> Refusal:
        """A refusal by the limit of a queue, with the limit if queues divided everything: where it is what guarantees
        of others leave, it grows up to the capability."""
        queue, column = self.queues.get(QueueName(refusal.subject)), self.axis.index.get(refusal.resource)
        if queue is None or column is None or not self.is_limited_by_guarantees(refusal):
            return refusal
        # What is guaranteed beyond what there is now is first to get more.
        most = refusal.total + max(self.undivided(column) - self._lacking(column), 0)
        return replace(refusal, total=most if queue.capability is None else min(most, int(queue.capability[column])))

    def _lacking(self, column: int) -> int:
        """What queues are guaranteed together beyond what they divide now."""
        return max(0, self._guaranteed[column] - int(self.divisible[column]))

    @cached_property
    def _guaranteed(self) -> list[int]:
        parents = {queue.parent for queue in self.queues.values()}
        leaves = (queue for name, queue in self.queues.items() if name not in parents)
        return [int(amount) for amount in sum((self.books.guarantee(one) for one in leaves), start=self.axis.zeros())]

    def is_limited_by_guarantees(self, refusal: Refusal) -> bool:
        """Whether the limit of a queue in a refusal is not its own capability, but what guarantees of others leave."""
        queue, column = self.queues.get(QueueName(refusal.subject)), self.axis.index.get(refusal.resource)
        if queue is None or column is None:
            return False
        return queue.capability is None or int(queue.capability[column]) > refusal.total

    def kept_room(self, job: Job, *, of_queue: bool = False) -> list[tuple[int, Vector]]:
        """(row, how much) of what counts as used there and does not drain, but is there for this job. `of_queue`: only
        what its own queue is charged for."""
        return [pair for find in self.points.kept_room.calls for pair in find(job, of_queue).items()]

    def admission_credit(self, job: Job, queues: Collection[str] | None) -> Vector | int:
        """What counts as used in these queues, or in all of them, but is there for this job or for others whose
        promises count as well."""
        total: Vector | int = 0
        for find in self.points.admission_credit.calls:
            credit = find(job, queues)
            total = total if credit is None else total + credit
        return total

    def with_kept_places(self, tasks: Collection[Task]) -> list[tuple[int, Task]]:
        """Those of these tasks of a job for which places are kept, with the number of their choices."""
        return self.points.kept_places.of(tasks)

    def take_kept_place(self, statement: Any, task: Task, *, promised: bool = False) -> bool:
        """Put a task on a place that is kept for it, or, if `promised`, only promise that; False if it has none."""
        return self.points.kept_place.any(statement, task, promised)

    def take_kept_places(self, statement: Any, tasks: Sequence[Task]) -> int:
        """Put tasks of one job on places that are kept for them; how many from the front have one now."""
        for place_many in self.points.kept_places_of_many.calls:
            if placed := place_many(statement, tasks):
                return placed
        return int(self.take_kept_place(statement, tasks[0]))

    def is_prepared(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Whether others may be evicted so that these tasks get their places."""
        return self.points.prepare.all(job, tasks)

    def why_no_nodes(self, job: Job) -> str | None:
        """Why no nodes should be set aside for a job."""
        return next((why for ask in self.points.why_no_nodes.calls if (why := ask(job)) is not None), None)

    def has_concessions(self, kind: EvictionKind) -> bool:
        """Whether anybody might give way before a pod is evicted, by the rules of preemptable or reclaimable."""
        return self.points.concessions_possible.any(kind)

    def preemptive(
        self, queue: Queue, request: Vector, *, job: Job | None = None, credit: Vector | None = None
    ) -> Refusal | None:
        """May this queue take room from others for such a task? `job`: for which of its jobs."""
        refusal = self.points.preemptive.first(queue, request, credit)
        if refusal is None and job is not None:
            refusal = self.points.job_allocatable.first(job, request, credit)
        return refusal

    def displacements(self, job: Job, *, evicting: bool) -> list[Callable[[Any], None]]:
        """What may be given up in favour of a job that finds no place otherwise."""
        return self.points.displacement.of(job, evicting)

    def job_valid(self, job: Job) -> Refusal | None:
        return self.points.job_valid.first(job)

    def pre_filter(self, task: Task) -> Refusal | None:
        return self.points.pre_filter.first(task)

    def job_ready(self, job: Job) -> bool:
        for test in self.points.job_ready.calls:  # noqa: SIM110 - for every eviction, and a generator takes longer
            if not test(job):
                return False
        return True

    def job_pipelined(self, job: Job) -> bool:
        return self.points.job_pipelined.refusal(job) is None

    def job_enqueueable(self, job: Job) -> Refusal | None:
        return self.points.job_enqueueable.refusal(job)

    def all_enqueueable(self, minimums: Mapping[QueueName, list[int]]) -> bool:
        """Whether jobs with these sums of minimums, by queue, would all be admitted, whatever their order. If a plugin
        cannot tell, or wants to know which are, they have to be asked about one by one."""
        points = self.points
        if points.job_enqueued or len(points.all_enqueueable.calls) < len(points.job_enqueueable.calls):
            return False
        return points.all_enqueueable.all(minimums)

    def job_enqueued(self, job: Job) -> None:
        self.points.job_enqueued.call(job)

    def job_starving(self, job: Job) -> bool:
        hooks = self.points.job_starving.hooks
        for hook in hooks:
            if hook.tier == hooks[0].tier and not hook.call(job):
                return False
        return bool(hooks)

    def may_evict(self, kind: EvictionKind, evictor: Task, candidate: Task, *, whole: bool = False) -> bool:
        """`kind`: preemptable or reclaimable. `Verdict` has the rule."""
        if not candidate.preemptable:
            return False
        verdicts, verdict = self.points.victims[kind], _NOTHING
        if kind == "reclaimable":
            # On a node of the claimant's own, deserved amounts do not say who may be there.
            verdict = self.books.may_take_back(evictor, candidate, whole)
        # Most candidates are ruled out here. To ask the protecting plugins last only saves time.
        if verdict != _YES and (verdict != _NOTHING or not verdicts.permits(evictor, candidate, whole)):
            return False
        return not _is_put_aside(candidate) and not verdicts.protects(evictor, candidate, whole)

    def may_evict_sub_group(self, kind: EvictionKind, evictor: Task, group: SubGroup, tasks: Collection[Task]) -> bool:
        """Whether these tasks of a sub-group may go together, without the rest of their gang."""
        self._sub_group = group
        try:
            return all(self.may_evict(kind, evictor, task, whole=True) for task in tasks)
        finally:
            self._sub_group = None

    def going_with(self, candidate: Task, *, whole: bool) -> Sequence[Task] | None:
        """Who goes if a candidate does: itself; with `whole`, its sub-group, if that is what a plugin is asked about;
        else all of its job (None)."""
        if not whole:
            return [candidate]
        return None if self._sub_group is None else [t for t in self._sub_group.tasks if t.status in OCCUPYING]

    def amount_going(self, candidate: Task, *, whole: bool) -> Vector:
        """What the job of a candidate would have less."""
        if not whole or candidate.job is None:
            return candidate.request
        tasks = self.going_with(candidate, whole=whole)
        return candidate.job.allocated if tasks is None else sum((t.request for t in tasks), self.axis.zeros())

    def protected(self, kind: EvictionKind, evictor: Task, candidate: Task, *, whole: bool = False) -> bool:
        """Whether a protecting plugin says no; then nobody can permit the eviction."""
        if not candidate.preemptable or _is_put_aside(candidate):
            return True
        return self.points.victims[kind].protects(evictor, candidate, whole)

    def victim_queue_key(self, victim: Queue, preemptor: Queue) -> tuple[Any, ...]:
        return tuple([key(victim, preemptor) for key in self.points.victim_queue_order.calls])

    def node_order_on_resource(self, task: Task) -> cb.Scores:
        scores = np.zeros(len(self.nodes), dtype=np.float64)
        for score in self.points.node_order_on_resource.calls:
            scores += score(task)
        return scores

    def domain_scores(self, tree: Tree, domains: cb.Rows, tasks: Sequence[tuple[Task, int]]) -> cb.Scores:
        """How good domains of one tier are for tasks, by their indices in the tree."""
        scores = np.zeros(len(domains), dtype=np.float64)
        for score in self.points.domain_score.calls:
            scores += score(tree, domains, tasks)
        return scores

    def kept_rows(self, tasks: Sequence[Task]) -> Mapping[int, int]:
        """By row: how many of these tasks of one job have room there that is kept for them, and counts as used."""
        kept: dict[int, int] = {}
        for find in self.points.kept_rows.calls:
            for row, pods in find(tasks).items():
                kept[row] = kept.get(row, 0) + pods
        return kept

    def due(self, moment: float) -> None:
        """Something changes when `now` exceeds this time, even without an event. To be called in every session until
        then: worlds may skip cycles in which nothing can change."""
        if self.cycle.next_due is None or moment < self.cycle.next_due:
            self.cycle.next_due = moment

    def due_at(self, moment: float) -> None:
        """The same for what changes as soon as `now` reaches the time."""
        self.due(moment - _MOMENT)

    def amounts(self, vector: Vector) -> dict[str, int]:
        """By resource, without the number of pods, which only nodes limit."""
        return {name: amount for name, amount in self.axis.amounts(vector).items() if name != "pods"}


def _is_put_aside(task: Task) -> bool:
    return task.job is not None and task.job.put_aside
