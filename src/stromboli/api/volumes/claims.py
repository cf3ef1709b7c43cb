"""What a claim or a volume says about itself.

A claim is bound once the controller of Kubernetes has completed both sides: the claim names its volume, the volume
names the claim, and an annotation of the claim says so. Anything else is still on its way.
"""

from __future__ import annotations

from stromboli.api import names
from stromboli.api.kinds.metadata import ObjectReference
from stromboli.api.kinds.storage import PersistentVolume, PersistentVolumeClaim
from stromboli.api.quantity import QuantityError, amount
from stromboli.api.selectors import matches_labels
from stromboli.api.timestamps import parse_timestamp

STORAGE = "storage"
ONE_POD = "ReadWriteOncePod"
DELAYED = "WaitForFirstConsumer"
LOST = "Lost"


def is_bound(claim: PersistentVolumeClaim) -> bool:
    if not claim.spec.volume_name:
        return False
    return names.BIND_COMPLETED in claim.metadata.annotations or claim.status.phase == "Bound"


def selected_node(claim: PersistentVolumeClaim) -> str:
    """The node for which its volume is to be made; "" if none is selected."""
    return claim.metadata.annotations.get(names.SELECTED_NODE, "")


def selected_at(claim: PersistentVolumeClaim) -> float | None:
    """When our scheduler selected the node; None if it did not."""
    written = claim.metadata.annotations.get(names.SELECTED_AT)
    try:
        return None if written is None else parse_timestamp(written)
    except ValueError:
        return None


def requested_size(claim: PersistentVolumeClaim) -> int:
    return _size(claim.spec.resources.requests.get(STORAGE, 0))


def volume_size(volume: PersistentVolume) -> int:
    return _size(volume.spec.capacity.get(STORAGE, 0))


def _size(written: str | int | float) -> int:
    try:
        return amount(STORAGE, written)
    except QuantityError:
        return 0


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    """How a volume names the claim it is for."""
    meta = claim.metadata
    return ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=meta.namespace, name=meta.name, uid=meta.uid
    )


def claim_of(volume: PersistentVolume) -> str:
    """The key of the claim that a volume names; "" if it names none."""
    ref = volume.spec.claim_ref
    return "" if ref is None else f"{ref.namespace}/{ref.name}"


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume names this very claim, and not an earlier one of that name."""
    ref = volume.spec.claim_ref
    return (
        ref is not None
        and (ref.namespace, ref.name) == (claim.metadata.namespace, claim.metadata.name)
        and ref.uid in ("", claim.metadata.uid)
    )


def is_free(volume: PersistentVolume) -> bool:
    """Whether any claim may have the volume."""
    meta = volume.metadata
    return (
        volume.spec.claim_ref is None
        and volume.status.phase in ("Available", "Pending", "")
        and (meta.deletion_timestamp is None)
    )


def suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is what the claim asks for, wherever it is."""
    wanted, offered = claim.spec, volume.spec
    return (
        offered.storage_class_name == (wanted.storage_class_name or "")
        and (offered.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
        and set(wanted.access_modes) <= set(offered.access_modes)
        and volume_size(volume) >= requested_size(claim)
        and (wanted.selector is None or matches_labels(wanted.selector, volume.metadata.labels))
    )
