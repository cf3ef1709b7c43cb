"""All extension points of a session, with who may answer, how answers combine, and what a callback forbids.

The methods of `extension_points.ExtensionPoints` register callbacks at the points of plugins. Features, and plugins of
Stromboli, also register at the others: `session.points.remark.add(...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from stromboli.cluster import Job, Queue, QueueName, Task, TaskKey, Vector
from stromboli.scheduling import callbacks as cb

from .point import Batching, Desk, Handlers, Lists, Point, Refusals, Tests, Verdicts, Votes


class Points:
    def __init__(self) -> None:
        desk = self.desk = Desk()
        self.job_order: Point[cb.JobOrder] = Point(desk, "jobOrder")
        self.queue_order: Point[cb.QueueOrder] = Point(desk, "queueOrder")
        self.queue_path: Point[Callable[[Queue], cb.QueuePath]] = Point(desk, "queueOrder")
        self.queue_key_falls: Point[Callable[[], int]] = Point(desk, "queueOrder")
        self.namespace_order: Point[cb.NamespaceOrder] = Point(desk, "namespaceOrder")
        self.task_order: Point[cb.TaskOrder] = Point(desk, "taskOrder")
        self.victim_queue_order: Point[cb.VictimQueueOrder] = Point(desk)
        self.pre_filter: Refusals[Task] = Refusals(desk, "predicate", forbids=Batching.COUNTING)
        self.node_order_on_resource: Point[Callable[[Task], cb.Scores]] = Point(desk, "nodeOrderOnResource")
        self.node_order_signature: Point[cb.KeyOfTask] = Point(desk, "nodeOrderOnResource")
        self.best_node: Point[cb.BestNode] = Point(desk, "bestNode", forbids=Batching.COUNTING)
        self.preemptable = Verdicts(desk)
        self.reclaimable = Verdicts(desk)
        self.victims: Mapping[cb.EvictionKind, Verdicts] = {
            "preemptable": self.preemptable, "reclaimable": self.reclaimable,
        }  # fmt: skip
        self.overused: Tests[Queue] = Tests(desk, "overused")
        self.allocatable: Refusals[Queue, Vector, Vector | None, bool] = Refusals(desk, "allocatable")
        self.preemptive: Refusals[Queue, Vector, Vector | None] = Refusals(desk, "preemptive")
        self.job_enqueueable = Votes(desk, "jobEnqueueable")
        self.all_enqueueable: Tests[Mapping[QueueName, list[int]]] = Tests(desk, "jobEnqueueable")
        self.job_enqueued: Handlers[Job] = Handlers(desk, "jobEnqueued")
        self.job_valid: Refusals[Job] = Refusals(desk)
        self.job_ready: Tests[Job] = Tests(desk, "jobReady", forbids=Batching.PLACING)
        self.job_pipelined = Votes(desk, "jobPipelined")
        self.job_starving: Point[Callable[[Job], bool]] = Point(desk, "jobStarving")
        self.backfill_eligible: Tests[Job] = Tests(desk)
        self.allocate: Handlers[Task] = Handlers(desk, forbids=Batching.PLACING)
        self.deallocate: Handlers[Task] = Handlers(desk)

        # -- what queues may have, for plugins that divide the cluster -------------------------------------------------
        # Asked instead of `allocatable` for nodes that count as the queue's already: only hard limits count there.
        self.allocatable_on_own_rows: Refusals[Queue, Vector, Vector | None] = Refusals(desk, "allocatable", ours=True)
        # Asked before something starts while pods terminate: these still count against hard limits.
        self.startable: Refusals[Queue, Vector] = Refusals(desk, "allocatable", ours=True)
        # Asked while nodes are kept for jobs of other queues, which need room under the same limits.
        self.shared_limits: Refusals[Queue, Vector, Vector | None, Mapping[QueueName, Vector]] = Refusals(
            desk, "allocatable", ours=True
        )
        # What queues deserve. Asked where resources go from one queue to another: the first no longer requests them.
        self.deserved_amounts: Point[cb.DeservedAmounts] = Point(desk, ours=True)
        # Whether a job may take more in its queue; asked after `allocatable`, which knows only the queue.
        self.job_allocatable: Refusals[Job, Vector, Vector | None] = Refusals(desk, ours=True)
        # Whether jobs like this one, that have no place yet, may get other answers in the same state of the cluster. To
        # be registered together with `job_allocatable`: without it, all may.
        self.job_allocatable_differs: Tests[Job] = Tests(desk, ours=True)

        # -- places and room -------------------------------------------------------------------------------------------
        # Called when a task has got or lost room that is only set aside for it, or that it counts on: what it will
        # take besides room is not there for its siblings.
        self.outlook: Handlers[Task] = Handlers(desk, ours=True)
        # Places that are kept for single tasks: those of some tasks that could take one, with the number of their
        # choices (those with few choose first).
        self.kept_places: Lists[Collection[Task], tuple[int, Task]] = Lists(desk, ours=True)
        # Called with the statement before nodes are searched for a task: whether it has one of these places now, or, if
        # the last argument says so, is promised it. And the same for several: how many from the front have places now.
        self.kept_place: Tests[Any, Task, bool] = Tests(desk, ours=True)
        self.kept_places_of_many: Point[Callable[[Any, Sequence[Task]], int]] = Point(desk, ours=True)
        # By row: what counts as used there and does not drain, but is there for this job. Called with whether only that
        # is meant which the job's own queue is charged for.
        self.kept_room: Point[Callable[[Job, bool], Mapping[int, Vector]]] = Point(desk, ours=True)
        # What counts as used already and is there for this job, when it is to be admitted, or for jobs that were
        # admitted before and are counted, too. Called with the queues that are meant; None: all.
        self.admission_credit: Point[Callable[[Job, Collection[str] | None], Vector | None]] = Point(desk, ours=True)
        # By row: how many of these tasks of one job have room there that is kept for them, and counts as used.
        self.kept_rows: Point[Callable[[Sequence[Task]], Mapping[int, int]]] = Point(desk, ours=True)
        # How good domains of one tier are for tasks, by their indices in a tree.
        self.domain_score: Point[cb.DomainScore] = Point(desk, ours=True)
        # Subtract from the room on all nodes what a job may not use.
        self.room: Point[cb.RoomAdjustment] = Point(desk, ours=True)
        # Which of the tasks of a gang can run on a few nodes only: they are placed first, so that the others do not
        # take their room.
        self.narrow: Lists[Job, Sequence[Task], TaskKey] = Lists(desk, ours=True)
        # Called with the statement and a task for which no node has room: place it in another way, or return False. And
        # with a task that finds too little idle room, and its job or None: whether it may have a place that way, in
        # that job or in any job.
        self.fallback_placement: Tests[Any, Task] = Tests(desk, ours=True)
        self.fallback_possible: Tests[Task, Job | None] = Tests(desk, ours=True)

        # -- evictions -------------------------------------------------------------------------------------------------
        # Tasks would get their places by evictions: whether all that they need besides room is there. If not, nobody is
        # evicted, and the feature sees to it.
        self.prepare: Tests[Job, Sequence[Task]] = Tests(desk, ours=True)
        # Why no nodes should be set aside for a job, because what it needs besides room cannot be had.
        self.why_no_nodes: Point[Callable[[Job], str | None]] = Point(desk, ours=True)
        # When a job is to have a place at the latest, however long others may wait; None: nobody says so.
        self.latest_start: Point[Callable[[Job], float | None]] = Point(desk, ours=True)
        # What gives way to a task before any pod is evicted for it; and whether anything does, by these rules.
        self.concessions: Lists[cb.EvictionKind, Task, cb.Concession] = Lists(desk, ours=True)
        self.concessions_possible: Tests[cb.EvictionKind] = Tests(desk, ours=True)
        # Rows on which no task may be evicted for this one.
        self.closed_to_evictions: Lists[Task, int] = Lists(desk, ours=True)
        # What may be given up for a job that finds no place otherwise, the least important first.
        self.displacement: Lists[Job, bool, Callable[[Any], None]] = Lists(desk, ours=True)

        # -- decisions and what users read --------------------------------------------------------------------------
        # Whether the binds of tasks that were placed together must wait. Then the feature binds them later.
        self.hold: Tests[Job, Sequence[Task]] = Tests(desk, forbids=Batching.PLACING, ours=True)
        # Called with an operation that places tasks, and with these, before they are bound: True if they are not to be.
        self.start: Tests[Any, Sequence[Task]] = Tests(desk, ours=True)
        # Called with the statement, a task that is about to be evicted, a reason and a message: for operations that go
        # with it.
        self.eviction: Handlers[Any, Task, str, str] = Handlers(desk, ours=True)
        # Called with a task whose bind waits, a reason and a message: others get its place, and it is pending again.
        self.withdrawal: Handlers[Task, str, str] = Handlers(desk, ours=True)
        # Conditions that a waiting job's PodGroup gets; and what a job without a PodGroup stands for, while that waits.
        self.group_conditions: Lists[Job, cb.GroupCondition] = Lists(desk, ours=True)
        self.stand_in_conditions: Lists[Job, cb.GroupCondition] = Lists(desk, ours=True)
        # What else the reason of a waiting job says, after its own sentence; "" if nothing.
        self.remark: Point[Callable[[Job], str]] = Point(desk, ours=True)
        # Called at the end of the session, before the outcome of each job is recorded.
        self.close: Handlers[()] = Handlers(desk, ours=True)
