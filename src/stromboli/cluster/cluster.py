"""What we know of the cluster, fed by events.

`Cluster.apply(event)` is the only way in, and `Cluster.snapshot()` the only way out to a session. There is one set
of columns: a session moves tasks on it, and whatever it did not make true is put back by the next snapshot. So a
snapshot costs what changed (by events, or by the last session's trials), never the size of the cluster.

NB: events may be applied only between sessions. A world whose events arrive on another thread keeps them until the
cycle is over.
"""

from __future__ import annotations

import numpy as np

from stromboli.api import Job as JobObject
from stromboli.api import (
    KObject,
    Namespace,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ReplicaSet,
    Reservation,
    ResourceQuota,
    key,
    names,
)
from stromboli.api import Node as NodeObject
from stromboli.api import Queue as QueueObject
from stromboli.api.generated_groups import is_generated_group
from stromboli.api.quantity import amounts
from stromboli.api.waiting_reservations import reserved_node_of, waiting_pod_of

from .events import Applied, BindFailed, ClusterEvent, Deleted, EvictFailed
from .ledger import Ledger
from .model import Job, JobKey, NamespaceInfo, Node, Queue, QueueName, Status, Task, TaskKey
from .object_facts import created, group_of, index_of, is_backfill, namespace_weight, role_of, status_of, task_priority
from .resources import PODS, UNLIMITED, ResourceAxis, Vector
from .shapes import ShapeBook
from .snapshot import Snapshot

_ALIVE = frozenset({Status.BOUND, Status.RUNNING, Status.UNKNOWN})


class Cluster:
    def __init__(self, *, scheduler_name: str | None = None) -> None:
        """`scheduler_name`: whose pending pods are ours to place; None takes everybody's."""
        self.scheduler_name = scheduler_name
        self.axis = ResourceAxis()
        self.shapes = ShapeBook(self.axis)
        self.ledger = Ledger(self.axis)
        self.nodes: dict[str, Node] = {}
        self.tasks: dict[TaskKey, Task] = {}
        self.jobs: dict[JobKey, Job] = {}
        self.queues: dict[QueueName, Queue] = {}
        self.namespaces: dict[str, NamespaceInfo] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.reservations: dict[str, Reservation] = {}
        self._set_aside: dict[TaskKey, str] = {}  # the node set aside for a task, by Reservations that wait
        self._homeless: dict[str, dict[TaskKey, Task]] = {}  # tasks on nodes without a row (yet), by node name
        self._width = self.axis.width
        self._layout_changed = False
        self._priorities_changed = False
        self._total: Vector | None = None
        self._visible: list[Job] | None = None

    # -- in -----------------------------------------------------------------------------------------------------

    def apply(self, event: ClusterEvent) -> None:
        match event:
            case Applied(obj):
                self._applied(obj)
            case Deleted(obj):
                self._deleted(obj)
            case BindFailed(task_key):
                if (task := self.tasks.get(task_key)) is not None and task.true_status is Status.BINDING:
                    self.ledger.settle(task, Status.PENDING, None)
                    self._refresh_task(task, task.pod)  # it is not running on lent room, either
            case EvictFailed(task_key):
                if (task := self.tasks.get(task_key)) is not None and task.true_status is Status.RELEASING:
                    self.ledger.settle(task, status_of(task.pod), task.true_node)
        if self.axis.width != self._width:
            self._widen()

    def _applied(self, obj: KObject) -> None:
        match obj:
            case Pod():
                self._pod_applied(obj)
            case PodGroup():
                self._group_applied(obj)
            case NodeObject():
                self._node_applied(obj)
            case QueueObject():
                self._queue_applied(obj)
            case Namespace():
                self._namespace(obj.metadata.name).labels = dict(obj.metadata.labels)
            case ResourceQuota():
                weights = self._namespace(obj.metadata.namespace).weights
                weights.pop(obj.metadata.name, None)
                if names.NAMESPACE_WEIGHT in obj.spec.hard:
                    weights[obj.metadata.name] = namespace_weight(obj.spec.hard[names.NAMESPACE_WEIGHT])
            case PodDisruptionBudget():
                self.budgets[key(obj)] = obj
            case PriorityClass():
                self.priority_classes[obj.metadata.name] = obj
                self._priorities_changed = True
            case Reservation():
                self._reservation_applied(obj)
            case ReplicaSet() | JobObject():
                pass  # controllers' business: what the scheduler needs of them is in their pods and groups
            case _:
                pass

    def _deleted(self, obj: KObject) -> None:
        match obj:
            case Pod():
                self._forget_task(TaskKey(key(obj)))
            case PodGroup():
                job = self.jobs.get(JobKey(key(obj)))
                if job is not None:
                    job.object = None
                    self._visible = None
                    self._drop_if_empty(job)
            case NodeObject():
                self._node_deleted(obj.metadata.name)
            case QueueObject():
                queue = self.queues.get(QueueName(obj.metadata.name))
                if queue is not None:
                    queue.object = None
                    self._visible = None
                    self._drop_if_unused(queue)
            case Namespace():
                self._namespace(obj.metadata.name).labels = {}
            case ResourceQuota():
                self._namespace(obj.metadata.namespace).weights.pop(obj.metadata.name, None)
            case PodDisruptionBudget():
                self.budgets.pop(key(obj), None)
            case PriorityClass():
                self.priority_classes.pop(obj.metadata.name, None)
                self._priorities_changed = True
            case Reservation():
                self._reservation_deleted(obj.metadata.name)
            case _:
                pass

    # -- nodes --------------------------------------------------------------------------------------------------

    def _node_applied(self, obj: NodeObject) -> None:
        name = obj.metadata.name
        ready = all(c.status == "True" for c in obj.status.conditions if c.type == "Ready")
        node = self.nodes.get(name)
        self._total = None
        if node is None:
            node = Node(name, obj, -1, {}, ready, True, {})  # its row is given by the next snapshot
            self.nodes[name] = node
            self._layout_changed = True
        node.object = obj
        node.labels = dict(obj.metadata.labels)
        node.ready = ready
        node.schedulable = not obj.spec.unschedulable
        node.allocatable = amounts(obj.status.allocatable or obj.status.capacity)
        for resource in node.allocatable:
            self.axis.column(resource)
        if node.row >= 0:
            if self.axis.width != self._width:
                self._widen()
            self.ledger.table.set_node(node)

    def _lay_out(self) -> None:
        """Give new nodes their rows and close the gaps of gone ones, all at once: a start-up with thousands of
        nodes would otherwise shift the columns thousands of times."""
        if not self._layout_changed:
            return
        self._layout_changed = False
        self.ledger.table.lay_out(self.nodes.values())
        for name in sorted(self._homeless):
            node = self.nodes.get(name)
            if node is not None:
                waiting = self._homeless.pop(name)
                for task_key in sorted(waiting):
                    task = waiting[task_key]
                    if task.true_status is not Status.PENDING:  # a reservation there was given up meanwhile
                        self.ledger.settle(task, task.true_status, node)

    def _node_deleted(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is None:
            return
        for task_key in sorted(node.tasks):
            task = node.tasks[task_key]
            if task.true_node is node:
                self._homeless.setdefault(name, {})[task_key] = task
                self.ledger.settle(task, task.true_status, None)
            else:
                self.ledger.move(task, task.true_status, task.true_node)
        for reservation in [r for r, held in self.ledger.holdings.items() if held.node is node]:
            self.ledger.set_holding(reservation, None)
        self._layout_changed = True
        self._total = None

    # -- pods ---------------------------------------------------------------------------------------------------

    def _is_ours(self, pod: Pod) -> bool:
        return self.scheduler_name is None or pod.spec.scheduler_name == self.scheduler_name

    def _pod_applied(self, pod: Pod) -> None:
        task_key = TaskKey(key(pod))
        task = self.tasks.get(task_key)
        if task is not None and task.uid != pod.metadata.uid:
            self._forget_task(task_key)
            task = None
        if not pod.spec.node_name and not self._is_ours(pod):
            self._forget_task(task_key)
            return
        if task is None:
            task = self._new_task(task_key, pod)
        else:
            self._refresh_task(task, pod)
        status = status_of(pod)
        if status is Status.PENDING and task.true_status in (Status.BINDING, Status.RESERVED):
            return  # our bind (or the Reservation) is on its way; this news is older
        if task.true_status is Status.RELEASING and task.true_node is not None and status in _ALIVE:
            return  # our eviction is on its way; it comes back as EvictFailed if it is refused
        self._settle(task, status)

    def _settle(self, task: Task, status: Status) -> None:
        node_name = task.pod.spec.node_name
        known = self._homeless.get(node_name)
        if known is not None:
            known.pop(task.key, None)
        if status is Status.PENDING and task.key in self._set_aside:
            status, node_name = Status.RESERVED, self._set_aside[task.key]
        if status in (Status.SUCCEEDED, Status.FAILED) or not node_name:
            self.ledger.settle(task, status, None)
            return
        node = self.nodes.get(node_name)
        if node is None or node.row < 0:
            node = None
            self._homeless.setdefault(node_name, {})[task.key] = task
        self.ledger.settle(task, status, node)

    def _new_task(self, task_key: TaskKey, pod: Pod) -> Task:
        shape = self.shapes.of(pod)
        if self.axis.width != self._width:
            self._widen()
        meta = pod.metadata
        task = Task(
            key=task_key, name=meta.name, namespace=meta.namespace, uid=meta.uid, pod=pod, shape=shape,
            job=None, priority=0, role="", index=index_of(meta.name),
            created=created(pod), preemptable=True, may_preempt=True, gated=False, backfill=False, nominated="",
        )  # fmt: skip
        self.tasks[task_key] = task
        self._read_pod(task, pod)
        self._join(task, group_of(pod))
        # Nominations are ours to make and to withdraw; the pod's is read once, to survive a restart.
        self.ledger.nominate(task, "" if pod.spec.node_name else pod.status.nominated_node_name)
        return task

    def _refresh_task(self, task: Task, pod: Pod) -> None:
        """A known pod in a new form. What the ledger counts by may change only while the task is out of it."""
        shape = self.shapes.of(pod)
        if self.axis.width != self._width:
            self._widen()
        group = group_of(pod)
        same_group = group is None if task.job is None else task.job.key == group
        counted = (bool(pod.spec.scheduling_gates), role_of(pod), _backfills(task, pod))
        if shape is task.shape and same_group and counted == (task.gated, task.role, task.backfill):
            self._read_pod(task, pod)
            return
        self.ledger.leave(task)
        if task.job is not None and not same_group:
            job, task.job = task.job, None
            del job.tasks[task.key]
            self._drop_if_empty(job)
        task.shape = shape
        self._read_pod(task, pod)
        if task.job is None and group is not None:
            task.job = self._job(group)
            task.job.tasks[task.key] = task
        self.ledger.enter(task)

    def _read_pod(self, task: Task, pod: Pod) -> None:
        """The facts of a pod, apart from where it is and how it is doing."""
        spec = pod.spec
        annotations = pod.metadata.annotations
        task.pod = pod
        task.priority = task_priority(pod)
        task.role = role_of(pod)
        task.preemptable = (
            annotations.get(names.PREEMPTABLE, pod.metadata.labels.get(names.PREEMPTABLE, "true")).lower() != "false"
        )
        task.may_preempt = spec.preemption_policy != "Never"
        task.gated = bool(spec.scheduling_gates)
        task.backfill = _backfills(task, pod)

    def _join(self, task: Task, group: JobKey | None) -> None:
        if group is not None:
            task.job = self._job(group)
            task.job.tasks[task.key] = task
        self.ledger.enter(task)

    def _forget_task(self, task_key: TaskKey) -> None:
        task = self.tasks.pop(task_key, None)
        if task is None:
            return
        self.ledger.leave(task)
        self.ledger.strayed.pop(task_key, None)
        self.ledger.nominated.pop(task_key, None)
        for waiting in self._homeless.values():
            waiting.pop(task_key, None)
        if task.job is not None:
            del task.job.tasks[task_key]
            self._drop_if_empty(task.job)

    # -- reservations -------------------------------------------------------------------------------------------

    def _reservation_applied(self, obj: Reservation) -> None:
        self._reservation_deleted(obj.metadata.name)
        self.reservations[obj.metadata.name] = obj
        waiting = waiting_pod_of(obj)
        if waiting is not None:
            task_key = TaskKey(waiting)
            self._set_aside[task_key] = reserved_node_of(obj)
            task = self.tasks.get(task_key)
            if task is not None and task.true_status is Status.PENDING:
                self._settle(task, Status.PENDING)

    def _reservation_deleted(self, name: str) -> None:
        known = self.reservations.pop(name, None)
        waiting = None if known is None else waiting_pod_of(known)
        if waiting is not None:
            node_name = self._set_aside.pop(TaskKey(waiting), "")
            task = self.tasks.get(TaskKey(waiting))
            if task is not None and task.true_status is Status.RESERVED:
                self._homeless.get(node_name, {}).pop(task.key, None)
                self.ledger.settle(task, Status.PENDING, None)

    # -- groups and queues --------------------------------------------------------------------------------------

    def _job(self, job_key: JobKey) -> Job:
        job = self.jobs.get(job_key)
        if job is None:
            namespace, _, name = job_key.partition("/")
            queue = self._queue(QueueName(names.DEFAULT_QUEUE))
            job = Job(job_key, name, namespace, queue, self.axis.zeros())
            queue.jobs[job_key] = job
            self.jobs[job_key] = job
            self._visible = None
        return job

    def _drop_if_empty(self, job: Job) -> None:
        self.ledger.changed_jobs[job.key] = job
        if job.object is None and not job.tasks:
            del self.jobs[job.key]
            del job.queue.jobs[job.key]
            self.ledger.changed_jobs.pop(job.key, None)
            self._visible = None
            self._drop_if_unused(job.queue)

    def _group_applied(self, obj: PodGroup) -> None:
        job = self._job(JobKey(key(obj)))
        spec = obj.spec
        if job.object is None:
            self._visible = None
        job.object = obj
        job.created = created(obj)
        job.min_available = spec.min_member
        job.role_minimums = dict(spec.min_task_member)
        # A group made for pods that are there already has nothing to be promised before they are created.
        states_minimum = bool(spec.min_resources) and not is_generated_group(obj)
        job.min_resources = self.axis.vector(amounts(spec.min_resources)) if states_minimum else None
        if job.min_resources is not None:
            job.min_resources[PODS] = 0
        if self.axis.width != self._width:
            self._widen()
        job.goes_whole = obj.metadata.annotations.get(names.GOES_WHOLE, "").lower() == "true"
        job.phase = obj.status.phase or "Pending"
        job.priority = self._priority(spec.priority_class_name)
        self.ledger.changed_jobs[job.key] = job
        queue = self._queue(QueueName(spec.queue or names.DEFAULT_QUEUE))
        if queue is not job.queue:
            self._rehome(job, queue)

    def _rehome(self, job: Job, queue: Queue) -> None:
        for task in job.tasks.values():
            self.ledger.leave(task)
        old = job.queue
        del old.jobs[job.key]
        job.queue = queue
        queue.jobs[job.key] = job
        for task in job.tasks.values():
            self.ledger.enter(task)
        self._drop_if_unused(old)
        self._visible = None

    def _queue(self, name: QueueName) -> Queue:
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, self.axis.zeros(), self.axis.zeros())
        return queue

    def _drop_if_unused(self, queue: Queue) -> None:
        """Forget a queue that is gone, once nobody's books are kept under its name."""
        pays = any(held.queue is queue for held in self.ledger.holdings.values())
        if queue.object is None and not queue.jobs and not pays:
            del self.queues[queue.name]

    def _queue_applied(self, obj: QueueObject) -> None:
        queue = self._queue(QueueName(obj.metadata.name))
        spec = obj.spec
        if queue.object is None:
            self._visible = None
        queue.object = obj
        queue.weight = spec.weight or 1
        queue.priority = spec.priority
        queue.created = created(obj)
        queue.reclaimable = spec.reclaimable is not False
        queue.open = obj.status.state in ("", "Open")
        queue.fifo = spec.dequeue_strategy == "fifo"
        queue.parent = spec.parent
        queue.capability = self._limits(amounts(spec.capability)) if spec.capability else None
        queue.guarantee = self.axis.vector(amounts(spec.guarantee.resource)) if spec.guarantee.resource else None
        queue.deserved = self.axis.vector(amounts(spec.deserved)) if spec.deserved else None

    def _limits(self, stated: dict[str, int]) -> Vector:
        """A capability: what is not stated, or stated as nothing for CPU and memory, is no limit."""
        real = {name: amount for name, amount in stated.items() if amount > 0 or name not in ("cpu", "memory")}
        return self.axis.vector(real, missing=UNLIMITED)

    def _namespace(self, name: str) -> NamespaceInfo:
        info = self.namespaces.get(name)
        if info is None:
            info = self.namespaces[name] = NamespaceInfo(name)
        return info

    def _priority(self, class_name: str) -> int:
        if class_name:
            named = self.priority_classes.get(class_name)
            if named is not None:
                return named.value
        defaults = [c.value for c in self.priority_classes.values() if c.global_default]
        return max(defaults, default=0)

    # -- widths -------------------------------------------------------------------------------------------------

    def _widen(self) -> None:
        """The axis outgrew its width: pad everything that holds a vector. Rare, so simple."""
        pad = self.axis.pad
        self._width = self.axis.width
        self.ledger.table.widen()
        for shape in self.shapes:
            shape.request = pad(shape.request)
        for job in self.jobs.values():
            job.allocated = pad(job.allocated)
            if job.min_resources is not None:
                job.min_resources = pad(job.min_resources)
        for queue in self.queues.values():
            queue.allocated = pad(queue.allocated)
            queue.wanted = pad(queue.wanted)
            queue.by_namespace = {ns: pad(amount) for ns, amount in queue.by_namespace.items()}
            if queue.capability is not None:
                queue.capability = pad(queue.capability, missing=UNLIMITED)
            if queue.guarantee is not None:
                queue.guarantee = pad(queue.guarantee)
            if queue.deserved is not None:
                queue.deserved = pad(queue.deserved)
        for holding in self.ledger.holdings.values():
            holding.remainder = pad(holding.remainder)
        self.ledger.drawn = {name: pad(amount) for name, amount in self.ledger.drawn.items()}
        self._total = None

    # -- out ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Undo what the last session only tried, and hand out what is so."""
        self._lay_out()
        self.ledger.restore()
        self.ledger.log.clear()
        if self._priorities_changed:
            self._priorities_changed = False
            for job in self.jobs.values():
                if job.object is not None:
                    job.priority = self._priority(job.object.spec.priority_class_name)
        if self._total is None:
            table = self.ledger.table
            self._total = np.asarray(table.allocatable[table.ready].sum(axis=0), dtype=np.int64)
            self._total[PODS] = 0
        if self._visible is None:
            visible = (j for j in self.jobs.values() if j.object is not None and j.queue.object is not None)
            self._visible = sorted(visible, key=lambda job: job.key)
        queues = {name: self.queues[name] for name in sorted(self.queues) if self.queues[name].object is not None}
        return Snapshot(
            self.ledger, self._visible, queues, self.namespaces, self.budgets, self.reservations, self._total
        )

    def validate(self) -> None:
        """Every invariant of the ledger, checked against a rebuild. For tests, and for a doubt in the field."""
        self._lay_out()
        self.ledger.validate(self.tasks.values(), list(self.jobs.values()), list(self.queues.values()))
        for task in self.tasks.values():
            if task.job is not None:
                assert task.job.tasks.get(task.key) is task, f"{task} is not among the tasks of its job"
        for job in self.jobs.values():
            assert job.queue.jobs.get(job.key) is job, f"{job} is not among the jobs of its queue"
        ordered = [node.name for node in self.ledger.table.nodes]
        assert ordered == sorted(self.nodes), "rows are not in the order of names"


def _backfills(task: Task, pod: Pod) -> bool:
    """Whether it runs on lent room. While our bind is on its way the pod does not say so yet, but we have decided."""
    return is_backfill(pod) or (task.backfill and task.true_status is Status.BINDING)
