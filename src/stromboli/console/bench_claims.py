"""The claims of `stromboli bench cycle --claims`: one for each pod, in three zones.

new     the volumes have to be made: the cycle selects nodes
bound   the volumes exist, those of one job in one zone: the cycle binds the pods
"""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    PodSpec,
    ResourceRequirements,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
    VolumeNodeResources,
    names,
)
from stromboli.api.volumes.claims import reference_to
from stromboli.cluster import Applied, Cluster

ZONES = ("a", "b", "c")
DRIVER = "csi.example.com"
MOST_VOLUMES = 64


def zone_of(number: int) -> dict[str, str]:
    return {names.ZONE: ZONES[number % len(ZONES)]}


class Claims:
    def __init__(self, cluster: Cluster, kind: str, nodes: int) -> None:
        self._cluster = cluster
        self._kind = kind
        self._zones: dict[str, str] = {}  # of the volumes of a job
        if kind == "none":
            return
        allowed = TopologySelectorTerm(
            match_label_expressions=[TopologySelectorLabelRequirement(key=names.ZONE, values=list(ZONES))]
        )
        cluster.apply(Applied(StorageClass(
            metadata=ObjectMeta(name="fast", uid="c-fast"), provisioner=DRIVER,
            volume_binding_mode="WaitForFirstConsumer", allowed_topologies=[allowed],
        )))  # fmt: skip
        driver = CSINodeDriver(
            name=DRIVER, topology_keys=[names.ZONE], allocatable=VolumeNodeResources(count=MOST_VOLUMES)
        )
        for number in range(nodes):
            meta = ObjectMeta(name=f"node-{number:05d}", uid=f"csi{number}")
            cluster.apply(Applied(CSINode(metadata=meta, spec=CSINodeSpec(drivers=[driver]))))

    def added_to(self, spec: PodSpec, pod: ObjectMeta) -> PodSpec:
        """The spec with the pod's claim, which is created."""
        if self._kind == "none":
            return spec
        claim = PersistentVolumeClaim(
            metadata=ObjectMeta(name=pod.name, namespace=pod.namespace, uid=f"v-{pod.name}"),
            spec=PersistentVolumeClaimSpec(
                access_modes=["ReadWriteOnce"], storage_class_name="fast",
                resources=ResourceRequirements(requests={"storage": "10Gi"}),
            ),
        )  # fmt: skip
        if self._kind == "bound":
            claim = self._bound(claim, pod.annotations[names.GROUP_NAME])
        self._cluster.apply(Applied(claim))
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": pod.name}}
        return replace(spec, volumes=[volume])

    def _bound(self, claim: PersistentVolumeClaim, job: str) -> PersistentVolumeClaim:
        zone = self._zones.setdefault(job, ZONES[len(self._zones) % len(ZONES)])
        name = f"volume-{claim.metadata.name}"
        here = NodeSelectorRequirement(key=names.ZONE, operator="In", values=[zone])
        term = NodeSelectorTerm(match_expressions=[here])
        affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=[term]))
        self._cluster.apply(Applied(PersistentVolume(
            metadata=ObjectMeta(name=name, uid=name),
            spec=PersistentVolumeSpec(
                capacity={"storage": "10Gi"}, access_modes=["ReadWriteOnce"], claim_ref=reference_to(claim),
                storage_class_name="fast", node_affinity=affinity,
                csi=CSIPersistentVolumeSource(driver=DRIVER, volume_handle=name),
            ),
            status=PersistentVolumeStatus(phase="Bound"),
        )))  # fmt: skip
        spec = replace(claim.spec, volume_name=name)
        return replace(claim, spec=spec, status=PersistentVolumeClaimStatus(phase="Bound"))
