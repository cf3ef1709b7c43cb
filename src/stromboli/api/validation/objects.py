"""Validation of an object, and of a change to an object, by kind.

`validate` checks an object by itself, after `default` has set its defaults. `validate_update` checks a change: some
fields are immutable once they have been acted upon.
"""

from __future__ import annotations

from stromboli.api.errors import ApiError, member_path, quote
from stromboli.api.kinds import KObject
from stromboli.api.kinds.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from stromboli.api.kinds.batch import Command, CronJob, Job, PodGroup, Queue, Reservation
from stromboli.api.kinds.core import (
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
)
from stromboli.api.kinds.flow import JobFlow, JobTemplate
from stromboli.api.kinds.jobs import BatchCronJob, BatchJob
from stromboli.api.kinds.metadata import ResourceList
from stromboli.api.kinds.pods import Pod
from stromboli.api.kinds.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from stromboli.api.kinds.topology import HyperNode
from stromboli.api.kinds.workloads import CompositePodGroup, WorkloadPodGroup
from stromboli.api.names import NAMESPACE_WEIGHT
from stromboli.api.rules import broken_rules, broken_update_rules
from stromboli.api.rules.reservations import HIGHEST_USER_PRIORITY, SYSTEM_PREFIX
from stromboli.api.validation.limits import MAX_JOB_REPLICAS

from . import rules
from .batch import check_command, check_dependencies, check_job, check_pod_group, check_queue, check_reservation
from .cron_jobs import check_batch_cron_job, check_cron_job, check_job_template
from .job_flows import as_job, check_job_flow, check_no_cycle
from .pod_owners import check_pod_owner
from .pods import PREEMPTION_POLICIES, check_pod_spec, check_taints
from .storage import check_capacity, check_claim, check_storage_class, check_volume
from .topology import check_hyper_node
from .workloads import check_group_update, check_workload_group

POD_PHASES = ("", "Pending", "Running", "Succeeded", "Failed", "Unknown")


def validate(obj: KObject, *, max_job_replicas: int = MAX_JOB_REPLICAS) -> None:
    """Raise an `ApiError` for the first field that breaks a rule. A Job may have at most `max_job_replicas` pods."""
    rules.metadata(obj.metadata, name_is_label=isinstance(obj, Namespace))
    match obj:
        case Pod():
            check_pod_spec(obj.spec, "spec")
            rules.one_of(obj.status.phase, POD_PHASES, "status.phase")
        case Node():
            _node_resources(obj.status.allocatable, "status.allocatable")
            _node_resources(obj.status.capacity, "status.capacity")
            check_taints(obj.spec.taints, "spec.taints")
        case PriorityClass():
            _priority_class(obj)
        case ResourceQuota():
            # An invalid weight counts as 1, so it must not be rejected here.
            rules.quantities(obj.spec.hard, "spec.hard", besides=(NAMESPACE_WEIGHT,))
        case PodDisruptionBudget():
            _budget(obj)
        case ReplicaSet() | StatefulSet() | Deployment() | DaemonSet() | BatchJob():
            check_pod_owner(obj)
        case Queue():
            check_queue(obj)
        case PodGroup():
            check_pod_group(obj)
        case Job() | CronJob() | BatchCronJob() | JobFlow() | JobTemplate():
            _jobs(obj, max_job_replicas)
        case Command():
            check_command(obj)
        case Reservation():
            check_reservation(obj)
        case HyperNode():
            check_hyper_node(obj)
        case WorkloadPodGroup() | CompositePodGroup():
            check_workload_group(obj)
        case PersistentVolumeClaim():
            check_claim(obj)
        case PersistentVolume():
            check_volume(obj)
        case StorageClass():
            check_storage_class(obj)
        case CSIStorageCapacity():
            check_capacity(obj)
    for broken in broken_rules(obj):
        raise ApiError(broken.field, broken.sentence)
    _check_dependencies(obj)


def _jobs(obj: Job | CronJob | BatchCronJob | JobFlow | JobTemplate, max_replicas: int) -> None:
    match obj:
        case Job():
            check_job(obj, max_replicas=max_replicas)
        case CronJob():
            check_cron_job(obj, max_replicas=max_replicas)
        case BatchCronJob():
            check_batch_cron_job(obj)
        case JobFlow():
            check_job_flow(obj)
        case JobTemplate():
            validate(as_job(obj), max_job_replicas=max_replicas)


def validate_update(old: KObject, new: KObject) -> None:
    """Raise an `ApiError` if a valid object changes an immutable field."""
    for broken in broken_update_rules(old, new):
        raise ApiError(broken.field, broken.sentence)
    of_workloads = WorkloadPodGroup | CompositePodGroup
    if isinstance(old, of_workloads) and isinstance(new, of_workloads):
        check_group_update(old, new)


def _check_dependencies(obj: KObject) -> None:
    if isinstance(obj, Job):
        check_dependencies(obj.spec.tasks)
    elif isinstance(obj, CronJob):
        check_job_template(obj)
    elif isinstance(obj, JobFlow):
        check_no_cycle(obj)


def _node_resources(offered: ResourceList, at: str) -> None:
    """The resources of a node. Pods and devices must be whole numbers."""
    rules.quantities(offered, at)
    for resource, quantity in offered.items():
        if resource == "pods" or "/" in resource:
            rules.whole(quantity, member_path(at, resource))


def _priority_class(priority: PriorityClass) -> None:
    if not -(2**31) <= priority.value < 2**31:
        raise ApiError("value", f"must fit 32 bits, not {priority.value}")
    if priority.value > HIGHEST_USER_PRIORITY and not priority.metadata.name.startswith(SYSTEM_PREFIX):
        raise ApiError("value", f"must be at most {HIGHEST_USER_PRIORITY}, not {priority.value}")
    rules.one_of(priority.preemption_policy, PREEMPTION_POLICIES, "preemptionPolicy")


def _budget(budget: PodDisruptionBudget) -> None:
    spec = budget.spec
    if (spec.min_available is None) == (spec.max_unavailable is None):
        raise ApiError("spec", "must have either minAvailable or maxUnavailable")
    _count_or_percentage(spec.min_available, "spec.minAvailable")
    _count_or_percentage(spec.max_unavailable, "spec.maxUnavailable")
    rules.label_selector(spec.selector, "spec.selector")


def _count_or_percentage(value: int | str | None, at: str) -> None:
    if isinstance(value, int):
        rules.at_least(value, 0, at)
    elif value is not None:
        digits = value.removesuffix("%")
        if not value.endswith("%") or not (digits.isascii() and digits.isdigit()) or int(digits) > 100:
            raise ApiError(at, f'must be a number of pods or a percentage such as "50%", not {quote(value)}')
