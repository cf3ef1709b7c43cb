"""Which nodes can reach a volume, or have one made, as arrays.

A cluster has few different zones and classes, so each mask is computed once and used for thousands of claims.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import reduce
from typing import Final

import numpy as np

from stromboli.api import LabelSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume
from stromboli.api import PersistentVolumeClaim as Claim
from stromboli.api.volumes.claims import requested_size
from stromboli.api.volumes.topology import SUCCESSORS, ZONE_LABELS, zones_of
from stromboli.cluster import VolumeIndex
from stromboli.scheduling.volumes.provisioning import class_of, counts_capacity, sufficient

from .node_facts import Mask, NodeFacts

_IN: Final = "In"


class VolumeMasks:
    def __init__(self, index: VolumeIndex, facts: NodeFacts) -> None:
        self._index = index
        self._facts = facts
        self._known: dict[Hashable, Mask] = {}
        self._without_zones: Mask | None = None

    def everywhere(self) -> Mask:
        return np.ones(len(self._facts), dtype=np.bool_)

    def nowhere(self) -> Mask:
        return np.zeros(len(self._facts), dtype=np.bool_)

    def by_affinity(self, volume: PersistentVolume) -> Mask:
        """Nodes that match the node affinity of a volume."""
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return self.everywhere()
        key = ("affinity", self._index.reaches[volume.metadata.name])
        if key not in self._known:
            terms = [self._facts.satisfying(term) for term in affinity.required.node_selector_terms]
            self._known[key] = reduce(np.logical_or, terms, self.nowhere())
        return self._known[key]

    def by_zones(self, volume: PersistentVolume) -> Mask:
        """Nodes in the zones that the labels of a volume name, and nodes without zones."""
        zones = zones_of(volume)
        if not zones:
            return self.everywhere()
        key = ("zones", zones)
        if key not in self._known:
            masks = [self._in_zone(label, values) for label, values in zones]
            self._known[key] = reduce(np.logical_and, masks) | self._nodes_without_zones()
        return self._known[key]

    def _in_zone(self, label: str, values: frozenset[str]) -> Mask:
        mask = self.labelled([(label, values)])
        if label in SUCCESSORS:
            mask |= (self._facts.column(label).codes == 0) & self.labelled([(SUCCESSORS[label], values)])
        return mask

    def provisioning(self, claim: Claim) -> Mask:
        """Nodes for which the class of a claim makes a volume of that size."""
        key = ("provisioning", claim.spec.storage_class_name, requested_size(claim))
        if key not in self._known:
            self._known[key] = self._provisioning(claim)
        return self._known[key]

    def with_labels(self, labels: Mapping[str, str]) -> Mask:
        """Nodes with these labels; a value of "" means none."""
        key = ("labels", tuple(sorted(labels.items())))
        if key not in self._known:
            mask = self.everywhere()
            for label, value in labels.items():
                column = self._facts.column(label)
                code = column.values.index(value) + 1 if value in column.values else (0 if value == "" else -1)
                mask &= column.codes == code
            self._known[key] = mask
        return self._known[key]

    def _provisioning(self, claim: Claim) -> Mask:
        storage_class = class_of(self._index, claim)
        if storage_class is None:
            return self.nowhere()
        mask = self.everywhere()
        if storage_class.allowed_topologies:
            terms = [
                self.labelled([(one.key, frozenset(one.values)) for one in term.match_label_expressions])
                for term in storage_class.allowed_topologies
            ]
            mask &= reduce(np.logical_or, terms, self.nowhere())
        if counts_capacity(self._index, storage_class):
            places = [self._selected(one.node_topology) for one in sufficient(self._index, claim, storage_class)]
            mask &= reduce(np.logical_or, places, self.nowhere())
        return mask

    def labelled(self, wanted: list[tuple[str, frozenset[str]]]) -> Mask:
        """Nodes whose labels have one of these values each."""
        mask = self.everywhere()
        for label, values in wanted:
            column = self._facts.column(label)
            fits = np.array([False, *(value in values for value in column.values)], dtype=np.bool_)
            mask &= fits[column.codes]
        return mask

    def _selected(self, selector: LabelSelector | None) -> Mask:
        if selector is None:
            return self.nowhere()
        mask = self.labelled([(label, frozenset({value})) for label, value in selector.match_labels.items()])
        for one in selector.match_expressions:
            requirement = NodeSelectorRequirement(key=one.key, operator=one.operator, values=one.values)
            mask &= self._facts.satisfying(NodeSelectorTerm(match_expressions=[requirement]))
        return mask

    def _nodes_without_zones(self) -> Mask:
        if self._without_zones is None:
            columns = [self._facts.column(label).codes == 0 for label in ZONE_LABELS]
            self._without_zones = reduce(np.logical_and, columns, self.everywhere())
        return self._without_zones
