"""Tasks: pods as the scheduler sees them, and the waiting Reservations that reserve nodes for them.

A pod may be bound to a node that has no row in the ledger yet, because the node is unknown or was added since the last
snapshot. Such a task is recorded under the name of its node and put there as soon as the node has a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stromboli.api import Pod, Reservation, awaits_queue, is_backfill, key, opts_in_to_queue_gate
from stromboli.api.validation import limits
from stromboli.api.volumes.pod_volumes import NO_VOLUMES, pod_volumes
from stromboli.api.waiting_reservations import reserved_node_of, waiting_pod_of

from .events import BindFailed
from .ledger import Ledger
from .model import JobKey, Node, Status, Task, TaskKey
from .object_fields import (
    creation_time,
    ends_by_itself,
    group_of,
    index_of,
    is_preemptable,
    refusals_of,
    role_of,
    status_of,
    task_priority,
    why_it_waits,
)
from .queue_index import QueueIndex
from .refused_bind import RefusedBind, read_refusals
from .reservations.listed_users import ListedUsers
from .shapes import ShapeRegistry, is_same_shape
from .volumes import VolumeIndex, former_hold

_ALIVE = frozenset({Status.BOUND, Status.RUNNING, Status.UNKNOWN})


class TaskIndex:
    def __init__(
        self,
        shapes: ShapeRegistry,
        ledger: Ledger,
        nodes: Mapping[str, Node],
        groups: QueueIndex,
        *,
        volumes: VolumeIndex,
        listed: ListedUsers,
        scheduler_name: str | None,
    ) -> None:
        self.tasks: dict[TaskKey, Task] = {}
        self.reservations: dict[str, Reservation] = {}
        self.job_of: Callable[[JobKey], JobKey] = lambda group: group  # that the pods of a group are in
        self._shapes = shapes
        self._ledger = ledger
        self._nodes = nodes
        self._groups = groups
        self._volumes = volumes
        self._listed = listed
        self._scheduler_name = scheduler_name
        self._reserved_nodes: dict[TaskKey, str] = {}  # the node that a waiting Reservation reserves for a task
        self._without_row: dict[str, dict[TaskKey, Task]] = {}  # tasks on nodes without a row, by node name

    # -- pods ---------------------------------------------------------------------------------------------------

    def apply_pod(self, pod: Pod) -> None:
        task_key = TaskKey(key(pod))
        task = self.tasks.get(task_key)
        if task is not None and task.uid != pod.metadata.uid:
            self.delete_pod(task_key)
            task = None
        if not pod.spec.node_name and not self.is_ours(pod):
            self.delete_pod(task_key)
            return
        former = None
        if task is None:
            task = self._new_task(task_key, pod)
            former = former_hold(pod)
            if former is not None:
                self._ledger.formerly_held[task_key] = former
        else:
            self._refresh_task(task, pod)
        if pod.spec.node_name or task.true_status is not Status.BINDING:
            self._ledger.set_use(task, self._listed.used_by(pod) if former is None else former.uses)
        status = status_of(pod)
        if status is Status.PENDING and task.true_status in (Status.BINDING, Status.RESERVED):
            return  # this version of the pod is older than our bind (or the Reservation)
        if task.true_status is Status.RELEASING and task.true_node is not None and status in _ALIVE:
            return  # this version of the pod is older than our eviction; EvictFailed reports a failure
        if task.refused is not None and status is not Status.PENDING:
            task.refused = None
            del self._ledger.refused_binds[task_key]
            self._ledger.refused_again = 0
        self._settle(task, status)

    def delete_pod(self, task_key: TaskKey) -> None:
        task = self.tasks.pop(task_key, None)
        if task is None:
            return
        self._ledger.leave(task)
        self._ledger.release(task)
        if task.volumes is not NO_VOLUMES or task.pod.spec.resource_claims:
            self._volumes.remove(task)
        self._ledger.tentative.pop(task_key, None)
        self._ledger.nominated.pop(task_key, None)
        self._ledger.formerly_held.pop(task_key, None)
        self._ledger.refused_binds.pop(task_key, None)
        self._ledger.queue_gated.pop(task_key, None)
        self._ledger.set_use(task, "")
        for tasks in self._without_row.values():
            tasks.pop(task_key, None)
        if task.job is not None:
            del task.job.tasks[task_key]
            task.job.memo.clear()
            self._groups.drop_if_empty(task.job)

    def bind_failed(self, failed: BindFailed) -> None:
        task = self.tasks.get(failed.task)
        if task is not None:
            self._volumes.selection_failed(task)
        if task is not None and task.true_status is Status.BINDING:
            if failed.node:
                self._ledger.refused_again += task.refused is not None
                task.refused = task.refused or RefusedBind()
                task.refused.add(failed.node, failed.why, failed.at, by_volumes=failed.by_volumes)
                self._ledger.refused_binds[task.key] = task
            self._ledger.set_use(task, "")
            self._ledger.settle(task, Status.PENDING, None)
            self._refresh_task(task, task.pod)  # it does not run on lent resources, either
            job = task.job
            if job is not None and job.phase == "Running" and job.ready_count < job.min_available:
                self._ledger.set_phase(job, "Inqueue")  # it was admitted, and that was not refused

    def evict_failed(self, task_key: TaskKey) -> None:
        task = self.tasks.get(task_key)
        if task is not None and task.true_status is Status.RELEASING:
            self._ledger.settle(task, status_of(task.pod), task.true_node)

    def ungate_failed(self, task_key: TaskKey) -> None:
        task = self.tasks.get(task_key)
        if task is not None:
            task.ungated = False

    def is_ours(self, pod: Pod) -> bool:
        return self._scheduler_name is None or pod.spec.scheduler_name == self._scheduler_name

    def _group_of(self, pod: Pod) -> JobKey | None:
        """Pods that another scheduler placed only occupy their nodes. They are in no group and no queue, whatever they
        say about themselves."""
        group = group_of(pod) if self.is_ours(pod) else None
        return None if group is None else self.job_of(group)

    def regroup(self, task: Task) -> None:
        """Its group has become part of another job."""
        self._refresh_task(task, task.pod)

    def _settle(self, task: Task, status: Status) -> None:
        node_name = task.pod.spec.node_name
        without_row = self._without_row.get(node_name)
        if without_row is not None:
            without_row.pop(task.key, None)
        if status is Status.PENDING and task.key in self._reserved_nodes:
            status, node_name = Status.RESERVED, self._reserved_nodes[task.key]
        if status in (Status.SUCCEEDED, Status.FAILED) or not node_name:
            self._ledger.settle(task, status, None)
            return
        node = self._nodes.get(node_name)
        if node is None or node.row < 0:
            node = None
            self._without_row.setdefault(node_name, {})[task.key] = task
        self._ledger.settle(task, status, node)

    def _new_task(self, task_key: TaskKey, pod: Pod) -> Task:
        """Raises an ApiError about a waiting pod that is above a limit. One that has a node uses it, anyway."""
        if not pod.spec.node_name:
            limits.check_pod(pod)
        shape = self._shapes.of(pod)
        meta = pod.metadata
        task = Task(
            key=task_key, name=meta.name, namespace=meta.namespace, uid=meta.uid, pod=pod, shape=shape,
            job=None, priority=0, role="", index=index_of(meta.name),
            created=creation_time(pod), preemptable=True, may_preempt=True, gated=False, backfill=False, nominated="",
        )  # fmt: skip
        self.tasks[task_key] = task
        if pod.spec.volumes or pod.spec.resource_claims:
            task.volumes = pod_volumes(pod)
            task.claim = task.volumes.only
            self._volumes.add(task)
        self._read_pod(task, pod)
        self._join_group(task, self._group_of(pod))
        self._ledger.enter(task)
        # Only the scheduler writes nominations, so the pod's is read just once: to survive a restart.
        self._ledger.nominate(task, "" if pod.spec.node_name else pod.status.nominated_node_name)
        if refusals := refusals_of(pod):  # the same
            task.refused = read_refusals(refusals)
            if task.refused is not None:
                self._ledger.refused_binds[task_key] = task
        return task

    def _refresh_task(self, task: Task, pod: Pod) -> None:
        """Read a new version of a known pod. The fields that the ledger counts by must not change while the task is
        in the ledger."""
        if task.job is not None:
            task.job.memo.clear()
        shape = task.shape if is_same_shape(pod.spec, task.pod.spec) else self._shapes.of(pod)
        group = self._group_of(pod)
        same_group = group is None if task.job is None else task.job.key == group
        counted = (bool(pod.spec.scheduling_gates), role_of(pod), _runs_as_backfill(task, pod))
        if shape is task.shape and same_group and counted == (task.gated, task.role, task.backfill):
            self._read_pod(task, pod)
            return
        if not same_group and task.key in self._ledger.held:
            self._ledger.settle(task, Status.PENDING, None)  # it was placed as a member of its former group
        self._ledger.leave(task)
        if task.job is not None and not same_group:
            job, task.job = task.job, None
            del job.tasks[task.key]
            self._groups.drop_if_empty(job)
        task.shape = shape
        self._read_pod(task, pod)
        if task.job is None:
            self._join_group(task, group)
        self._ledger.enter(task)

    def _read_pod(self, task: Task, pod: Pod) -> None:
        _read_pod(task, pod)
        if opts_in_to_queue_gate(pod.metadata.annotations) and not pod.spec.node_name:
            self._ledger.queue_gated[task.key] = task
            task.ungated = task.ungated and task.awaits_queue
        elif self._ledger.queue_gated.pop(task.key, None) is not None:
            task.ungated = False

    def columns_changed(self, stale: frozenset[int]) -> None:
        """Read the requests with these shapes again: they name resources that became columns, or ceased to be."""
        for task in self.tasks.values():
            if task.shape.id in stale:
                self._ledger.leave(task)
                task.shape = self._shapes.of(task.pod)
                self._ledger.enter(task)
                if task.job is not None:
                    task.job.memo.clear()

    def _join_group(self, task: Task, group: JobKey | None) -> None:
        if group is not None:
            task.job = self._groups.job(group)
            task.job.tasks[task.key] = task
            task.job.memo.clear()

    # -- nodes --------------------------------------------------------------------------------------------------

    def rows_assigned(self) -> None:
        """Put tasks on their nodes that have a row now."""
        placed: list[tuple[Task, Node]] = []
        for name in sorted(self._without_row):
            node = self._nodes.get(name)
            if node is not None:
                for _, task in sorted(self._without_row.pop(name).items()):
                    # Its reservation may have been deleted meanwhile, and it may even run on another node by now.
                    if task.true_status is not Status.PENDING and task.true_node is None:
                        placed.append((task, node))
        self._ledger.rows_assigned(placed)

    def node_deleted(self, node: Node) -> None:
        # The last session may have promised another node to a task that this one is reserved for.
        moved = {key: task for key, task in self._ledger.tentative.items() if task.true_node is node}
        for task_key, task in sorted({**node.tasks, **moved}.items()):
            if task.true_node is node:
                self._without_row.setdefault(node.name, {})[task_key] = task
                self._ledger.settle(task, task.true_status, None)
            else:
                self._ledger.move(task, task.true_status, task.true_node)

    # -- reservations -------------------------------------------------------------------------------------------

    def apply_reservation(self, obj: Reservation) -> None:
        self.delete_reservation(obj.metadata.name)
        self.reservations[obj.metadata.name] = obj
        waiting_pod = waiting_pod_of(obj)
        if waiting_pod is not None:
            task_key = TaskKey(waiting_pod)
            self._reserved_nodes[task_key] = reserved_node_of(obj)
            task = self.tasks.get(task_key)
            if task is not None and task.true_status is Status.PENDING:
                self._settle(task, Status.PENDING)

    def delete_reservation(self, name: str) -> None:
        known = self.reservations.pop(name, None)
        waiting_pod = None if known is None else waiting_pod_of(known)
        if waiting_pod is not None:
            node_name = self._reserved_nodes.pop(TaskKey(waiting_pod), "")
            task = self.tasks.get(TaskKey(waiting_pod))
            if task is not None and task.true_status is Status.RESERVED:
                self._without_row.get(node_name, {}).pop(task.key, None)
                self._ledger.settle(task, Status.PENDING, None)


def _read_pod(task: Task, pod: Pod) -> None:
    """The fields of a pod, apart from its node and its status."""
    task.pod = pod
    task.said = why_it_waits(pod)
    task.priority = task_priority(pod)
    task.role = role_of(pod)
    task.preemptable = is_preemptable(pod)
    task.ends = ends_by_itself(pod)
    task.may_preempt = pod.spec.preemption_policy != "Never"
    task.gated = bool(pod.spec.scheduling_gates)
    task.awaits_queue = task.gated and awaits_queue(pod)
    task.backfill = _runs_as_backfill(task, pod)


def _runs_as_backfill(task: Task, pod: Pod) -> bool:
    """Whether it runs on lent resources. While our bind is in progress the pod has no annotation yet, but we have
    decided so."""
    return is_backfill(pod) or (task.backfill and task.true_status is Status.BINDING)
