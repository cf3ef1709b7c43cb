"""Rules of claims, volumes and storage classes."""

from __future__ import annotations

from typing import Final

from stromboli.api.errors import ApiError
from stromboli.api.kinds.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    StorageClass,
)
from stromboli.api.volumes.provisioning import provisioning

from . import rules
from .conversion import convert

STORAGE: Final = "storage"
ACCESS_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
VOLUME_MODES: Final = ("", "Filesystem", "Block")


def check_claim(claim: PersistentVolumeClaim) -> None:
    _claim_spec(claim.spec, "spec")


def check_described_claim(description: object, at: str) -> None:
    """A claim that is described inside another object."""
    _claim_spec(convert(description, PersistentVolumeClaimSpec, at=at), at)


def _claim_spec(spec: PersistentVolumeClaimSpec, at: str) -> None:
    _access_modes(spec.access_modes, at)
    requests = rules.quantities(spec.resources.requests, f"{at}.resources.requests")
    if requests.get(STORAGE, 0) <= 0:
        raise ApiError(f"{at}.resources.requests.{STORAGE}", "must be more than 0")
    rules.label_selector(spec.selector, f"{at}.selector")
    rules.one_of(spec.volume_mode, VOLUME_MODES, f"{at}.volumeMode")


def check_volume(volume: PersistentVolume) -> None:
    spec = volume.spec
    _access_modes(spec.access_modes, "spec")
    if rules.quantities(spec.capacity, "spec.capacity").get(STORAGE, 0) <= 0:
        raise ApiError(f"spec.capacity.{STORAGE}", "must be more than 0")
    rules.one_of(spec.volume_mode, VOLUME_MODES, "spec.volumeMode")


def check_storage_class(storage_class: StorageClass) -> None:
    rules.required(storage_class.provisioner, "provisioner")
    rules.one_of(storage_class.volume_binding_mode, BINDING_MODES, "volumeBindingMode")
    provisioning(storage_class.metadata.annotations)


def check_capacity(capacity: CSIStorageCapacity) -> None:
    rules.required(capacity.storage_class_name, "storageClassName")
    rules.label_selector(capacity.node_topology, "nodeTopology")
    for field, size in (("capacity", capacity.capacity), ("maximumVolumeSize", capacity.maximum_volume_size)):
        if size is not None:
            rules.quantities({STORAGE: size}, field)


def _access_modes(modes: list[str], at: str) -> None:
    if not modes:
        raise ApiError(f"{at}.accessModes", "is required")
    for index, mode in enumerate(modes):
        rules.one_of(mode, ACCESS_MODES, f"{at}.accessModes[{index}]")
