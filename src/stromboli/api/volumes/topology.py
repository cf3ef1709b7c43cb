"""Which nodes a volume can be reached from, and for which nodes a class makes volumes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final

import msgspec

from stromboli.api import names
from stromboli.api.kinds.storage import CSINode, CSINodeDriver, PersistentVolume, TopologySelectorTerm
from stromboli.api.selectors import matches_node_selector

# Labels that were replaced, with those that replaced them. Old volumes still have the first, and new nodes the second.
SUCCESSORS: Final = {
    "failure-domain.beta.kubernetes.io/zone": names.ZONE,
    "failure-domain.beta.kubernetes.io/region": names.REGION,
}
ZONE_LABELS: Final = (names.ZONE, names.REGION, *SUCCESSORS)
_BETWEEN_ZONES: Final = "__"

Labels = Mapping[str, str]


def zones_of(volume: PersistentVolume) -> tuple[tuple[str, frozenset[str]], ...]:
    """(label, values) of each zone label; a volume in several zones has their names joined."""
    labels = volume.metadata.labels
    return tuple((label, frozenset(labels[label].split(_BETWEEN_ZONES))) for label in ZONE_LABELS if label in labels)


def in_zones(zones: Iterable[tuple[str, frozenset[str]]], labels: Labels) -> bool:
    """Whether a node is in the zones of a volume. A node without any zone label is everywhere."""
    if not any(label in labels for label in ZONE_LABELS):
        return True
    return all(_value(label, labels) in values for label, values in zones)


def _value(label: str, labels: Labels) -> str:
    """The value of a zone label of a node."""
    return labels.get(label) or labels.get(SUCCESSORS.get(label, ""), "")


def matches_affinity(volume: PersistentVolume, labels: Labels, node: str) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return matches_node_selector(affinity.required, labels, node)


def reaches(volume: PersistentVolume, labels: Labels, node: str, *, zones: bool = True) -> bool:
    """`zones`: whether zone labels of the volume count."""
    return matches_affinity(volume, labels, node) and (not zones or in_zones(zones_of(volume), labels))


EVERYWHERE: Final = (None, ())
"""The `reach_key` of volumes that can be reached from all nodes."""


def reach_key(volume: PersistentVolume) -> Hashable:
    """Equal for volumes that can be reached from the same nodes."""
    affinity = volume.spec.node_affinity
    required = None if affinity is None or affinity.required is None else msgspec.json.encode(affinity.required)
    return required, zones_of(volume)


def allows(topologies: Iterable[TopologySelectorTerm], labels: Labels) -> bool:
    """Whether a class makes volumes for a node with these labels; no terms mean every node."""
    terms = list(topologies)
    return not terms or any(
        all(labels.get(one.key) in one.values for one in term.match_label_expressions) for term in terms
    )


def driver_on(csi_node: CSINode | None, driver: str) -> CSINodeDriver | None:
    """What a driver says about a node; None if it is not there."""
    for known in csi_node.spec.drivers if csi_node is not None else ():
        if known.name == driver:
            return known
    return None
