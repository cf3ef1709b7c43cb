"""The kinds around a volume: claims, volumes, classes, and what drivers say about nodes."""

from __future__ import annotations

from msgspec import field

from .metadata import ApiObject, ApiStruct, LabelSelector, ObjectReference, ResourceList
from .pods import NodeSelector, ResourceRequirements


class PersistentVolumeClaimSpec(ApiStruct):
    """`storage_class_name` None means the default class, and "" means no class."""

    access_modes: list[str] = field(default_factory=list)
    selector: LabelSelector | None = None
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = ""


class PersistentVolumeClaimStatus(ApiStruct):
    phase: str = "Pending"
    access_modes: list[str] = field(default_factory=list)
    capacity: ResourceList = field(default_factory=dict)


class PersistentVolumeClaim(ApiObject):
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)


class VolumeNodeAffinity(ApiStruct):
    required: NodeSelector | None = None


class CSIPersistentVolumeSource(ApiStruct):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(ApiStruct):
    capacity: ResourceList = field(default_factory=dict)
    access_modes: list[str] = field(default_factory=list)
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    persistent_volume_reclaim_policy: str = ""


class PersistentVolumeStatus(ApiStruct):
    phase: str = "Available"


class PersistentVolume(ApiObject):
    api_version: str = "v1"
    kind: str = "PersistentVolume"
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = field(default_factory=PersistentVolumeStatus)


class TopologySelectorLabelRequirement(ApiStruct):
    key: str
    values: list[str] = field(default_factory=list)


class TopologySelectorTerm(ApiStruct):
    match_label_expressions: list[TopologySelectorLabelRequirement] = field(default_factory=list)


class StorageClass(ApiObject):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologySelectorTerm] = field(default_factory=list)
    reclaim_policy: str = "Delete"


class VolumeNodeResources(ApiStruct):
    count: int | None = None


class CSINodeDriver(ApiStruct):
    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: list[str] = field(default_factory=list)
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct):
    drivers: list[CSINodeDriver] = field(default_factory=list)


class CSINode(ApiObject):
    """The drivers of the node of this name."""

    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class CSIDriverSpec(ApiStruct):
    storage_capacity: bool = False


class CSIDriver(ApiObject):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIDriver"
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(ApiObject):
    """How much a driver can still provision for a class where nodes have these labels."""

    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIStorageCapacity"
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None
