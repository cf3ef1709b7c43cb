"""One cycle's view of the cluster, and the rules it is decided by.

A session is opened on a snapshot, asks every configured plugin to register its callbacks, lets the actions run, and
is closed with a `Cycle` of decisions. All state it changes is in the ledger, through statements, so what was only
tried leaves no trace.

Order of things a plugin may rely on: `open` is called tier by tier in the order of the configuration; callbacks are
only called between open and close.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from stromboli.cluster import Job, JobKey, Queue, QueueName, Snapshot, Status, Task, Vector
from stromboli.scheduling.backfill.lending import BackfillRules
from stromboli.scheduling.configuration.file import Configuration, PluginOption
from stromboli.scheduling.eviction.nominations import honour_nominations
from stromboli.scheduling.eviction.victims import Memory, evictable_by_row
from stromboli.scheduling.explanation.conclusion import conclude
from stromboli.scheduling.explanation.notes import Notes
from stromboli.scheduling.explanation.reasons import Code
from stromboli.scheduling.placement.fitting import Placement
from stromboli.scheduling.sharing.admission_promises import Promises
from stromboli.scheduling.starvation.reserving import ReserveRules, closing_filter, give_up_reservations

from . import callbacks as cb
from .callbacks import Hook, NodeReason, Refusal, Scope, Verdict, Vote
from .decisions import Cycle
from .plugin import Plugin
from .statement import Statement


class Session:
    def __init__(
        self, snapshot: Snapshot, configuration: Configuration, plugins: dict[int, Plugin], now: float
    ) -> None:
        """`plugins`: the instance for each plugin option, by `id(option)`; fresh for this session."""
        self.snapshot = snapshot
        self.configuration = configuration
        self.now = now
        self.ledger = snapshot.ledger
        self.axis = snapshot.ledger.axis
        self.nodes = snapshot.ledger.table
        self.jobs: list[Job] = snapshot.jobs
        self.queues: dict[QueueName, Queue] = snapshot.queues
        self.namespaces = snapshot.namespaces
        self.budgets = snapshot.budgets
        self.total: Vector = snapshot.total
        self.cycle = Cycle()
        self.notes = Notes()
        self.promises = Promises(self)
        self.admitting = False  # while jobs are let in, promises count as if they were occupied
        self.deserved: dict[QueueName, Vector] = {}  # as far as a plugin says
        self.namespace_scope = "beforePriority"  # or withinPriority: the job's priority first, then the namespace
        # A namespace's share of the cluster in a queue, and its weight, as far as a plugin says.
        self.namespace_share: Callable[[Queue, str], tuple[float, int]] | None = None
        # Set while filters and scores are asked: whether pods that are leaving count as gone already.
        self.ahead = False
        self.resource_score = cb.ResourceScore()
        self.filters: list[cb.FilterHook] = []
        self.scores: list[cb.ScoreHook] = []
        self.node_reasons: list[NodeReason] = []
        self._reason_ids: dict[NodeReason, int] = {}
        self._hooks: dict[str, list[Hook]] = {}
        self._option: PluginOption | None = None
        self._tier = 0
        self.placement = Placement(self)
        self.version = 0  # grows with every commit: the session's state, for who remembers a failure
        self.hopeless: dict[Any, int] = {}  # hunts for victims that failed, and the version they failed at
        self.hunts: dict[Any, Memory] = {}  # what is known from hunts for victims
        self._evictable: dict[str, dict[int, list[Task]]] = {}
        self._plugins: list[Plugin] = []
        for tier_number, tier in enumerate(configuration.tiers):
            for option in tier.plugins:
                self._option, self._tier = option, tier_number
                plugin = plugins[id(option)]
                self._plugins.append(plugin)
                plugin.open(self)
        self._option = None
        options = [option for option in configuration.actions if option.name == "reserve"]
        self.reserve_rules = ReserveRules.read(options[0].arguments) if options else None
        if self.reserve_rules is not None and self.reserve_rules.scope == "node":
            self.filters.append(closing_filter(self))
        options = [option for option in configuration.actions if option.name == "backfill"]
        self.backfill_rules = BackfillRules.read(options[0].arguments) if options else BackfillRules()
        # Places of gangs that cannot start, kept until the backfill action; and rows where such places were given up.
        self.kept: dict[JobKey, Statement] = {}
        self.lendable: set[int] = set()
        give_up_reservations(self)
        # Room kept for tasks that others were evicted for, by job; see nominating.py.
        self.promised: dict[JobKey, Statement] = honour_nominations(self)

    def has_action(self, name: str) -> bool:
        return any(action.name == name for action in self.configuration.actions)

    # -- registering (only inside Plugin.open) ------------------------------------------------------------------

    def _add(self, kind: str, call: Callable[..., Any], flag: str | None = None) -> None:
        if self._enabled(flag or kind):
            assert self._option is not None
            self._hooks.setdefault(kind, []).append(Hook(self._tier, self._option.name, call))

    def _enabled(self, flag: str) -> bool:
        assert self._option is not None, "callbacks are registered in Plugin.open"
        return self._option.is_enabled(flag)

    def add_job_order(self, key: cb.JobOrder) -> None:
        self._add("jobOrder", key)

    def add_queue_order(self, key: cb.QueueOrder, *, falls: Callable[[], int] | None = None) -> None:
        """`falls`: for keys that can become smaller by what others are given; grows whenever one may have."""
        self._add("queueOrder", key)
        if falls is not None:
            self._add("queueKeyFalls", falls, "queueOrder")

    def add_namespace_order(self, key: cb.NamespaceOrder) -> None:
        self._add("namespaceOrder", key)

    def add_task_order(self, key: cb.TaskOrder) -> None:
        self._add("taskOrder", key)

    def add_victim_queue_order(self, key: cb.VictimQueueOrder) -> None:
        self._add("victimQueueOrder", key, "always")

    def add_pre_filter(self, check: Callable[[Task], Refusal | None]) -> None:
        """A reason that rules out every node, found without looking at any."""
        self._add("prePredicate", check, "predicate")

    def add_filter(
        self,
        prepare: Callable[[Task], cb.NodeFilter | None],
        *,
        scope: Scope = Scope.STATIC,
        key: cb.KeyOfTask | None = None,
    ) -> None:
        if self._enabled("predicate"):
            self.filters.append(cb.FilterHook(prepare, scope, key))

    def add_node_filter(self, check: cb.PerNodeFilter, *, scope: Scope = Scope.NODE) -> None:
        """A filter that looks at one node at a time: returns a sentence if the node is no place for the task."""

        def prepare(task: Task) -> cb.NodeFilter:
            def judge(rows: cb.Rows) -> cb.ReasonIds:
                answers = np.zeros(len(rows), dtype=np.int32)
                for position, row in enumerate(rows.tolist()):
                    sentence = check(task, self.nodes.nodes[row])
                    if sentence is not None:
                        answers[position] = self.node_reason(f"Predicate{plugin}", sentence, resolvable=False)
                return answers

            return judge

        assert self._option is not None
        plugin = self._option.name
        self.add_filter(prepare, scope=scope, key=lambda task: task.key)

    def add_score(
        self,
        prepare: Callable[[Task], cb.NodeScore | None],
        *,
        scope: Scope = Scope.STATIC,
        key: cb.KeyOfTask | None = None,
    ) -> None:
        if self._enabled("nodeOrder"):
            self.scores.append(cb.ScoreHook(prepare, scope, key))

    def add_node_score(self, score: cb.PerNodeScore, *, scope: Scope = Scope.NODE) -> None:
        """A score of one node at a time."""

        def prepare(task: Task) -> cb.NodeScore:
            def judge(rows: cb.Rows) -> cb.Scores:
                return np.array([score(task, self.nodes.nodes[row]) for row in rows.tolist()], dtype=np.float64)

            return judge

        self.add_score(prepare, scope=scope, key=lambda task: task.key)

    def add_resource_score(self, score: cb.ResourceScore) -> None:
        if self._enabled("nodeOrder"):
            mine = self.resource_score
            self.resource_score = cb.ResourceScore(
                least=mine.least + score.least,
                most=mine.most + score.most,
                balanced=mine.balanced + score.balanced,
                pack=mine.pack + score.pack,
                pack_weights=mine.pack_weights + score.pack_weights,
            )

    def add_node_order_on_resource(self, score: Callable[[Task], cb.Scores]) -> None:
        """How good each node (row) is for setting room aside for a task, by what is idle there."""
        self._add("nodeOrderOnResource", score)

    def add_best_node(self, choose: cb.BestNode) -> None:
        self._add("bestNode", choose)

    def add_preemptable(self, verdict: cb.VictimVerdict, *, protects: bool) -> None:
        self._add("preemptable:protect" if protects else "preemptable:permit", verdict, "preemptable")

    def add_reclaimable(self, verdict: cb.VictimVerdict, *, protects: bool) -> None:
        self._add("reclaimable:protect" if protects else "reclaimable:permit", verdict, "reclaimable")

    def add_overused(self, test: Callable[[Queue], bool]) -> None:
        self._add("overused", test)

    def add_allocatable(self, test: cb.Allocatable) -> None:
        self._add("allocatable", test)

    def add_preemptive(self, test: cb.Preemptive) -> None:
        self._add("preemptive", test)

    def add_job_ready(self, test: Callable[[Job], bool]) -> None:
        self._add("jobReady", test)

    def add_job_pipelined(self, vote: cb.JobVote) -> None:
        self._add("jobPipelined", vote)

    def add_job_enqueueable(self, vote: cb.JobVote) -> None:
        self._add("jobEnqueueable", vote)

    def add_job_enqueued(self, handler: Callable[[Job], None]) -> None:
        self._add("jobEnqueued", handler)

    def add_job_valid(self, test: Callable[[Job], Refusal | None]) -> None:
        self._add("jobValid", test, "always")

    def add_job_starving(self, test: Callable[[Job], bool]) -> None:
        self._add("jobStarving", test)

    def add_backfill_eligible(self, test: Callable[[Job], bool]) -> None:
        """Whether a job may run on room that is lent to it; all have to agree."""
        self._add("backfillEligible", test, "always")

    def add_victim_tasks(self, choose: Callable[[Sequence[Task]], list[Task]]) -> None:
        """Tasks that should leave whoever wants their room, for actions that rearrange."""
        self._add("victimTasks", choose, "victim")

    def add_handlers(self, *, allocate: cb.Handler | None = None, deallocate: cb.Handler | None = None) -> None:
        """Called after every placement (allocated or pipelined) and after every eviction or undo. An allocate
        handler may raise `Objection`."""
        if allocate is not None:
            self._add("allocate", allocate, "always")
        if deallocate is not None:
            self._add("deallocate", deallocate, "always")

    def node_reason(self, code: str, text: str, *, resolvable: bool) -> int:
        """The id (1 and up) by which a filter says this reason."""
        reason = NodeReason(code, text, resolvable)
        known = self._reason_ids.get(reason)
        if known is None:
            self.node_reasons.append(reason)
            known = self._reason_ids[reason] = len(self.node_reasons)
        return known

    # -- orders -------------------------------------------------------------------------------------------------

    def hooks(self, kind: str) -> list[Hook]:
        return self._hooks.get(kind, [])

    def job_key(self, job: Job) -> tuple[Any, ...]:
        return (*[hook.call(job) for hook in self.hooks("jobOrder")], job.created, job.key)

    def queue_key(self, queue: Queue) -> tuple[Any, ...]:
        return (*[hook.call(queue) for hook in self.hooks("queueOrder")], queue.created, queue.name)

    def queue_key_falls(self) -> int:
        """Grows whenever some queue may come sooner than the key said that it was last asked for."""
        return sum(hook.call() for hook in self.hooks("queueKeyFalls"))

    def namespace_key(self, queue: Queue, namespace: str) -> tuple[Any, ...]:
        return (*self.namespace_share_key(queue, namespace), namespace)

    def namespace_share_key(self, queue: Queue, namespace: str) -> tuple[Any, ...]:
        """The key without the name: equal for namespaces that are even."""
        return tuple(hook.call(queue, namespace) for hook in self.hooks("namespaceOrder"))

    def task_key(self, task: Task) -> tuple[Any, ...]:
        keys = [hook.call(task) for hook in self.hooks("taskOrder")]
        return (*keys, task.index, task.created, task.key)

    def held_by(self, queue: Queue) -> Vector:
        """What a queue has, for the order of queues."""
        if not self.admitting:
            return queue.allocated
        return np.asarray(queue.allocated + self.promises.promised(queue))

    def held_in(self, queue: Queue, namespace: str) -> Vector | None:
        """What a namespace has in a queue, for the order of namespaces; None if nothing."""
        held = queue.by_namespace.get(namespace)
        if not self.admitting:
            return held
        promised = self.promises.promised_in(queue, namespace)
        return promised if held is None else np.asarray(held + promised)

    # -- questions ----------------------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        return any(hook.call(queue) for hook in self.hooks("overused"))

    def allocatable(
        self, queue: Queue, request: Vector, *, credit: Vector | None = None, lending: bool = False
    ) -> Refusal | None:
        return self._first_refusal("allocatable", queue, request, credit, lending)

    def preemptive(self, queue: Queue, request: Vector, *, credit: Vector | None = None) -> Refusal | None:
        """May this queue take room from others for such a task?"""
        return self._first_refusal("preemptive", queue, request, credit)

    def job_valid(self, job: Job) -> Refusal | None:
        return self._first_refusal("jobValid", job)

    def pre_filter(self, task: Task) -> Refusal | None:
        return self._first_refusal("prePredicate", task)

    def _first_refusal(self, kind: str, *arguments: object) -> Refusal | None:
        for hook in self.hooks(kind):
            refusal: Refusal | None = hook.call(*arguments)
            if refusal is not None:
                return refusal
        return None

    def job_ready(self, job: Job) -> bool:
        return all(hook.call(job) for hook in self.hooks("jobReady"))

    def job_pipelined(self, job: Job) -> bool:
        return self._vote("jobPipelined", job) is None

    def job_enqueueable(self, job: Job) -> Refusal | None:
        return self._vote("jobEnqueueable", job)

    def only_room_keeps_out(self, job: Job) -> bool:
        """Whether all who would not let a job in say that the cluster is full."""
        answers = [hook.call(job) for hook in self.hooks("jobEnqueueable")]
        refusals = [answer for answer in answers if isinstance(answer, Refusal)]
        return Vote.REJECT not in answers and all(refusal.code == Code.INSUFFICIENT_NODE for refusal in refusals)

    def job_enqueued(self, job: Job) -> None:
        for hook in self.hooks("jobEnqueued"):
            hook.call(job)

    def _vote(self, kind: str, job: Job) -> Refusal | None:
        permitted_in = -1
        for hook in self.hooks(kind):
            if permitted_in >= 0 and hook.tier != permitted_in:
                return None
            answer: Vote | Refusal = hook.call(job)
            if isinstance(answer, Refusal):
                return answer
            if answer == Vote.REJECT:
                return Refusal(code="Rejected", subject=hook.plugin)
            if answer == Vote.PERMIT:
                permitted_in = hook.tier
        return None

    def job_starving(self, job: Job) -> bool:
        hooks = self.hooks("jobStarving")
        if not hooks:
            return False
        first = hooks[0].tier
        return all(hook.call(job) for hook in hooks if hook.tier == first)

    def may_evict(self, kind: str, evictor: Task, candidate: Task, *, whole: bool = False) -> bool:
        """`kind`: preemptable or reclaimable. The rule is told at `Verdict`."""
        if not candidate.preemptable:
            return False
        decided_in = -1
        for hook in self.hooks(f"{kind}:permit"):
            if decided_in >= 0 and hook.tier != decided_in:
                break
            verdict = hook.call(evictor, candidate, whole)
            if verdict == Verdict.NO:
                return False
            if verdict == Verdict.YES:
                decided_in = hook.tier
        # Most candidates end above: asking the protectors last only saves time.
        return decided_in >= 0 and not self.protected(kind, evictor, candidate, whole=whole)

    def protected(self, kind: str, evictor: Task, candidate: Task, *, whole: bool = False) -> bool:
        """Whether somebody says no, whoever would permit it."""
        return not candidate.preemptable or any(
            hook.call(evictor, candidate, whole) == Verdict.NO for hook in self.hooks(f"{kind}:protect")
        )

    def evictable(self, queue: Queue) -> dict[int, list[Task]]:
        """Tasks of a queue that were evictable when first asked, by row; nobody becomes evictable in a session."""
        known = self._evictable.get(queue.name)
        if known is None:
            known = self._evictable[queue.name] = evictable_by_row(queue)
        return known

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """The union of what the first tier with any word chooses, in the order of the given tasks."""
        chosen: set[str] = set()
        tier = -1
        for hook in self.hooks("victimTasks"):
            if chosen and hook.tier != tier:
                break
            tier = hook.tier
            chosen.update(task.key for task in hook.call(tasks))
        return [task for task in tasks if task.key in chosen]

    def victim_queue_key(self, victim: Queue, preemptor: Queue) -> tuple[Any, ...]:
        return tuple(hook.call(victim, preemptor) for hook in self.hooks("victimQueueOrder"))

    def node_order_on_resource(self, task: Task) -> cb.Scores:
        scores = np.zeros(len(self.nodes), dtype=np.float64)
        for hook in self.hooks("nodeOrderOnResource"):
            scores += hook.call(task)
        return scores

    # -- doing --------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        return Statement(self)

    def pending_tasks(self, job: Job) -> list[Task]:
        """Tasks of a job that wait for a place, first to be placed first; gated ones are not asked for yet."""
        waiting = [t for t in job.tasks.values() if t.status in _WAITING and not t.gated]
        if len(waiting) > 1:
            waiting.sort(key=self.task_key)
            if job.roles_matter:
                return _needed_first(job, waiting)
        return waiting

    def keep(self, job: Job, statement: Statement) -> None:
        """Leave the places of a job that cannot start in force, until the backfill action (or another) decides."""
        self.kept[job.key] = statement

    def let_go(self, job: Job) -> None:
        """Give up what is kept for a job; it may be lent."""
        statement = self.kept.pop(job.key, None)
        if statement is not None:
            for operation in statement.operations:
                if operation.task.node is not None:
                    self.lendable.add(operation.task.node.row)
            statement.discard()

    @contextmanager
    def laid_aside(self, job: Job) -> Iterator[None]:
        """Without what is kept for a job. It is kept again afterwards, unless the job was given something better."""
        statement = self.kept.pop(job.key, None)
        if statement is None:
            yield
            return
        places = [(operation.kind, operation.task, operation.task.node) for operation in statement.operations]
        statement.discard()
        yield
        if not job.counts[Status.RESERVED]:
            statement.repeat(places)
            self.keep(job, statement)

    def due(self, moment: float) -> None:
        """Time alone will change something then."""
        if self.cycle.next_due is None or moment < self.cycle.next_due:
            self.cycle.next_due = moment

    def close(self) -> Cycle:
        for plugin in self._plugins:
            plugin.close(self)
        conclude(self)
        return self.cycle


_WAITING = frozenset({Status.PENDING, Status.RESERVED})


def _needed_first(job: Job, waiting: list[Task]) -> list[Task]:
    """As many tasks of each role as the gang cannot start without, then the others: those would take their room."""
    short = {role: least - job.role_occupied(role, with_pipelined=True) for role, least in job.role_minimums.items()}
    needed: list[Task] = []
    others: list[Task] = []
    for task in waiting:
        missing = short.get(task.role, 0)
        (needed if missing > 0 else others).append(task)
        short[task.role] = missing - 1
    return needed + others
