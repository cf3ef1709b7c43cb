"""The scheduler's view of the cluster, built from events.

`Cluster.apply(event)` is the only way in, and `Cluster.snapshot()` the only way out to a session. There is one set of
columns: a session moves tasks on it tentatively, and the next snapshot undoes what the session did not settle. So the
cost of a snapshot follows what changed (by events, or tentatively by the last session), not the size of the cluster.

Events must be applied only between sessions. A caller whose events arrive on another thread keeps them until the cycle
is over.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from stromboli.api import (
    HyperNode,
    KObject,
    Namespace,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Reservation,
    ResourceQuota,
    key,
    names,
)
from stromboli.api import Node as NodeObject
from stromboli.api import Queue as QueueObject
from stromboli.api.quantity import amounts
from stromboli.api.upstream import UpstreamGroup, translated
from stromboli.containment import ObjectRef

from . import events
from .events import Applied, BindFailed, ClusterEvent, Deleted, EvictFailed, ReservationWriteFailed, UngateFailed
from .ledger import Ledger
from .ledger_validation import validate_ledger
from .model import Job, JobKey, NamespaceInfo, Node, QueueName, TaskKey
from .object_fields import is_ready, namespace_weight
from .object_warnings import ObjectWarning, ObjectWarnings
from .queue_index import QueueIndex
from .relevance import is_relevant
from .reservations import ListedUsers, ReservationIndex
from .resources import PODS, ResourceAxis, Vector
from .shapes import ShapeRegistry
from .snapshot import Snapshot
from .task_index import TaskIndex
from .topology import Topology
from .upstream import UpstreamIndex
from .volumes import VolumeIndex
from .withdrawal import Withdrawal, WithdrawnObject, remainder


class Cluster:
    def __init__(self, *, scheduler_name: str | None = None) -> None:
        """`scheduler_name`: whose pending pods to schedule; None means all of them."""
        self.axis = ResourceAxis()
        self.ledger = Ledger(self.axis)
        self.nodes: dict[str, Node] = {}
        self.namespaces: dict[str, NamespaceInfo] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.quotas: dict[str, ResourceQuota] = {}  # those that give a weight
        self.volumes = VolumeIndex()
        self.topology = Topology(lambda: [(node.name, node.labels) for node in self.ledger.table.nodes])
        self._warnings = ObjectWarnings()
        self._shapes = ShapeRegistry(self.axis)
        self._queues = QueueIndex(self.axis, self.ledger, self._warnings)
        listed = ListedUsers()
        self._tasks = TaskIndex(
            self._shapes, self.ledger, self.nodes, self._queues,
            volumes=self.volumes, listed=listed, scheduler_name=scheduler_name,
        )  # fmt: skip
        self.upstream = UpstreamIndex(self._queues, self._tasks.tasks, self.namespaces)
        self.upstream.regroup = self._tasks.regroup
        self._tasks.job_of = self.upstream.job_of
        self._reservations = ReservationIndex(
            self._shapes, self.ledger, self.nodes, self._tasks.tasks, self._queues,
            listed=listed, scheduler_name=scheduler_name,
        )  # fmt: skip
        self.jobs = self._queues.jobs
        self.queues = self._queues.queues
        self.tasks = self._tasks.tasks
        self.reservations = self._tasks.reservations
        self._columns = self.axis.changes
        self._withdrawal = Withdrawal()
        self._layout_changed = False
        self._total: Vector | None = None

    # -- in -----------------------------------------------------------------------------------------------------

    def apply(self, event: ClusterEvent) -> None:
        if isinstance(event, Applied | Deleted):
            obj = translated(event.object)
            if obj is not event.object:
                event = Applied(obj) if isinstance(event, Applied) else Deleted(obj)
            if self._withdrawal and self._withdrawal.keeps(event):
                return  # it is put aside
        if not isinstance(event, Applied) or is_relevant(self._known(event.object), event.object):
            self.ledger.changes += 1
            self.ledger.node_changes += isinstance(event, Applied | Deleted) and isinstance(event.object, NodeObject)
        elif not isinstance(event.object, NodeObject):
            self.ledger.status_changes += 1
        match event:
            case Applied(obj):
                self._apply_object(obj)
            case Deleted(obj):
                self._delete_object(obj)
            case BindFailed():
                self._tasks.bind_failed(event)
            case EvictFailed(task_key):
                self._tasks.evict_failed(task_key)
            case ReservationWriteFailed(name):
                self._reservations.write_failed(name)
            case UngateFailed(task_key):
                self._tasks.ungate_failed(task_key)
            case events.NodesMeasured(use):
                self.ledger.table.use = use
        self._change_columns()

    def _known(self, obj: KObject) -> KObject | None:
        """The version of an object that is known; None if it is new, or of a kind whose versions are not kept."""
        match obj:
            case Pod():
                task = self.tasks.get(TaskKey(key(obj)))
                return None if task is None else task.pod
            case PodGroup():
                job = self.jobs.get(JobKey(key(obj)))
                group = self._group(JobKey(key(obj)))
                if job is None or job.object is None or group is None:
                    return group
                # Sessions decide about the phase, and it counts as a change then, not when it is written.
                return replace(group, status=replace(group.status, phase=job.phase))
            case NodeObject():
                node = self.nodes.get(obj.metadata.name)
                return None if node is None else node.object
            case QueueObject():
                queue = self.queues.get(QueueName(obj.metadata.name))
                return None if queue is None else queue.object
            case Reservation():
                return self.reservations.get(obj.metadata.name)
            case HyperNode():
                return self.topology.known(obj.metadata.name)
            case _:
                return None

    def _apply_object(self, obj: KObject) -> None:
        match obj:
            case Pod():
                self._tasks.apply_pod(obj)
                self.upstream.pod_changed(obj, ours=self._tasks.is_ours(obj))
            case UpstreamGroup():
                self.upstream.apply(obj)
            case PodGroup():
                self._queues.apply_group(obj)
            case NodeObject():
                self._apply_node(obj)
            case QueueObject():
                self._queues.apply_queue(obj)
            case Namespace():
                self._apply_namespace(obj.metadata.name, obj.metadata.labels, obj.metadata.annotations)
            case ResourceQuota():
                self._apply_quota(obj)
            case PodDisruptionBudget():
                self.budgets[key(obj)] = obj
            case PriorityClass():
                self._queues.apply_priority_class(obj)
            case Reservation():
                self._tasks.apply_reservation(obj)
                self._reservations.apply(obj)
            case HyperNode():
                self.topology.apply(obj)
            case _:
                # Of other kinds only those about volumes are kept. Of Jobs and ReplicaSets the scheduler reads only the
                # pods and groups that controllers create.
                self.volumes.apply(obj)

    def _delete_object(self, obj: KObject) -> None:
        match obj:
            case Pod():
                self._tasks.delete_pod(TaskKey(key(obj)))
                self.upstream.pod_deleted(obj)
            case UpstreamGroup():
                self.upstream.delete(JobKey(key(obj)))
            case PodGroup():
                self._queues.delete_group(JobKey(key(obj)))
            case NodeObject():
                self._delete_node(obj.metadata.name)
            case QueueObject():
                self._unlock_nodes_of(QueueName(obj.metadata.name))
                self._queues.delete_queue(QueueName(obj.metadata.name))
            case Namespace():
                self._apply_namespace(obj.metadata.name, {}, {})
            case ResourceQuota():
                self._namespace(obj.metadata.namespace).quotas.pop(obj.metadata.name, None)
                self._namespace(obj.metadata.namespace).weights.pop(obj.metadata.name, None)
                self.quotas.pop(key(obj), None)
                self._warnings.withdraw("ResourceQuota", key(obj))
            case PodDisruptionBudget():
                self.budgets.pop(key(obj), None)
            case PriorityClass():
                self._queues.delete_priority_class(obj.metadata.name)
            case Reservation():
                self._tasks.delete_reservation(obj.metadata.name)
                self._reservations.delete(obj.metadata.name)
            case HyperNode():
                self.topology.delete(obj.metadata.name)
            case _:
                self.volumes.delete(obj)

    def _apply_namespace(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        info = self._namespace(name)
        info.labels = dict(labels)
        queue = annotations.get(names.QUEUE_NAME, "")
        if queue != info.queue:
            info.queue = queue
            self.upstream.namespace_changed(name)

    def _apply_quota(self, obj: ResourceQuota) -> None:
        info = self._namespace(obj.metadata.namespace)
        info.quotas[obj.metadata.name] = obj
        weights = info.weights
        quota_key = key(obj)
        weights.pop(obj.metadata.name, None)
        self.quotas.pop(quota_key, None)
        if names.NAMESPACE_WEIGHT not in obj.spec.hard:
            self._warnings.withdraw("ResourceQuota", quota_key)
            return
        self.quotas[quota_key] = obj
        value = obj.spec.hard[names.NAMESPACE_WEIGHT]
        weight = namespace_weight(value)
        weights[obj.metadata.name] = weight or 1
        if weight is None:
            self._warnings.report(ObjectWarning("ResourceQuota", quota_key, str(value)))
        else:
            self._warnings.withdraw("ResourceQuota", quota_key)

    def _namespace(self, name: str) -> NamespaceInfo:
        info = self.namespaces.get(name)
        if info is None:
            info = self.namespaces[name] = NamespaceInfo(name)
        return info

    # -- what is put aside --------------------------------------------------------------------------------------

    @property
    def put_aside(self) -> Mapping[ObjectRef, WithdrawnObject]:
        """Objects that are withdrawn, as they are now."""
        return self._withdrawal.objects

    def set_aside(self, refs: Mapping[ObjectRef, bool]) -> None:
        """Withdraw these objects, and no others: decide as if they did not exist. Pods of a withdrawn group that have a
        node keep their room. A withdrawn Reservation keeps what it holds, for nobody, unless the value is True."""
        if not refs and not self._withdrawal:
            return
        for ref, withdrawn in [*self._withdrawal.objects.items()]:
            if refs.get(ref) != withdrawn.entirely:
                del self._withdrawal.objects[ref]
                self._mark_put_aside(ref, False)
                self.apply(Applied(withdrawn.object))
        for ref, entirely in refs.items():
            obj = None if ref in self._withdrawal.objects else self._object(ref)
            if obj is not None:
                remains = remainder(obj) if not entirely else None
                self.apply(Deleted(obj) if remains is None else Applied(remains))
                self._withdrawal.objects[ref] = WithdrawnObject(obj, entirely)
            self._mark_put_aside(ref, True)

    def _object(self, ref: ObjectRef) -> KObject | None:
        match ref.kind:
            case "PodGroup":
                return self._group(JobKey(ref.key))
            case "Queue":
                queue = self.queues.get(QueueName(ref.key))
                return None if queue is None else queue.object
            case "Reservation":
                return self.reservations.get(ref.key)
            case _:
                return None

    def _group(self, job_key: JobKey) -> PodGroup | None:
        upstream = self.upstream.groups.get(job_key)
        job = self.jobs.get(job_key)
        return upstream or (None if job is None else job.object)

    def _mark_put_aside(self, ref: ObjectRef, put_aside: bool) -> None:
        job = self.jobs.get(JobKey(ref.key)) if ref.kind == "PodGroup" else None
        if job is not None:
            job.put_aside = put_aside

    # -- nodes --------------------------------------------------------------------------------------------------

    def _apply_node(self, obj: NodeObject) -> None:
        name = obj.metadata.name
        node = self.nodes.get(name)
        self._total = None
        if node is None:
            node = Node(name, obj, -1, {}, True, True, {})  # the next snapshot assigns its row
            self.nodes[name] = node
            self._layout_changed = True
        node.object = obj
        if node.labels != obj.metadata.labels:
            node.labels = dict(obj.metadata.labels)
            self.topology.nodes_changed()
        node.ready = is_ready(obj)
        node.schedulable = not obj.spec.unschedulable
        node.allocatable = amounts(obj.status.allocatable or obj.status.capacity)
        self.axis.use("Node", name, node.allocatable)
        if node.row >= 0:
            self._change_columns()
            self.ledger.table.set_nodes([node])
            self.ledger.log.append(node.row)
            if node.lock is not None:  # it counts as what it offers now
                self.ledger.lock(node, node.lock.owner, node.lock.opens_to)

    def _delete_node(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is None:
            return
        self.axis.use("Node", name, ())
        self._tasks.node_deleted(node)
        self.ledger.lock(node, None)
        for reservation in [name for name, holding in self.ledger.holdings.items() if holding.node is node]:
            self.ledger.set_holding(reservation, None)
        self._layout_changed = True
        self._total = None

    def _unlock_nodes_of(self, queue: QueueName) -> None:
        for node in list(self.ledger.locked.values()):
            if node.lock is not None and node.lock.owner.name == queue:
                self.ledger.lock(node, None)

    def _assign_rows(self) -> bool:
        """Give new nodes their rows and close the gaps of deleted ones, all at once: on start-up with thousands of
        nodes the columns would otherwise shift thousands of times. Returns whether rows have changed."""
        if not self._layout_changed:
            return False
        self._layout_changed = False
        self.ledger.table.lay_out(self.nodes.values())
        self.topology.nodes_changed()
        self._tasks.rows_assigned()
        return True

    # -- columns ------------------------------------------------------------------------------------------------

    def _change_columns(self) -> None:
        """If columns came or went, pad everything that holds a vector, and read again what asks for one of them. Rare,
        as only nodes and Reservations make columns; so simple."""
        if self.axis.changes == self._columns:
            return
        self._columns = self.axis.changes
        self.ledger.widen()
        self._shapes.widen()
        self._queues.widen()
        self._reservations.widen()
        self._queues.columns_changed()
        if stale := self._shapes.forget_stale():
            self._tasks.columns_changed(stale)
            self._reservations.columns_changed(stale)
        self.ledger.node_changes += 1  # what was found out about shapes and nodes is about other columns
        self._total = None

    # -- out ----------------------------------------------------------------------------------------------------

    def warning_about(self, kind: str, key: str) -> ObjectWarning | None:
        """What is wrong with an object, as of the last snapshot."""
        return self._warnings.current(kind, key)

    def snapshot(self) -> Snapshot:
        """Undo the tentative changes of the last session, and return the present state."""
        new_rows = self._assign_rows()
        self.ledger.restore()
        self.upstream.refresh()
        self._reservations.refresh(everywhere=new_rows)
        self.ledger.log.clear()
        self.ledger.task_log.clear()
        self.ledger.queue_log.clear()
        self._queues.refresh_queues(list(self.ledger.changed_jobs.values()))
        self._queues.refresh_priorities()
        self._queues.refresh_guarantees(self._is_offered)
        if self._total is None:
            table = self.ledger.table
            self._total = np.asarray(table.allocatable[table.ready].sum(axis=0), dtype=np.int64)
            self._total[PODS] = 0
        return Snapshot(
            self.ledger,
            self._queues.visible_jobs(),
            self._queues.active_jobs(),
            self._queues.existing_queues(),
            self.namespaces,
            self.budgets,
            self.reservations,
            self._total,
            self._divisible,
            self._warnings.take_new,
            self._waiting_stand_ins(),
            self._reservations.priority_of,
            self._reservations.least_priority_of,
            self._reservations.expire,
            self._reservations.lists_users,
            self._reservations.former_users,
            self._reservations.hold_on,
            self.volumes,
            self.topology,
            has_pod_terms=bool(self._shapes.with_pod_terms),
        )

    def _divisible(self) -> Vector:
        """What the queues that exist divide. Pods of other schedulers, static pods and pods of queues that are gone use
        the rest, or it is idle on nodes that take no pods."""
        divisible = self.ledger.table.free_to_divide()
        for queue in self.queues.values():
            if queue.object is not None:
                divisible += queue.occupied
        divisible += self._reservations.free_of_charge()
        divisible[PODS] = 0
        return divisible

    def _is_offered(self, resource: str) -> bool:
        column = self.axis.index.get(resource)
        return column is not None and bool(self.ledger.table.allocatable[:, column].any())

    def _waiting_stand_ins(self) -> list[Job]:
        jobs = self._reservations.jobs
        return [jobs[name] for name in sorted(jobs) if jobs[name].queue.object is not None]

    def reservations_without_queue(self) -> list[Reservation]:
        """Those that wait for a node and name a queue that does not exist."""
        jobs = self._reservations.jobs
        return [self.reservations[name] for name in sorted(jobs) if jobs[name].queue.object is None]

    def validate(self) -> None:
        """Check every invariant, the ledger against a rebuild. For tests, and for diagnosing a suspected error."""
        self._assign_rows()
        stand_ins = list(self._reservations.jobs.values())
        tasks = [*self.tasks.values(), *(task for job in stand_ins for task in job.tasks.values())]
        validate_ledger(self.ledger, tasks, [*self.jobs.values(), *stand_ins], list(self.queues.values()))
        for task in self.tasks.values():
            if task.job is not None:
                assert task.job.tasks.get(task.key) is task, f"{task} is not among the tasks of its job"
        active = {job.key for job in self.ledger.active_jobs()}
        for job in self.jobs.values():
            assert job.is_at_rest or job.key in active, f"{job} is not at rest, and would be overlooked"
            listed = job.queue.jobs.get(job.key) is job
            assert listed or job.is_over, f"{job} is not among the jobs of its queue"
        ordered = [node.name for node in self.ledger.table.nodes]
        assert ordered == sorted(self.nodes), "rows are not in the order of names"
