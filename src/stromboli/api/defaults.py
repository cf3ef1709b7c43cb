"""Default values of fields that the user left out.

An API server with Volcano's webhooks sets them before anybody sees the object. A simulation has neither, and the rest
of the program must not depend on where it runs, so the same defaults are set here when an object is decoded. Setting
them twice changes nothing.
"""

from __future__ import annotations

from .kinds import CLUSTER_SCOPED, KObject
from .kinds.apps import DaemonSet, Deployment, DeploymentSpec, ReplicaSet, RollingUpdateDeployment, StatefulSet
from .kinds.batch import CronJob, CronJobSpec, Job, JobSpec, PodGroup, Queue, Reservation, TaskSpec
from .kinds.core import Node
from .kinds.flow import JobTemplate
from .kinds.jobs import BatchCronJob, BatchCronJobSpec, BatchJob, BatchJobSpec
from .kinds.pods import Pod, PodSpec
from .names import DEFAULT_NAMESPACE, DEFAULT_QUEUE, DEFAULT_SCHEDULER

MAX_RETRY = 3
RESERVATION_TTL = "24h"
SUCCESSFUL_JOBS = 3  # that a CronJob keeps
FAILED_JOBS = 1
BACKOFF_LIMIT = 6  # failed pods of a Job of batch/v1
REVISIONS = 10  # that a Deployment keeps besides the present one
PROGRESS_DEADLINE = 600  # seconds
PART_OF_PODS = "25%"  # that may be too many or unavailable while a Deployment is updated


def default(obj: KObject) -> None:
    """Set the defaults of an object, in place."""
    if type(obj) in CLUSTER_SCOPED:
        obj.metadata.namespace = ""
    elif not obj.metadata.namespace:
        obj.metadata.namespace = DEFAULT_NAMESPACE
    match obj:
        case Pod():
            _pod_spec(obj.spec)
        case Node():
            _node(obj)
        case ReplicaSet() | StatefulSet() | DaemonSet():
            _pod_spec(obj.spec.template.spec)
        case Deployment():
            _deployment(obj.spec)
        case BatchJob():
            _batch_job(obj.spec)
        case BatchCronJob():
            _cron_schedule(obj.spec)
            _batch_job(obj.spec.job_template.spec)
        case Queue():
            _queue(obj)
        case PodGroup():
            obj.spec.queue = obj.spec.queue or DEFAULT_QUEUE
        case Job():
            _job(obj.spec)
        case CronJob():
            _cron_job(obj.spec)
        case JobTemplate():
            _job_template(obj.spec)
        case Reservation():
            _reservation(obj)


def _pod_spec(spec: PodSpec) -> None:
    if spec.host_network:
        for container in spec.containers:
            for port in container.ports:
                # With hostNetwork a container that listens on a port occupies that port of the node.
                port.host_port = port.host_port or port.container_port


def _node(node: Node) -> None:
    if not node.status.allocatable:
        node.status.allocatable = dict(node.status.capacity)


def _deployment(spec: DeploymentSpec) -> None:
    spec.strategy.type = spec.strategy.type or "RollingUpdate"
    if spec.strategy.type == "RollingUpdate":
        rolling = spec.strategy.rolling_update or RollingUpdateDeployment()
        rolling.max_surge = PART_OF_PODS if rolling.max_surge is None else rolling.max_surge
        rolling.max_unavailable = PART_OF_PODS if rolling.max_unavailable is None else rolling.max_unavailable
        spec.strategy.rolling_update = rolling
    if spec.revision_history_limit is None:
        spec.revision_history_limit = REVISIONS
    if spec.progress_deadline_seconds is None:
        spec.progress_deadline_seconds = PROGRESS_DEADLINE
    _pod_spec(spec.template.spec)


def _queue(queue: Queue) -> None:
    spec = queue.spec
    spec.weight = spec.weight or 1
    spec.reclaimable = True if spec.reclaimable is None else spec.reclaimable
    spec.dequeue_strategy = spec.dequeue_strategy or "traverse"


def _batch_job(spec: BatchJobSpec) -> None:
    """Neither completions nor parallelism given: one pod. Only parallelism: a work queue, which has no completions."""
    if spec.completions is None and spec.parallelism in (None, 1):
        spec.completions = 1
    spec.parallelism = 1 if spec.parallelism is None else spec.parallelism
    spec.backoff_limit = BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
    spec.completion_mode = spec.completion_mode or "NonIndexed"
    spec.suspend = bool(spec.suspend)
    _pod_spec(spec.template.spec)


def _cron_job(spec: CronJobSpec) -> None:
    _cron_schedule(spec)
    _job(spec.job_template.spec)


def _cron_schedule(spec: CronJobSpec | BatchCronJobSpec) -> None:
    spec.concurrency_policy = spec.concurrency_policy or "Allow"
    spec.suspend = bool(spec.suspend)
    if spec.successful_jobs_history_limit is None:
        spec.successful_jobs_history_limit = SUCCESSFUL_JOBS
    if spec.failed_jobs_history_limit is None:
        spec.failed_jobs_history_limit = FAILED_JOBS


def _job_template(spec: JobSpec) -> None:
    """What does not depend on other fields: a flow may change those in its Job."""
    spec.queue = spec.queue or DEFAULT_QUEUE
    spec.scheduler_name = spec.scheduler_name or DEFAULT_SCHEDULER
    spec.max_retry = spec.max_retry or MAX_RETRY  # 0 means the default, as in Volcano
    for task in spec.tasks:
        task.max_retry = task.max_retry or MAX_RETRY


def _job(spec: JobSpec) -> None:
    _job_template(spec)
    total = 0
    for index, task in enumerate(spec.tasks):
        task.name = task.name or f"default{index}"
        task.min_available = task_minimum(task)
        total += task.min_available
        _pod_spec(task.template.spec)
    spec.min_available = total if spec.min_available is None else spec.min_available


def task_minimum(task: TaskSpec) -> int:
    """How many pods of a task start together: all, or those of so many partitions, unless it says so."""
    if task.min_available is not None:
        return task.min_available
    partitions = task.partition_policy
    if partitions is not None and partitions.min_partitions:
        return partitions.min_partitions * partitions.partition_size
    return task.replicas


def _reservation(reservation: Reservation) -> None:
    spec = reservation.spec
    spec.ttl = RESERVATION_TTL if spec.ttl is None else spec.ttl
    spec.allocate_once = False if spec.allocate_once is None else spec.allocate_once
    if spec.template is not None:
        _pod_spec(spec.template.spec)
