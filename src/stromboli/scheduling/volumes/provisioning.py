"""Whether the volume of an open claim can be made for a node."""

from __future__ import annotations

from collections.abc import Iterator

from stromboli.api import CSIStorageCapacity, PersistentVolumeClaim, StorageClass, names
from stromboli.api.quantity import QuantityError, amount
from stromboli.api.selectors import matches_labels
from stromboli.api.volumes.claims import STORAGE, requested_size
from stromboli.api.volumes.topology import Labels, allows, driver_on
from stromboli.cluster import Node, VolumeIndex


def can_provision(index: VolumeIndex, claim: PersistentVolumeClaim, labels: Labels) -> bool:
    """Whether the class of a claim makes volumes of that size for a node with these labels."""
    storage_class = class_of(index, claim)
    if storage_class is None or not allows(storage_class.allowed_topologies, labels):
        return False
    if not counts_capacity(index, storage_class):
        return True
    return any(matches_labels(one.node_topology, labels) for one in sufficient(index, claim, storage_class))


def class_of(index: VolumeIndex, claim: PersistentVolumeClaim) -> StorageClass | None:
    """The class, if it makes volumes at all."""
    found = index.classes.get(claim.spec.storage_class_name or "")
    return None if found is None or found.provisioner == names.NO_PROVISIONER else found


def counts_capacity(index: VolumeIndex, storage_class: StorageClass) -> bool:
    driver = index.drivers.get(storage_class.provisioner)
    return driver is not None and driver.spec.storage_capacity


def sufficient(
    index: VolumeIndex, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> Iterator[CSIStorageCapacity]:
    """Where there is enough for the claim."""
    size = requested_size(claim)
    for capacity in index.capacities.values():
        if capacity.storage_class_name == storage_class.metadata.name and _largest(capacity) >= size:
            yield capacity


def _largest(capacity: CSIStorageCapacity) -> int:
    """The largest volume that can be made."""
    written = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    try:
        return 0 if written is None else amount(STORAGE, written)
    except QuantityError:
        return 0


def same_topology(index: VolumeIndex, driver: str, selected: str, nodes: dict[str, Node]) -> dict[str, str] | None:
    """The labels of nodes that will reach a volume which a driver makes for the selected node; None if the driver does
    not say by which labels its volumes are placed."""
    known = driver_on(index.csi_nodes.get(selected), driver)
    if known is None or not known.topology_keys:
        return None
    labels = nodes[selected].labels
    return {key: labels.get(key, "") for key in known.topology_keys}
