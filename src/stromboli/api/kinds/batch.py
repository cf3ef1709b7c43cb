"""The batch kinds: Queue, PodGroup, Job and Command under Volcano's names, and our Reservation.

Volcano's API groups and field names are kept exactly, so that manifests, client libraries and operators written for
Volcano work unchanged. What we add (a queue's locked nodes, a group's migration) is an optional field that other
clients ignore.

A field that `default` sets is None while it is not given: a queue without a weight and a queue of weight 1 must stay
distinguishable until then.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from .metadata import (
    ApiObject,
    ApiStruct,
    Condition,
    LabelSelector,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    ResourceList,
)
from .pods import PodTemplateSpec


class GuaranteePercentage(ApiStruct):
    """A share of the cluster's nodes. `value` (0 to 1) stays as written, so 0.3 is exactly three tenths."""

    value: int | float
    dimensions: list[str] = field(default_factory=list)


class Guarantee(ApiStruct):
    resource: ResourceList = field(default_factory=dict)
    policy: str = ""
    percentage: GuaranteePercentage | None = None


class NodeGroupAffinity(ApiStruct):
    required_during_scheduling_ignored_during_execution: list[str] = field(default_factory=list)
    preferred_during_scheduling_ignored_during_execution: list[str] = field(default_factory=list)


class QueueAffinity(ApiStruct):
    node_group_affinity: NodeGroupAffinity | None = None
    node_group_anti_affinity: NodeGroupAffinity | None = None


class QueueSpec(ApiStruct):
    weight: int | None = None
    capability: ResourceList = field(default_factory=dict)
    deserved: ResourceList = field(default_factory=dict)
    guarantee: Guarantee = field(default_factory=Guarantee)
    reclaimable: bool | None = None
    parent: str = ""
    priority: int = 0
    type: str = ""
    extend_clusters: list[dict[str, Any]] = field(default_factory=list)
    affinity: QueueAffinity | None = None
    dequeue_strategy: str = ""


class QueueReservation(ApiStruct):
    """The nodes a queue has locked, and what is idle on them. `guarantee` is the one that was judged last: it is judged
    once, not whenever nodes come or go. `basis` says which part of it counts: `resource` or `percentage`. `evicting` is
    the locked node that is being cleared of pods of others. `locked_at` says when each node was locked."""

    nodes: list[str] = field(default_factory=list)
    locked_at: dict[str, str] = field(default_factory=dict)
    resource: ResourceList = field(default_factory=dict)
    guarantee: Guarantee | None = None
    basis: str = ""
    evicting: str = ""


class QueueStatus(ApiStruct):
    state: str = ""
    unknown: int = 0
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    completed: int = 0
    allocated: ResourceList = field(default_factory=dict)
    reservation: QueueReservation = field(default_factory=QueueReservation)
    conditions: list[Condition] = field(default_factory=list)


class Queue(ApiObject):
    api_version: str = "scheduling.volcano.sh/v1beta1"
    kind: str = "Queue"
    spec: QueueSpec = field(default_factory=QueueSpec)
    status: QueueStatus = field(default_factory=QueueStatus)


class NetworkTopology(ApiStruct):
    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ApiStruct):
    name: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = field(default_factory=list)
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    network_topology: NetworkTopology | None = None


class MigrationInfo(ApiStruct):
    """One move: a pod from a node to a node, into a Reservation. Objects are referred to, not embedded."""

    pod: ObjectReference = field(default_factory=ObjectReference)
    source_node: str = ""
    target_node: str = ""
    reservation: ObjectReference = field(default_factory=ObjectReference)


class PodGroupSpec(ApiStruct):
    min_member: int = 0
    min_task_member: dict[str, int] = field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList = field(default_factory=dict)
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] = field(default_factory=list)
    preemptable: bool | None = None
    migration_info: list[MigrationInfo] = field(default_factory=list)


class PodGroupCondition(Condition):
    transition_id: str = field(default="", name="transitionID")


class MigrationState(ApiStruct):
    """How far the moves of a group are: Pending, Running, Succeeded or Failed. Not the group's phase. A reason while it
    is Running says that one of the moves has failed."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodGroupStatus(ApiStruct):
    phase: str = "Pending"
    conditions: list[PodGroupCondition] = field(default_factory=list)
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    migration_state: MigrationState | None = None


class PodGroup(ApiObject):
    api_version: str = "scheduling.volcano.sh/v1beta1"
    kind: str = "PodGroup"
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)


class LifecyclePolicy(ApiStruct):
    """What to do (`action`) when something happens: one of `event`, `events` or a non-zero `exit_code`."""

    action: str = ""
    event: str = ""
    events: list[str] = field(default_factory=list)
    exit_code: int | None = None
    timeout: str | int | float | None = None


class DependsOn(ApiStruct):
    name: list[str] = field(default_factory=list)
    iteration: str = ""


class PartitionPolicy(ApiStruct):
    total_partitions: int
    partition_size: int
    min_partitions: int | None = None
    network_topology: NetworkTopology | None = None


class TaskSpec(ApiStruct):
    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    policies: list[LifecyclePolicy] = field(default_factory=list)
    max_retry: int | None = None
    depends_on: DependsOn | None = None
    topology_policy: str = ""
    partition_policy: PartitionPolicy | None = None


class JobVolume(ApiStruct):
    """A volume that all containers mount: a claim that exists, or one that is made for the job."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None


class JobSpec(ApiStruct):
    scheduler_name: str = ""
    min_available: int | None = None
    tasks: list[TaskSpec] = field(default_factory=list)
    policies: list[LifecyclePolicy] = field(default_factory=list)
    plugins: dict[str, list[str]] = field(default_factory=dict)
    queue: str = ""
    max_retry: int | None = None
    min_success: int | None = None
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    volumes: list[JobVolume] = field(default_factory=list)
    running_estimate: str | int | float | None = None
    network_topology: NetworkTopology | None = None


class JobState(ApiStruct):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobCondition(ApiStruct):
    status: str = ""
    last_transition_time: str | None = None


class TaskState(ApiStruct):
    """How many pods of one task are in each pod phase."""

    phase: dict[str, int] = field(default_factory=dict)


class JobStatus(ApiStruct):
    state: JobState = field(default_factory=JobState)
    min_available: int = 0
    task_status_count: dict[str, TaskState] = field(default_factory=dict)
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str = ""
    controlled_resources: dict[str, str] = field(default_factory=dict)
    # What the next leader must know about the pods; `controllers/job/pod_memory.py` explains it.
    live_pods: dict[str, str] = field(default_factory=dict)
    lost_pods: dict[str, str] = field(default_factory=dict)
    restarting_pods: dict[str, str] = field(default_factory=dict)
    conditions: list[JobCondition] = field(default_factory=list)


class Job(ApiObject):
    api_version: str = "batch.volcano.sh/v1alpha1"
    kind: str = "Job"
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class CronJobTemplate(ApiStruct):
    """The jobs that a CronJob creates: their labels and annotations, and what they are."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)


class CronJobSpec(ApiStruct):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    job_template: CronJobTemplate = field(default_factory=CronJobTemplate)
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(ApiStruct):
    """`schedule` is the one that counts since `schedule_since`: times of an earlier one are not made up for."""

    active: list[ObjectReference] = field(default_factory=list)
    last_schedule_time: str | None = None
    last_successful_time: str | None = None
    schedule: str = ""
    schedule_since: str | None = None
    conditions: list[Condition] = field(default_factory=list)


class CronJob(ApiObject):
    """Creates a Job whenever its schedule says so."""

    api_version: str = "batch.volcano.sh/v1alpha1"
    kind: str = "CronJob"
    spec: CronJobSpec = field(default_factory=CronJobSpec)
    status: CronJobStatus = field(default_factory=CronJobStatus)


class Command(ApiObject):
    """A request to act once on a Job or a Queue. Its fields stand at the top, there is no spec."""

    api_version: str = "bus.volcano.sh/v1alpha1"
    kind: str = "Command"
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


class ReservationController(ApiStruct):
    """Pods owned by this controller, in this namespace; an empty field matches everything."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""
    controller: bool | None = None


class ReservationOwner(ApiStruct):
    """Who may use a reservation. All parts that are given must hold; of several owners one is enough."""

    object: ObjectReference | None = None
    controller: ReservationController | None = None
    label_selector: LabelSelector | None = None
    namespaces: list[str] = field(default_factory=list)


class ReservationSpec(ApiStruct):
    """`replaces`: the running pod, by UID, whose successor the reservation is for. Only migrations have it."""

    template: PodTemplateSpec | None = None
    owners: list[ReservationOwner] = field(default_factory=list)
    ttl: str | int | float | None = None
    allocate_once: bool | None = None
    queue: str = ""
    node_name: str = ""
    replaces: ObjectReference | None = None


class ReservationStatus(ApiStruct):
    """`eviction_time`: since when the pod that the reservation replaces is evicted; written before the eviction."""

    phase: str = ""
    node_name: str = ""
    allocatable: ResourceList = field(default_factory=dict)
    allocated: ResourceList = field(default_factory=dict)
    current_owners: list[ObjectReference] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    eviction_time: str | None = None


class Reservation(ApiObject):
    api_version: str = "scheduling.volcano.sh/v1alpha1"
    kind: str = "Reservation"
    spec: ReservationSpec = field(default_factory=ReservationSpec)
    status: ReservationStatus = field(default_factory=ReservationStatus)
