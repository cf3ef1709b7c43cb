"""What single fields of queues, groups, jobs, commands and reservations must be.

The schemas of `kube.crds` say the same to API servers. Rules over several fields are in `api.rules`. Only the object
itself is checked here. Whether a job's queue exists and is open, or whether a guarantee fits the
cluster, depends on other objects, and is checked where those are known.
"""

from __future__ import annotations

from stromboli.api.errors import ApiError, member_path, quote
from stromboli.api.kinds.batch import (
    Command,
    Guarantee,
    Job,
    JobVolume,
    LifecyclePolicy,
    NetworkTopology,
    PartitionPolicy,
    PodGroup,
    Queue,
    Reservation,
    ReservationOwner,
    TaskSpec,
)
from stromboli.api.pod_requests import pod_requests
from stromboli.api.rules.lifecycle_policies import EVENTS

from . import limits, rules
from .pods import check_template
from .storage import check_described_claim

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
MAX_EVENTS = 2 * len(EVENTS)  # of a policy; Volcano accepts each twice
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
DIMENSIONS = ("cpu", "memory", "ephemeral-storage", "gpu")


def check_queue(queue: Queue) -> None:
    spec = queue.spec
    rules.between(spec.weight or 1, 1, 65535, "spec.weight")
    rules.at_least(spec.priority, 0, "spec.priority")
    rules.one_of(spec.dequeue_strategy, ("", "fifo", "traverse"), "spec.dequeueStrategy")
    rules.quantities(spec.capability, "spec.capability")
    rules.quantities(spec.deserved, "spec.deserved")
    _guarantee(spec.guarantee, "spec.guarantee")
    if spec.parent:
        rules.dns_subdomain(spec.parent, "spec.parent")
    rules.one_of(queue.status.state, QUEUE_STATES, "status.state")


def check_pod_group(group: PodGroup) -> None:
    spec = group.spec
    rules.one_of(group.status.phase, GROUP_PHASES, "status.phase")
    rules.at_least(spec.min_member, 0, "spec.minMember")
    limits.at_most(limits.MAX_TASKS, spec.min_task_member, "spec.minTaskMember", "roles")
    for task, least in spec.min_task_member.items():
        rules.at_least(least, 0, member_path("spec.minTaskMember", task))
    rules.dns_subdomain(spec.queue, "spec.queue")
    rules.quantities(spec.min_resources, "spec.minResources")
    if spec.priority_class_name:
        rules.dns_subdomain(spec.priority_class_name, "spec.priorityClassName")
    _network_topology(spec.network_topology, "spec.networkTopology")
    limits.at_most(limits.MAX_SUB_GROUP_POLICIES, spec.sub_group_policy, "spec.subGroupPolicy", "policies")
    for index, policy in enumerate(spec.sub_group_policy):
        here = f"spec.subGroupPolicy[{index}]"
        rules.operators(policy.label_selector, f"{here}.labelSelector")
        limits.at_most(limits.MAX_LABEL_KEYS, policy.match_label_keys, f"{here}.matchLabelKeys", "keys")
        rules.at_least(1 if policy.sub_group_size is None else policy.sub_group_size, 1, f"{here}.subGroupSize")
        rules.at_least(policy.min_sub_groups or 0, 0, f"{here}.minSubGroups")
        _network_topology(policy.network_topology, f"{here}.networkTopology")


def check_job(job: Job, *, max_replicas: int) -> None:
    spec = job.spec
    if not spec.tasks:
        raise ApiError("spec.tasks", "must have at least one task")
    limits.at_most(limits.MAX_TASKS, spec.tasks, "spec.tasks", "tasks; split the job")
    for index, task in enumerate(spec.tasks):
        _task(task, f"spec.tasks[{index}]")
    rules.one_of(job.status.state.phase, JOB_PHASES, "status.state.phase")
    replicas = sum(task.replicas for task in spec.tasks)
    if replicas > max_replicas:
        raise ApiError(
            "spec.tasks", f"must have at most {max_replicas} replicas together, not {replicas}; split the job"
        )
    rules.at_least(spec.min_available or 0, 0, "spec.minAvailable")
    rules.at_least(spec.max_retry or 0, 0, "spec.maxRetry")
    rules.at_least(spec.ttl_seconds_after_finished or 0, 0, "spec.ttlSecondsAfterFinished")
    if spec.min_success is not None:
        rules.at_least(spec.min_success, 1, "spec.minSuccess")
    rules.dns_subdomain(spec.queue, "spec.queue")
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


def check_reservation(reservation: Reservation) -> None:
    spec = reservation.spec
    if spec.template is None:
        raise ApiError("spec.template", "is required")
    check_template(spec.template, "spec.template")
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
    if spec.replaces is not None:
        rules.required(spec.replaces.uid, "spec.replaces.uid")
    rules.one_of(reservation.status.phase, RESERVATION_PHASES, "status.phase")


def _guarantee(guarantee: Guarantee, at: str) -> None:
    rules.one_of(guarantee.policy, ("", "Best-Effort", "Guaranteed"), f"{at}.policy")
    rules.quantities(guarantee.resource, f"{at}.resource")
    percentage = guarantee.percentage
    if percentage is not None:
        here = f"{at}.percentage.value"
        if not 0 <= percentage.value <= 1:
            raise ApiError(here, f"must be a number from 0 to 1, not {quote(percentage.value)}")
        for index, dimension in enumerate(percentage.dimensions):
            if "/" not in dimension:
                rules.one_of(dimension, DIMENSIONS, f"{at}.percentage.dimensions[{index}]")


def _task(task: TaskSpec, at: str) -> None:
    rules.dns_label(task.name, f"{at}.name")
    rules.at_least(task.replicas, 0, f"{at}.replicas")
    _partition_policy(task.partition_policy, f"{at}.partitionPolicy")
    # After the partitions: where it was left out, it was made from them.
    rules.at_least(task.min_available or 0, 0, f"{at}.minAvailable")
    rules.at_least(task.max_retry or 0, 0, f"{at}.maxRetry")
    rules.one_of(task.topology_policy, TOPOLOGY_POLICIES, f"{at}.topologyPolicy")
    _policies(task.policies, f"{at}.policies")
    if task.depends_on is not None:
        limits.at_most(limits.MAX_TASKS, task.depends_on.name, f"{at}.dependsOn.name", "names")
        rules.one_of(task.depends_on.iteration, ("", "any", "all"), f"{at}.dependsOn.iteration")
    check_template(task.template, f"{at}.template")


def _partition_policy(partition: PartitionPolicy | None, at: str) -> None:
    if partition is None:
        return
    rules.at_least(partition.total_partitions, 1, f"{at}.totalPartitions")
    rules.at_least(partition.partition_size, 1, f"{at}.partitionSize")
    rules.at_least(partition.min_partitions or 0, 0, f"{at}.minPartitions")
    _network_topology(partition.network_topology, f"{at}.networkTopology")


def _volumes(volumes: list[JobVolume], at: str) -> None:
    limits.at_most(limits.MAX_JOB_VOLUMES, volumes, at, "volumes")
    for index, volume in enumerate(volumes):
        here = f"{at}[{index}]"
        if not volume.mount_path.startswith("/"):
            raise ApiError(f"{here}.mountPath", f"must be an absolute path, not {quote(volume.mount_path)}")
        if len(volume.mount_path) > limits.MAX_MOUNT_PATH:
            raise ApiError(f"{here}.mountPath", f"must be at most {limits.MAX_MOUNT_PATH} characters")
        if volume.volume_claim_name:
            rules.dns_subdomain(volume.volume_claim_name, f"{here}.volumeClaimName")
        if volume.volume_claim is not None:
            check_described_claim(volume.volume_claim, f"{here}.volumeClaim")


def check_dependencies(tasks: list[TaskSpec]) -> None:
    """Tasks depend only on tasks of this job, and there is no cycle."""
    dependencies: dict[str, list[str]] = {}
    names = {task.name for task in tasks}
    for index, task in enumerate(tasks):
        if task.depends_on is None:
            continue
        here = f"spec.tasks[{index}].dependsOn"
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
    limits.at_most(limits.MAX_POLICIES, policies, at, "policies")
    for index, policy in enumerate(policies):
        here = f"{at}[{index}]"
        rules.one_of(policy.action, ACTIONS, f"{here}.action")
        rules.duration(policy.timeout, f"{here}.timeout")
        if policy.exit_code is not None:
            rules.at_least(policy.exit_code, -rules.LARGEST_COUNT - 1, f"{here}.exitCode")
        if policy.event:
            rules.one_of(policy.event, EVENTS, f"{here}.event")
        limits.at_most(MAX_EVENTS, policy.events, f"{here}.events", "events")
        for position, event in enumerate(policy.events):
            rules.one_of(event, EVENTS, f"{here}.events[{position}]")


def _network_topology(topology: NetworkTopology | None, at: str) -> None:
    if topology is None:
        return
    rules.one_of(topology.mode, ("", "hard", "soft"), f"{at}.mode")
    if topology.highest_tier_allowed is not None:
        rules.at_least(topology.highest_tier_allowed, -rules.LARGEST_COUNT - 1, f"{at}.highestTierAllowed")


def _owner(owner: ReservationOwner, at: str) -> None:
    rules.operators(owner.label_selector, f"{at}.labelSelector")
    for index, namespace in enumerate(owner.namespaces):
        rules.dns_label(namespace, f"{at}.namespaces[{index}]")
