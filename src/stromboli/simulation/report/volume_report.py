"""Claims and volumes in the report of a run: which volume a claim got, and which node it was made for."""

from __future__ import annotations

from typing import Any

from stromboli.api import PersistentVolume, PersistentVolumeClaim, key
from stromboli.api.quantity import format_amount
from stromboli.api.volumes.claims import STORAGE, claim_of, requested_size, selected_node, volume_size
from stromboli.simulation.store import Store

Section = dict[str, Any]


def claims(store: Store) -> Section:
    """`node`: that the volume was made for; empty if the claim got a volume that existed."""
    return {
        key(claim): {
            "phase": claim.status.phase,
            "storageClass": claim.spec.storage_class_name or "",
            "requested": format_amount(STORAGE, requested_size(claim)),
            "volume": claim.spec.volume_name,
            "node": selected_node(claim),
        }
        for claim in store.list(PersistentVolumeClaim)
    }


def volumes(store: Store) -> Section:
    return {
        volume.metadata.name: {
            "phase": volume.status.phase,
            "storageClass": volume.spec.storage_class_name,
            "capacity": format_amount(STORAGE, volume_size(volume)),
            "claim": claim_of(volume),
        }
        for volume in store.list(PersistentVolume)
    }
