"""The kinds of `apps/v1`: what keeps equal pods, and the revisions of their templates."""

from __future__ import annotations

from msgspec import field

from .metadata import ApiObject, ApiStruct, Condition, LabelSelector
from .pods import PodTemplateSpec
from .storage import PersistentVolumeClaim

Amount = int | str
"""A number of pods, or a percentage such as "25%"."""


class ReplicaSetSpec(ApiStruct):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class ReplicaSetStatus(ApiStruct):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(ApiObject):
    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
    spec: ReplicaSetSpec = field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = field(default_factory=ReplicaSetStatus)


class RollingUpdateDeployment(ApiStruct):
    max_unavailable: Amount | None = None
    max_surge: Amount | None = None


class DeploymentStrategy(ApiStruct):
    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(ApiStruct):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    strategy: DeploymentStrategy = field(default_factory=DeploymentStrategy)
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(Condition):
    last_update_time: str | None = None


class DeploymentStatus(ApiStruct):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: list[DeploymentCondition] = field(default_factory=list)
    collision_count: int = 0


class Deployment(ApiObject):
    api_version: str = "apps/v1"
    kind: str = "Deployment"
    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


class RollingUpdateStatefulSet(ApiStruct):
    partition: int = 0
    max_unavailable: Amount | None = None


class StatefulSetUpdateStrategy(ApiStruct):
    type: str = ""
    rolling_update: RollingUpdateStatefulSet | None = None


class StatefulSetOrdinals(ApiStruct):
    start: int = 0


class StatefulSetSpec(ApiStruct):
    replicas: int = 1
    service_name: str = ""
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    pod_management_policy: str = ""
    update_strategy: StatefulSetUpdateStrategy = field(default_factory=StatefulSetUpdateStrategy)
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0
    ordinals: StatefulSetOrdinals | None = None
    volume_claim_templates: list[PersistentVolumeClaim] = field(default_factory=list)


class StatefulSetStatus(ApiStruct):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    observed_generation: int = 0
    collision_count: int | None = None


class StatefulSet(ApiObject):
    api_version: str = "apps/v1"
    kind: str = "StatefulSet"
    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = field(default_factory=StatefulSetStatus)


class RollingUpdateDaemonSet(ApiStruct):
    max_unavailable: Amount | None = None
    max_surge: Amount | None = None


class DaemonSetUpdateStrategy(ApiStruct):
    type: str = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(ApiStruct):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    update_strategy: DaemonSetUpdateStrategy = field(default_factory=DaemonSetUpdateStrategy)
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(ApiStruct):
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None


class DaemonSet(ApiObject):
    api_version: str = "apps/v1"
    kind: str = "DaemonSet"
    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = field(default_factory=DaemonSetStatus)


class RevisionSpec(ApiStruct):
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class RevisionData(ApiStruct):
    spec: RevisionSpec = field(default_factory=RevisionSpec)


class ControllerRevision(ApiObject):
    """A template that a StatefulSet or DaemonSet had, so that pods of that time can be made again."""

    api_version: str = "apps/v1"
    kind: str = "ControllerRevision"
    data: RevisionData = field(default_factory=RevisionData)
    revision: int = 0
