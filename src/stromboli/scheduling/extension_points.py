"""Where plugins and features register their callbacks.

A session has one extension point for each kind of question. A plugin registers its callbacks in `Plugin.open`, a
feature in its `open_…` function, each under its own name and tier. The flags of the configuration file can disable a
plugin's callbacks, one kind at a time. The methods here are the plugin interface; `points` has all extension points,
also those of features, and the rules by which answers are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np

from stromboli.cluster import Job, NodeTable, Queue, Shape, Task
from stromboli.containment import WrongAnswer

from . import callbacks as cb
from .callbacks import DependsOn, KeyOfTask, NodeReason, Refusal, Scope, Signature, key_of
from .configuration import Flag
from .points import BELOW_PLUGINS, Batching, CheckedKey, Points, checked_filter, refuse_unknown

_OURS: Final = "it was for features of Stromboli only"
_QUEUES: Final = "it is for the plugins that divide the cluster; use add_allocatable"
FORMER_METHODS: Final[Mapping[str, str]] = {
    "add_close": "override Plugin.close, which is called at the end of the cycle",
    "add_victim_tasks": "no action asked; let your plugin and your action share a class by session.state",
    "add_allocatable_on_own_rows": _QUEUES,
    "add_startable": _QUEUES,
    "add_shared_limits": _QUEUES,
    "add_job_allocatable": _QUEUES,
    "add_deserved_amounts": "it is for the plugins that divide the cluster; use add_reclaimable",
    "add_room": f"{_OURS}; use add_filter",
    "add_kept_places": f"{_OURS}; use add_best_node",
    "add_closed_to_evictions": f"{_OURS}; use add_preemptable and add_reclaimable with protects=True",
    "add_outlook": f"{_OURS}; use add_handlers",
    "add_hold": f"{_OURS}; an allocate handler may raise Objection",
    "add_preparation": f"{_OURS}; use add_pre_filter",
    "add_narrow": f"{_OURS}; use add_task_order",
    **dict.fromkeys(
        [
            *("add_admission_credit", "add_kept_room", "add_concessions", "add_withdrawal", "add_displacement"),
            "add_operations",
            *("add_fallback_placement", "add_group_conditions", "add_stand_in_conditions", "add_remark"),
        ],
        f"{_OURS}, and nothing replaces it",
    ),
}
"""Methods that plugins of other distributions may still call, and what to use instead."""


class ExtensionPoints:
    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.points = Points()
        self.resource_score = cb.ResourceScore()
        self.filters: list[cb.FilterHook] = []
        self.scores: list[cb.ScoreHook] = []
        self.tasks_told_apart = False  # from then on it is too late for filters and scores: answers are shared by tasks
        self.asks_every_task = False  # in every cycle: a callback does not say what its answer depends on
        self.node_reasons: list[NodeReason] = []
        self.namespace_scope = "beforePriority"  # or withinPriority: the job's priority first, then the namespace
        self.namespace_shares: cb.NamespaceShares | None = None
        self._reason_ids: dict[NodeReason, int] = {}

    @contextmanager
    def registering(
        self,
        owner: str,
        tier: int = BELOW_PLUGINS,
        is_enabled: Callable[[Flag], bool] | None = None,
        *,
        is_ours: bool = True,
    ) -> Iterator[None]:
        """Callbacks added inside belong to this plugin or feature. `is_enabled`: whether the configuration enables
        this kind of callback. `is_ours`: it is not a plugin of another distribution."""
        with self.points.desk.open(owner, tier, is_enabled, is_ours=is_ours):
            try:
                yield
            except AttributeError as error:  # with __getattr__, all attributes of a session would take longer to find
                instead = FORMER_METHODS.get(error.name or "") if error.obj is self else None
                if instead is None:
                    raise
                raise AttributeError(f"plugins cannot use {error.name} any more: {instead}") from error

    def add_job_order(self, key: cb.JobOrder) -> None:
        self.points.job_order.add(key)

    def add_queue_order(
        self,
        key: cb.QueueOrder,
        *,
        falls: Callable[[], int] | None = None,
        path: Callable[[Queue], cb.QueuePath] | None = None,
    ) -> None:
        """`falls`: only for keys that can become smaller when other queues get resources. Its value grows whenever a
        key may have become smaller. `path`: if queues are in a tree and are compared by their ancestors just below the
        last common one, the steps down to a queue. Then `key` is the list of their keys, and no two steps are equal."""
        self.points.queue_order.add(key)
        if path is not None:
            self.points.queue_path.add(path)
        if falls is not None:
            self.points.queue_key_falls.add(falls)

    def add_namespace_order(
        self, key: cb.NamespaceOrder, *, scope: str = "beforePriority", shares: cb.NamespaceShares | None = None
    ) -> None:
        """`scope`: whether namespaces are compared before the priorities of their jobs or within one priority.
        `shares`: how the shares behind the order are measured, for who compares them after a move."""
        if self.points.desk.permits("namespaceOrder"):
            self.namespace_scope = scope
            self.namespace_shares = shares
        self.points.namespace_order.add(key)

    def add_task_order(self, key: cb.TaskOrder) -> None:
        self.points.task_order.add(key)

    def add_victim_queue_order(self, key: cb.VictimQueueOrder) -> None:
        self.points.victim_queue_order.add(key)

    def add_pre_filter(self, check: Callable[[Task], Refusal | None]) -> None:
        """A reason that rules out every node, found without looking at any."""
        self.points.pre_filter.add(check)

    def add_filter(
        self,
        prepare: Callable[[Task], cb.NodeFilter | None],
        *,
        depends_on: Signature = DependsOn.TASK,
        scope: Scope = Scope.CLUSTER,
        live: Callable[[], Hashable] | None = None,
        remaining: Callable[[Task], cb.RemainingCount | None] | None = None,
        keyed: Callable[[Shape], bool] | None = None,
        keys: cb.KeysOfTasks | None = None,
    ) -> None:
        """`depends_on` and `scope`: what the answer depends on in a task and on nodes. The fewer, the faster; unless
        stated, on anything. `live`: what it depends on may change during the session; then it is the same for all tasks
        of a job that were promised no node, as long as this returns the same. `keyed`: whether tasks of a shape differ
        at all in what it depends on; constant in a session, and asked once per shape. `keys`: the distinct values of
        many tasks, if there is a faster way than to ask for each. `remaining`: the filter counts tasks, and this is how
        many more a node takes. Then equal tasks are still placed in one step; with None for a task, one by one."""
        if self.points.desk.permits("predicate"):
            self._refuse_if_late("filter")
            key = self._key_of(depends_on, scope)
            if not self.points.desk.is_ours:
                prepare = checked_filter(self.points.desk.owner, prepare, lambda: len(self.node_reasons))
            self.filters.append(
                cb.FilterHook(prepare, scope, key, live, self.points.desk.owner, remaining, keyed, keys)
            )

    def _refuse_if_late(self, what: str) -> None:
        if self.tasks_told_apart:
            raise RuntimeError(
                f"{self.points.desk.owner} adds a {what} after nodes were chosen without it in this session"
            )

    def _key_of(self, depends_on: Signature, scope: Scope | None = None) -> KeyOfTask | None:
        refuse_unknown(depends_on, scope)
        self.asks_every_task |= depends_on is DependsOn.TASK
        key = key_of(depends_on)
        if key is None or isinstance(depends_on, DependsOn) or self.points.desk.is_ours:
            return key
        return CheckedKey(self.points.desk.owner, key)

    def add_node_filter(
        self, check: cb.PerNodeFilter, *, depends_on: Signature = DependsOn.TASK, scope: Scope = Scope.CLUSTER
    ) -> None:
        """A filter that looks at one node at a time: returns a sentence if the node cannot run the task."""

        def prepare(task: Task) -> cb.NodeFilter:
            def judge(rows: cb.Rows) -> cb.ReasonIds:
                answers = np.zeros(len(rows), dtype=np.int32)
                for position, row in enumerate(rows.tolist()):
                    sentence: object = check(task, self.nodes.nodes[row])
                    if sentence is not None:
                        if not isinstance(sentence, str):
                            problem = f"a node filter returns None or a sentence, not {sentence!r}"
                            raise WrongAnswer(plugin, check, problem)
                        answers[position] = self.node_reason(f"Predicate{plugin}", sentence, resolvable=False)
                return answers

            return judge

        plugin = self.points.desk.owner
        self.add_filter(prepare, depends_on=depends_on, scope=scope)

    def add_score(
        self,
        prepare: Callable[[Task], cb.NodeScore | None],
        *,
        depends_on: Signature = DependsOn.TASK,
        scope: Scope = Scope.CLUSTER,
        keyed: Callable[[Shape], bool] | None = None,
    ) -> None:
        """`depends_on`, `scope` and `keyed` as for filters."""
        if self.points.desk.permits("nodeOrder"):
            self._refuse_if_late("score")
            self.scores.append(cb.ScoreHook(prepare, scope, self._key_of(depends_on, scope), keyed))

    def add_node_score(
        self, score: cb.PerNodeScore, *, depends_on: Signature = DependsOn.TASK, scope: Scope = Scope.CLUSTER
    ) -> None:
        """A score of one node at a time."""

        def prepare(task: Task) -> cb.NodeScore:
            def judge(rows: cb.Rows) -> cb.Scores:
                return np.array([score(task, self.nodes.nodes[row]) for row in rows.tolist()], dtype=np.float64)

            return judge

        self.add_score(prepare, depends_on=depends_on, scope=scope)

    def add_resource_score(self, score: cb.ResourceScore) -> None:
        if self.points.desk.permits("nodeOrder"):
            mine = self.resource_score
            self.resource_score = cb.ResourceScore(
                least=mine.least + score.least,
                most=mine.most + score.most,
                balanced=mine.balanced + score.balanced,
                pack=mine.pack + score.pack,
                pack_weights=mine.pack_weights + score.pack_weights,
            )

    def add_node_order_on_resource(
        self, score: Callable[[Task], cb.Scores], *, depends_on: Signature = DependsOn.TASK
    ) -> None:
        """How good each node (row) is to be kept for a task, by what is idle there. The sum over plugins counts.
        `depends_on`: as for filters."""
        if self.points.desk.permits("nodeOrderOnResource") and (key := self._key_of(depends_on)) is not None:
            self.points.node_order_signature.add(key)
        self.points.node_order_on_resource.add(score)

    def add_best_node(self, choose: cb.BestNode) -> None:
        """Choose one of these rows, which all fit, by their scores; the first plugin that returns a row decides."""
        self.points.best_node.add(choose)

    def add_preemptable(
        self, verdict: cb.VictimVerdict, *, protects: bool, flag: Flag = "preemptable", by_shares: bool = False
    ) -> None:
        """`flag`: the flag of the configuration that switches it. `by_shares`: whatever namespace of its queue the
        evictor is in, the verdict is the same, as long as the candidate is in another, and the evictor's holds as much
        in that queue and has the same weight."""
        self.points.preemptable.add(verdict, flag, protects=protects, by_shares=by_shares)

    def add_reclaimable(self, verdict: cb.VictimVerdict, *, protects: bool, by_shares: bool = False) -> None:
        """`by_shares`: as in `add_preemptable`."""
        self.points.reclaimable.add(verdict, "reclaimable", protects=protects, by_shares=by_shares)

    def add_overused(self, test: Callable[[Queue], bool]) -> None:
        self.points.overused.add(test)

    def add_allocatable(self, test: cb.Allocatable) -> None:
        self.points.allocatable.add(test)

    def add_preemptive(self, test: cb.Preemptive) -> None:
        self.points.preemptive.add(test)

    def add_job_ready(self, test: Callable[[Job], bool], *, by_minimum: bool = False) -> None:
        """`by_minimum`: a job of one task is ready as soon as this has a place, so that need not be asked."""
        self.points.job_ready.add(test, forbids=Batching.NOTHING if by_minimum else None)

    def add_job_pipelined(self, vote: cb.JobVote) -> None:
        self.points.job_pipelined.add(vote)

    def add_job_enqueueable(self, vote: cb.JobVote, *, all_at_once: cb.AllAtOnce | None = None) -> None:
        """`all_at_once`: whether all jobs would be permitted, whatever their order; mostly that is clear from sums."""
        self.points.job_enqueueable.add(vote)
        if all_at_once is not None:
            self.points.all_enqueueable.add(all_at_once)

    def add_job_enqueued(self, handler: Callable[[Job], None]) -> None:
        self.points.job_enqueued.add(handler)

    def add_job_valid(self, test: Callable[[Job], Refusal | None]) -> None:
        self.points.job_valid.add(test)

    def add_job_starving(self, test: Callable[[Job], bool]) -> None:
        self.points.job_starving.add(test)

    def add_backfill_eligible(self, test: Callable[[Job], bool]) -> None:
        """Whether a job may run on resources that are lent to it; all plugins have to agree."""
        self.points.backfill_eligible.add(test)

    def add_handlers(self, *, allocate: cb.Handler | None = None, deallocate: cb.Handler | None = None) -> None:
        """Called after every placement (allocated or pipelined) and after every eviction or undo. An allocate
        handler may raise `Objection`."""
        if allocate is not None:
            self.points.allocate.add(allocate)
        if deallocate is not None:
            self.points.deallocate.add(deallocate)

    # -- reasons ------------------------------------------------------------------------------------------------

    def node_reason(self, code: str, text: str, *, resolvable: bool) -> int:
        """The id of this reason, from 1, for the answers of a filter."""
        return self.reason_id(NodeReason(code, text, resolvable))

    def reason_id(self, reason: NodeReason) -> int:
        known = self._reason_ids.get(reason)
        if known is None:
            self.node_reasons.append(reason)
            known = self._reason_ids[reason] = len(self.node_reasons)
        return known
