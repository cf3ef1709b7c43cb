"""The rules for queues, groups, jobs, commands and reservations.

Only the object itself is checked here. Whether a job's queue exists and is open, or whether a guarantee fits the
cluster, depends on other objects, and is checked where those are known.
"""

from __future__ import annotations

from typing import Any

from stromboli.api.errors import ApiError, member_path, quote
from stromboli.api.kinds.batch import (
    Command,
    Guarantee,
    Job,
    LifecyclePolicy,
    NetworkTopology,
    PodGroup,
    Queue,
    Reservation,
    ReservationOwner,
    TaskSpec,
)
from stromboli.api.kinds.pods import PodSpec
from stromboli.api.names import ADMINISTRATORS, HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import QuantityError, parse_quantity
from stromboli.api.unknown_fields import unknown_field

from . import limits, rules
from .pods import check_template
from .storage import check_described_claim

EVENTS_WITHOUT_EFFECT = ("OutOfSync", "CommandIssued", "JobUpdated")
"""Volcano's controllers use these among themselves. A policy for one of them is valid, and never applies."""
EVENTS = (
    "*",
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "PodRunning",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    *EVENTS_WITHOUT_EFFECT,
)
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
TOPOLOGY_POLICIES = ("", "none", "best-effort", "restricted", "single-numa-node")
QUEUE_STATES = ("", "Open", "Closing", "Closed", "Unknown")
GROUP_PHASES = ("", "Pending", "Inqueue", "Running", "Completed", "Unknown")
JOB_PHASES = (
    "",
    "Pending",
    "Running",
    "Restarting",
    "Aborting",
    "Aborted",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)
RESERVATION_PHASES = ("", "Waiting", "Pending", "Available", "Succeeded", "Expired", "Failed")
VOLUME_FIELDS = ("mountPath", "volumeClaimName", "volumeClaim")
DIMENSIONS = ("cpu", "memory", "ephemeral-storage", "gpu")


def check_queue(queue: Queue) -> None:
    spec = queue.spec
    rules.between(spec.weight or 1, 1, 65535, "spec.weight")
    rules.at_least(spec.priority, 0, "spec.priority")
    rules.one_of(spec.dequeue_strategy, ("", "fifo", "traverse"), "spec.dequeueStrategy")
    rules.quantities(spec.capability, "spec.capability")
    rules.quantities(spec.deserved, "spec.deserved")
    _guarantee(spec.guarantee, "spec.guarantee")
    rules.within(spec.deserved, spec.capability, "spec.deserved", "the capability")
    rules.within(spec.guarantee.resource, spec.deserved, "spec.guarantee.resource", "the deserved amount")
    rules.within(spec.guarantee.resource, spec.capability, "spec.guarantee.resource", "the capability")
    if spec.parent:
        rules.dns_subdomain(spec.parent, "spec.parent")
        if spec.parent == queue.metadata.name:
            raise ApiError("spec.parent", "must not be the queue itself")
    _hierarchy(queue.metadata.annotations)
    rules.one_of(queue.status.state, QUEUE_STATES, "status.state")


def check_pod_group(group: PodGroup) -> None:
    spec = group.spec
    rules.one_of(group.status.phase, GROUP_PHASES, "status.phase")
    rules.at_least(spec.min_member, 0, "spec.minMember")
    for task, least in spec.min_task_member.items():
        rules.at_least(least, 0, member_path("spec.minTaskMember", task))
    rules.dns_subdomain(spec.queue, "spec.queue")
    rules.quantities(spec.min_resources, "spec.minResources")
    if spec.priority_class_name:
        rules.dns_subdomain(spec.priority_class_name, "spec.priorityClassName")
    _network_topology(spec.network_topology, "spec.networkTopology")
    for index, policy in enumerate(spec.sub_group_policy):
        here = f"spec.subGroupPolicy[{index}]"
        rules.label_selector(policy.label_selector, f"{here}.labelSelector")
        rules.at_least(1 if policy.sub_group_size is None else policy.sub_group_size, 1, f"{here}.subGroupSize")
        rules.at_least(policy.min_sub_groups or 0, 0, f"{here}.minSubGroups")
        _network_topology(policy.network_topology, f"{here}.networkTopology")


def check_job(job: Job, *, max_replicas: int) -> None:
    spec = job.spec
    if not spec.tasks:
        raise ApiError("spec.tasks", "must have at least one task")
    limits.at_most(limits.MAX_TASKS, spec.tasks, "spec.tasks", "tasks; split the job")
    names: set[str] = set()
    for index, task in enumerate(spec.tasks):
        _task(task, f"spec.tasks[{index}]")
        if task.name in names:
            raise ApiError(f"spec.tasks[{index}].name", f"must not be used twice in a job: {quote(task.name)}")
        names.add(task.name)
    _dependencies(spec.tasks)
    rules.one_of(job.status.state.phase, JOB_PHASES, "status.state.phase")
    replicas = sum(task.replicas for task in spec.tasks)
    if replicas > max_replicas:
        raise ApiError(
            "spec.tasks", f"must have at most {max_replicas} replicas together, not {replicas}; split the job"
        )
    rules.at_least(spec.min_available or 0, 0, "spec.minAvailable")
    if (spec.min_available or 0) > replicas:
        raise ApiError(
            "spec.minAvailable",
            f"must be at most the {replicas} replicas of all tasks, not {spec.min_available}",
        )
    rules.at_least(spec.max_retry or 0, 0, "spec.maxRetry")
    rules.at_least(spec.ttl_seconds_after_finished or 0, 0, "spec.ttlSecondsAfterFinished")
    if spec.min_success is not None:
        rules.at_least(spec.min_success, 1, "spec.minSuccess")
    rules.dns_subdomain(spec.queue, "spec.queue")
    if spec.queue == ROOT_QUEUE:
        raise ApiError("spec.queue", "must not be root: jobs go to the queues below it")
    if spec.priority_class_name:
        rules.dns_subdomain(spec.priority_class_name, "spec.priorityClassName")
    rules.duration(spec.running_estimate, "spec.runningEstimate")
    _volumes(spec.volumes, "spec.volumes")
    _policies(spec.policies, "spec.policies")
    _network_topology(spec.network_topology, "spec.networkTopology")


def check_command(command: Command) -> None:
    rules.required(command.action, "action")
    if command.target is None:
        raise ApiError("target", "is required")
    rules.one_of(command.target.kind, ("Job", "Queue"), "target.kind")
    rules.required(command.target.name, "target.name")
    # A queue is everybody's. Whoever may edit the objects of a namespace must not close the queues of others with them.
    if command.target.kind == "Queue":
        rules.one_of(command.metadata.namespace, ADMINISTRATORS, "metadata.namespace")


def check_reservation(reservation: Reservation) -> None:
    spec = reservation.spec
    if spec.template is None:
        raise ApiError("spec.template", "is required")
    check_template(spec.template, "spec.template")
    if spec.replaces is None:
        _priority_of_users(spec.template.spec, "spec.template.spec")
    if not pod_requests(spec.template.spec):
        raise ApiError("spec.template.spec", "must request at least one resource")
    if not spec.owners:
        raise ApiError("spec.owners", "must have at least one owner")
    limits.at_most(limits.MAX_OWNERS, spec.owners, "spec.owners", "owners")
    for index, owner in enumerate(spec.owners):
        _owner(owner, f"spec.owners[{index}]")
    rules.duration(spec.ttl, "spec.ttl")
    if spec.queue:
        rules.dns_subdomain(spec.queue, "spec.queue")
    if spec.node_name:
        rules.dns_subdomain(spec.node_name, "spec.nodeName")
    pinned = spec.template.spec.node_name
    if pinned and spec.node_name and pinned != spec.node_name:
        raise ApiError("spec.nodeName", f"must be the node of the template, {quote(pinned)}")
    if spec.replaces is not None:
        rules.required(spec.replaces.uid, "spec.replaces.uid")
    rules.one_of(reservation.status.phase, RESERVATION_PHASES, "status.phase")


def _priority_of_users(spec: PodSpec, at: str) -> None:
    """The API server checks the priority of pods, but not that of templates: only a pod that is moved has one that it
    has seen."""
    prefix, highest = rules.SYSTEM_PREFIX, rules.HIGHEST_USER_PRIORITY
    if spec.priority_class_name.startswith(prefix):
        raise ApiError(f"{at}.priorityClassName", f"must not begin with {prefix}: such classes are for system pods")
    if spec.priority is not None and spec.priority > highest:
        raise ApiError(f"{at}.priority", f"must be at most {highest}, not {spec.priority}")


def _guarantee(guarantee: Guarantee, at: str) -> None:
    rules.one_of(guarantee.policy, ("", "Best-Effort", "Guaranteed"), f"{at}.policy")
    rules.quantities(guarantee.resource, f"{at}.resource")
    percentage = guarantee.percentage
    if percentage is not None:
        here = f"{at}.percentage.value"
        try:
            value = parse_quantity(percentage.value)
        except QuantityError:
            raise ApiError(here, f"must be a number from 0 to 1, not {quote(percentage.value)}") from None
        if not 0 <= value <= 1:
            raise ApiError(here, f"must be from 0 to 1, not {quote(percentage.value)}")
        for index, dimension in enumerate(percentage.dimensions):
            if "/" not in dimension:
                rules.one_of(dimension, DIMENSIONS, f"{at}.percentage.dimensions[{index}]")
    elif guarantee.policy and not guarantee.resource:
        raise ApiError(at, "must have a resource or a percentage")


def _hierarchy(annotations: dict[str, str]) -> None:
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if path is None and weights is None:
        return
    at = f"metadata.annotations[{HIERARCHY}]"
    steps = (path or "").split("/")
    if steps[0] != ROOT_QUEUE or "" in steps:
        raise ApiError(at, f'must be a path such as "root/science/dev", not {quote(path or "")}')
    at = f"metadata.annotations[{HIERARCHY_WEIGHTS}]"
    parts = (weights or "").split("/")
    if len(parts) != len(steps):
        raise ApiError(at, f"must have one weight for each of the {len(steps)} steps, not {quote(weights or '')}")
    for part in parts:
        try:
            enough = parse_quantity(part) >= 1
        except QuantityError:
            enough = False
        if not enough:
            raise ApiError(at, f"must be weights of 1 or more, not {quote(weights)}")


def _task(task: TaskSpec, at: str) -> None:
    rules.dns_label(task.name, f"{at}.name")
    rules.at_least(task.replicas, 0, f"{at}.replicas")
    least = task.min_available or 0
    rules.at_least(least, 0, f"{at}.minAvailable")
    if least > task.replicas:
        raise ApiError(f"{at}.minAvailable", f"must be at most replicas ({task.replicas}), not {least}")
    rules.at_least(task.max_retry or 0, 0, f"{at}.maxRetry")
    rules.one_of(task.topology_policy, TOPOLOGY_POLICIES, f"{at}.topologyPolicy")
    _policies(task.policies, f"{at}.policies")
    partition = task.partition_policy
    if partition is not None:
        product = partition.total_partitions * partition.partition_size
        if product != task.replicas:
            raise ApiError(
                f"{at}.partitionPolicy",
                f"must have totalPartitions × partitionSize = replicas ({task.replicas}), not {product}",
            )
        _network_topology(partition.network_topology, f"{at}.partitionPolicy.networkTopology")
    check_template(task.template, f"{at}.template")


def _volumes(volumes: list[dict[str, Any]], at: str) -> None:
    """Each volume has its own absolute path, and either names a claim or describes one."""
    paths: set[str] = set()
    for index, volume in enumerate(volumes):
        here = f"{at}[{index}]"
        for name in volume:
            if name not in VOLUME_FIELDS:
                raise unknown_field(here, name, VOLUME_FIELDS)
        path, claim_name = volume.get("mountPath"), volume.get("volumeClaimName") or ""
        if not isinstance(path, str) or not path.startswith("/"):
            raise ApiError(f"{here}.mountPath", f"must be an absolute path, not {quote(path)}")
        if path in paths:
            raise ApiError(f"{here}.mountPath", f"must not be used twice in a job: {quote(path)}")
        paths.add(path)
        if not isinstance(claim_name, str):
            raise ApiError(f"{here}.volumeClaimName", f"must be text, not {quote(claim_name)}")
        if claim_name:
            rules.dns_subdomain(claim_name, f"{here}.volumeClaimName")
        claim = volume.get("volumeClaim")
        if claim is not None and not isinstance(claim, dict):
            raise ApiError(f"{here}.volumeClaim", f"must be a mapping, not {quote(claim)}")
        if bool(claim_name) == (claim is not None):
            raise ApiError(here, "must have either a volumeClaimName or a volumeClaim")
        if claim is not None:
            check_described_claim(claim, f"{here}.volumeClaim")


def _dependencies(tasks: list[TaskSpec]) -> None:
    """Tasks depend only on tasks of this job, and there is no cycle."""
    dependencies: dict[str, list[str]] = {}
    names = {task.name for task in tasks}
    for index, task in enumerate(tasks):
        if task.depends_on is None:
            continue
        here = f"spec.tasks[{index}].dependsOn"
        rules.one_of(task.depends_on.iteration, ("", "any", "all"), f"{here}.iteration")
        for position, name in enumerate(task.depends_on.name):
            if name not in names:
                raise ApiError(f"{here}.name[{position}]", f"must name a task of this job, not {quote(name)}")
        dependencies[task.name] = task.depends_on.name
    for index, task in enumerate(tasks):
        visited, to_visit = set[str](), list(dependencies.get(task.name, ()))
        while to_visit:
            name = to_visit.pop()
            if name == task.name:
                raise ApiError(f"spec.tasks[{index}].dependsOn", "must not lead back to the task itself")
            if name not in visited:
                visited.add(name)
                to_visit.extend(dependencies.get(name, ()))


def _policies(policies: list[LifecyclePolicy], at: str) -> None:
    """One action for each event and each exit code; `*` means every event, so it excludes other events."""
    seen: set[str | int] = set()
    for index, policy in enumerate(policies):
        here = f"{at}[{index}]"
        events = list(dict.fromkeys([*([policy.event] if policy.event else []), *policy.events]))
        if bool(events) == (policy.exit_code is not None):
            raise ApiError(here, "must have either an event or an exitCode")
        if policy.exit_code == 0:
            raise ApiError(f"{here}.exitCode", "must not be 0, which is success")
        rules.one_of(policy.action, ACTIONS, f"{here}.action")
        rules.duration(policy.timeout, f"{here}.timeout")
        for event in events:
            rules.one_of(event, EVENTS, f"{here}.event")
        for trigger in [policy.exit_code] if policy.exit_code is not None else events:
            if trigger in seen:
                raise ApiError(here, f"must not repeat {quote(trigger)}, which has an action already")
            seen.add(trigger)
    if "*" in seen and any(isinstance(trigger, str) and trigger != "*" for trigger in seen):
        raise ApiError(at, 'must not name other events beside "*", which means all of them')


def _network_topology(topology: NetworkTopology | None, at: str) -> None:
    if topology is None:
        return
    rules.one_of(topology.mode, ("", "hard", "soft"), f"{at}.mode")
    if topology.highest_tier_allowed is not None and topology.highest_tier_name:
        raise ApiError(at, "must have highestTierAllowed or highestTierName, not both")


def _owner(owner: ReservationOwner, at: str) -> None:
    target, controller = owner.object, owner.controller
    named = target is not None and any((target.kind, target.namespace, target.name, target.uid))
    controlled = controller is not None and any((controller.kind, controller.name, controller.uid))
    if not named and not controlled and owner.label_selector is None:
        raise ApiError(at, "must say who may use the reservation: an object, a controller or a labelSelector")
    rules.label_selector(owner.label_selector, f"{at}.labelSelector")
    for index, namespace in enumerate(owner.namespaces):
        rules.dns_label(namespace, f"{at}.namespaces[{index}]")
