"""Where plugins and features register their callbacks.

A session has one extension point for each kind of question. A plugin registers its callbacks in `Plugin.open`, a
feature in its `open_…` function, each under its own name and tier. The flags of the configuration file can disable a
plugin's callbacks, one kind at a time. `framework` combines the answers of several callbacks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from stromboli.cluster import Job, NodeTable, Queue, Shape, Task, TaskKey, Vector
from stromboli.containment import WrongAnswer

from . import callbacks as cb
from .callbacks import DependsOn, Hook, KeyOfTask, NodeReason, Refusal, Scope, Signature, key_of


def always(flag: str) -> bool:
    """Every kind of callback is enabled."""
    return True


class ExtensionPoints:
    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.resource_score = cb.ResourceScore()
        self.filters: list[cb.FilterHook] = []
        self.scores: list[cb.ScoreHook] = []
        self.tasks_told_apart = False  # from then on it is too late for filters and scores: answers are shared by tasks
        self.asks_every_task = False  # in every cycle: a callback does not say what its answer depends on
        self.node_reasons: list[NodeReason] = []
        self.namespace_scope = "beforePriority"  # or withinPriority: the job's priority first, then the namespace
        self.namespace_shares: cb.NamespaceShares | None = None
        self._reason_ids: dict[NodeReason, int] = {}
        self._hooks: defaultdict[str, list[Hook]] = defaultdict(list)
        # By kind. A method of the dictionary, as this is looked up several times for every job.
        self.hooks: Callable[[str], list[Hook]] = self._hooks.__getitem__
        self._owner = ""
        self._tier = 0
        self._is_enabled: Callable[[str], bool] = always

    @contextmanager
    def registering(self, owner: str, tier: int, is_enabled: Callable[[str], bool] = always) -> Iterator[None]:
        """Callbacks added inside belong to this plugin or feature. `is_enabled`: whether the configuration enables
        this kind of callback."""
        self._owner, self._tier, self._is_enabled = owner, tier, is_enabled
        try:
            yield
        finally:
            self._owner = ""

    def _add(self, kind: str, call: Callable[..., Any], flag: str | None = None) -> None:
        if self._enabled(flag or kind):
            self._hooks[kind].append(Hook(self._tier, self._owner, call))

    def _enabled(self, flag: str) -> bool:
        assert self._owner, "callbacks are registered when a plugin or feature is opened"
        return self._is_enabled(flag)

    def add_job_order(self, key: cb.JobOrder) -> None:
        self._add("jobOrder", key)

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
        self._add("queueOrder", key)
        if path is not None:
            self._add("queuePath", path, "queueOrder")
        if falls is not None:
            self._add("queueKeyFalls", falls, "queueOrder")

    def add_namespace_order(
        self, key: cb.NamespaceOrder, *, scope: str = "beforePriority", shares: cb.NamespaceShares | None = None
    ) -> None:
        """`scope`: whether namespaces are compared before the priorities of their jobs or within one priority.
        `shares`: how the shares behind the order are measured, for who compares them after a move."""
        if self._enabled("namespaceOrder"):
            self.namespace_scope = scope
            self.namespace_shares = shares
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
        if self._enabled("predicate"):
            self._refuse_if_late("filter")
            key = self._key_of(depends_on)
            self.filters.append(cb.FilterHook(prepare, scope, key, live, self._owner, remaining, keyed, keys))

    def _refuse_if_late(self, what: str) -> None:
        if self.tasks_told_apart:
            raise RuntimeError(f"{self._owner} adds a {what} after nodes were chosen without it in this session")

    def _key_of(self, depends_on: Signature) -> KeyOfTask | None:
        self.asks_every_task |= depends_on is DependsOn.TASK
        return key_of(depends_on)

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

        plugin = self._owner
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
        if self._enabled("nodeOrder"):
            self._refuse_if_late("score")
            self.scores.append(cb.ScoreHook(prepare, scope, self._key_of(depends_on), keyed))

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
        if self._enabled("nodeOrder"):
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
        if self._enabled("nodeOrderOnResource") and (key := self._key_of(depends_on)) is not None:
            self._add("nodeOrderOnResource:key", key, "nodeOrderOnResource")
        self._add("nodeOrderOnResource", score)

    def add_best_node(self, choose: cb.BestNode) -> None:
        """Choose one of these rows, which all fit, by their scores; the first plugin that returns a row decides."""
        self._add("bestNode", choose)

    def add_preemptable(
        self, verdict: cb.VictimVerdict, *, protects: bool, flag: str = "preemptable", by_shares: bool = False
    ) -> None:
        """`flag`: the flag of the configuration that switches it. `by_shares`: whatever namespace of its queue the
        evictor is in, the verdict is the same, as long as the candidate is in another, and the evictor's holds as much
        in that queue and has the same weight."""
        self._add("preemptable:protect" if protects else "preemptable:permit", verdict, flag)
        if not by_shares:
            self._add("preemptable:byNamespace", verdict, flag)

    def add_reclaimable(self, verdict: cb.VictimVerdict, *, protects: bool, by_shares: bool = False) -> None:
        """`by_shares`: as in `add_preemptable`."""
        self._add("reclaimable:protect" if protects else "reclaimable:permit", verdict, "reclaimable")
        if not by_shares:
            self._add("reclaimable:byNamespace", verdict, "reclaimable")

    def add_overused(self, test: Callable[[Queue], bool]) -> None:
        self._add("overused", test)

    def add_allocatable(self, test: cb.Allocatable) -> None:
        self._add("allocatable", test)

    def add_allocatable_on_own_rows(self, test: cb.HardLimits) -> None:
        """Asked instead of `allocatable` for nodes that count as the queue's already: only hard limits count there."""
        self._add("allocatableOnOwnRows", test, "allocatable")

    def add_startable(self, test: Callable[[Queue, Vector], Refusal | None]) -> None:
        """Asked before something starts while pods terminate: these still count against hard limits."""
        self._add("startable", test, "allocatable")

    def add_shared_limits(self, test: cb.SharedLimits) -> None:
        """Asked while nodes are kept for jobs of other queues, which need room under the same limits."""
        self._add("sharedLimits", test, "allocatable")

    def add_deserved_amounts(self, amounts: cb.DeservedAmounts) -> None:
        """What queues deserve. Asked where resources go from one queue to another: the first no longer requests
        them."""
        self._add("deservedAmounts", amounts, "always")

    def add_preemptive(self, test: cb.Preemptive) -> None:
        self._add("preemptive", test)

    def add_job_ready(self, test: Callable[[Job], bool]) -> None:
        self._add("jobReady", test)

    def add_job_pipelined(self, vote: cb.JobVote) -> None:
        self._add("jobPipelined", vote)

    def add_job_enqueueable(self, vote: cb.JobVote, *, all_at_once: cb.AllAtOnce | None = None) -> None:
        """`all_at_once`: whether all jobs would be permitted, whatever their order; mostly that is clear from sums."""
        self._add("jobEnqueueable", vote)
        if all_at_once is not None:
            self._add("allEnqueueable", all_at_once, "jobEnqueueable")

    def add_job_enqueued(self, handler: Callable[[Job], None]) -> None:
        self._add("jobEnqueued", handler)

    def add_job_valid(self, test: Callable[[Job], Refusal | None]) -> None:
        self._add("jobValid", test, "always")

    def add_job_starving(self, test: Callable[[Job], bool]) -> None:
        self._add("jobStarving", test)

    def add_backfill_eligible(self, test: Callable[[Job], bool]) -> None:
        """Whether a job may run on resources that are lent to it; all plugins have to agree."""
        self._add("backfillEligible", test, "always")

    def add_victim_tasks(self, choose: Callable[[Sequence[Task]], list[Task]]) -> None:
        """Tasks that should be evicted for whichever task needs their room; for actions that rearrange a cluster."""
        self._add("victimTasks", choose, "victim")

    def add_handlers(self, *, allocate: cb.Handler | None = None, deallocate: cb.Handler | None = None) -> None:
        """Called after every placement (allocated or pipelined) and after every eviction or undo. An allocate
        handler may raise `Objection`."""
        if allocate is not None:
            self._add("allocate", allocate, "always")
        if deallocate is not None:
            self._add("deallocate", deallocate, "always")

    def add_outlook(self, note: cb.Handler) -> None:
        """Called when a task has got or lost room that is only set aside for it, or that it counts on: what it will
        take besides room is not there for its siblings."""
        self._add("outlook", note, "always")

    # -- extension points of features ---------------------------------------------------------------------------

    def add_kept_places(
        self, find: cb.KeptPlaces, place: cb.KeptPlace, place_many: Callable[[Any, Sequence[Task]], int]
    ) -> None:
        """Places that are kept for single tasks. `find`: those of some tasks that could take one, with the number of
        their choices; those with few choose first. `place`: called before nodes are searched for the task; returns
        whether it has one of these places now. `place_many`: the same for several, where that is possible; returns how
        many from the front have their places."""
        self._add("keptPlacesOfMany", place_many)
        self._add("keptPlaces", find)
        self._add("keptPlace", place)

    def add_admission_credit(self, credit: Callable[[Job, Collection[str] | None], Vector | None]) -> None:
        """What counts as used already and is there for this job, when it is to be admitted, or for jobs that were
        admitted before and are counted, too. Called with the queues that are meant; None: all."""
        self._add("admissionCredit", credit)

    def add_kept_room(self, find: Callable[[Job, bool], Mapping[int, Vector]]) -> None:
        """By row: what counts as used there and does not drain, but is there for this job. Called with whether only
        that is meant which the job's own queue is charged for."""
        self._add("keptRoom", find)

    def add_concessions(self, find: cb.Concessions, is_possible: Callable[[str], bool]) -> None:
        """What gives way to a task before any pod is evicted for it. `is_possible`: whether anything does, by the rules
        of preemptable or reclaimable."""
        self._add("concessions", find)
        self._add("concessionsPossible", is_possible)

    def add_room(self, adjust: cb.RoomAdjustment) -> None:
        """Subtract from the room on all nodes what a job may not use."""
        self._add("room", adjust)

    def add_preparation(
        self, prepare: Callable[[Job, Sequence[Task]], bool], why_not: Callable[[Job], str | None]
    ) -> None:
        """`prepare`: called with tasks that would get their places by evictions; whether all that they need besides
        room is there. If not, nobody is evicted, and the feature sees to it. `why_not`: why no nodes should be set
        aside for a job, because what it needs besides room cannot be had."""
        self._add("prepare", prepare, "always")
        self._add("whyNoNodes", why_not, "always")

    def add_narrow(self, find: Callable[[Job, Sequence[Task]], Collection[TaskKey]]) -> None:
        """Which of the tasks of a gang can run on a few nodes only: they are placed first, so that the others do not
        take their room."""
        self._add("narrow", find)

    def add_hold(self, hold: Callable[[Job, Sequence[Task]], bool]) -> None:
        """Whether the binds of tasks that were placed together must wait. Then the feature binds them later."""
        self._add("hold", hold, "always")

    def add_operations(
        self,
        *,
        start: Callable[[Any, Sequence[Task]], bool] | None = None,
        eviction: Callable[[Any, Task, str, str], None] | None = None,
    ) -> None:
        """What else happens inside a statement. `start`: called with an operation that places tasks, and with these,
        before they are bound; True if they are not to be. `eviction`: called with the statement, a task that is about
        to be evicted, a reason and a message; for operations that go with it."""
        if start is not None:
            self._add("start", start, "always")
        if eviction is not None:
            self._add("eviction", eviction, "always")

    def add_withdrawal(self, withdraw: Callable[[Task, str, str], None]) -> None:
        """Called with a task whose bind waits, a reason and a message: others get its place, and it is pending
        again."""
        self._add("withdrawal", withdraw, "always")

    def add_fallback_placement(
        self, place: Callable[[Any, Task], bool], is_possible: Callable[[Task, Job | None], bool]
    ) -> None:
        """Called with the statement and a task for which no node has room: place it in another way, or return False.
        `is_possible`: called with a task that finds too little idle room, and its job or None; whether it may have a
        place that way, in that job or in any job."""
        self._add("fallbackPlacement", place)
        self._add("fallbackPossible", is_possible)

    def add_closed_to_evictions(self, rows: Callable[[Task], Collection[int]]) -> None:
        """Rows on which no task may be evicted for this one."""
        self._add("closedToEvictions", rows)

    def add_job_allocatable(
        self, test: cb.JobAllocatable, *, differs: Callable[[Job], bool] = lambda job: True
    ) -> None:
        """Whether a job may take more in its queue; asked after `allocatable`, which knows only the queue. `differs`:
        whether jobs like this one, that have no place yet, may get other answers in the same state of the cluster."""
        self._add("jobAllocatable", test)
        self._add("jobAllocatableDiffers", differs, "jobAllocatable")

    def add_displacement(self, choices: cb.Displacement) -> None:
        """What may be given up for a job that finds no place otherwise, the least important first."""
        self._add("displacement", choices)

    def add_group_conditions(self, conditions: Callable[[Job], Iterable[cb.GroupCondition]]) -> None:
        """Conditions that a waiting job's PodGroup gets."""
        self._add("groupConditions", conditions, "always")

    def add_stand_in_conditions(self, conditions: Callable[[Job], Iterable[cb.GroupCondition]]) -> None:
        """The same for what a job without a PodGroup stands for, while that waits for a node."""
        self._add("standInConditions", conditions, "always")

    def add_remark(self, remark: Callable[[Job], str]) -> None:
        """What else the reason of a waiting job says, after its own sentence; "" if nothing."""
        self._add("remarks", remark, "always")

    def add_close(self, call: Callable[[], None]) -> None:
        """Called at the end of the session, before the outcome of each job is recorded."""
        self._add("close", call, "always")

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
