"""Existing volumes that claims of one kind could have, smallest first, and which of them are left.

There may be thousands of volumes and as many claims. Volumes that can be reached from the same nodes are a group, and a
group knows its smallest volume that is left. So a claim looks at the groups that a node reaches, not at volumes, and
where a claim of this kind can have a volume changes only when a group runs out, or gets one back (`log`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stromboli.api import PersistentVolume
from stromboli.api.volumes.claims import volume_size
from stromboli.api.volumes.topology import reaches
from stromboli.cluster import LogView, Node

_NAME = "metadata.name"

Order = tuple[int, str]


@dataclass(slots=True)
class _Group:
    """Volumes that can be reached from the same nodes. None of those before `first` is left."""

    volumes: list[PersistentVolume] = field(default_factory=list)
    is_left: list[bool] = field(default_factory=list)
    first: int = 0
    left: int = 0

    def smallest(self, besides: Collection[str]) -> PersistentVolume | None:
        for position in range(self.first, len(self.volumes)):
            if self.is_left[position]:
                volume = self.volumes[position]
                if volume.metadata.name not in besides:
                    return volume
        return None


class FreeVolumes:
    def __init__(self, volumes: Sequence[PersistentVolume], reach_of: Mapping[str, int], *, zones: bool) -> None:
        """`volumes`: smallest first; `reach_of`: equal for those that can be reached from the same nodes; `zones`:
        whether their zone labels count."""
        self._zones = zones
        self._groups: dict[int, _Group] = {}
        self._places: dict[str, tuple[int, int]] = {}  # by volume: its group, and its position there
        self._log: list[tuple[int, int]] = []
        for volume in volumes:
            reach = reach_of[volume.metadata.name]
            group = self._groups.setdefault(reach, _Group())
            self._places[volume.metadata.name] = (reach, len(group.volumes))
            group.volumes.append(volume)
            group.is_left.append(True)
            group.left += 1
        self._by_label: dict[str, dict[str, list[_Group]]] = {}
        self._anywhere: list[_Group] = []
        for group in self._groups.values():
            self._file(group)
        self._near: dict[str, list[_Group]] = {}  # by node

    def view(self) -> LogView[tuple[int, int]]:
        """Of groups that ran out (-1), or got a volume back (+1)."""
        return LogView(self._log)

    def __contains__(self, volume: str) -> bool:
        return volume in self._places

    def get(self, volume: str) -> PersistentVolume:
        reach, position = self._places[volume]
        return self._groups[reach].volumes[position]

    def any_of_each_group(self) -> list[tuple[int, PersistentVolume]]:
        """The groups with volumes that are left, and one volume of each."""
        return [(reach, group.volumes[0]) for reach, group in self._groups.items() if group.left]

    def one_of(self, reach: int) -> PersistentVolume:
        return self._groups[reach].volumes[0]

    def take(self, volume: str) -> None:
        reach, position = self._places[volume]
        group = self._groups[reach]
        if group.is_left[position]:
            group.is_left[position] = False
            group.left -= 1
            if not group.left:
                self._log.append((reach, -1))
            while group.first < len(group.volumes) and not group.is_left[group.first]:
                group.first += 1

    def give_back(self, volume: str) -> None:
        reach, position = self._places[volume]
        group = self._groups[reach]
        if not group.is_left[position]:
            group.is_left[position] = True
            group.left += 1
            if group.left == 1:
                self._log.append((reach, +1))
            group.first = min(group.first, position)

    def smallest(self, node: Node, besides: Collection[str]) -> PersistentVolume | None:
        """That is left and can be reached from the node."""
        found = [one for group in self._reached_from(node) if (one := group.smallest(besides)) is not None]
        return min(found, key=order, default=None)

    # -- groups near a node ---------------------------------------------------------------------------------------

    def _file(self, group: _Group) -> None:
        """Local volumes are thousands of groups, each of one node. They are found by the label that they require."""
        affinity = group.volumes[0].spec.node_affinity
        terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else []
        for one in [*terms[0].match_fields, *terms[0].match_expressions] if len(terms) == 1 else ():
            if one.operator == "In":
                by_value = self._by_label.setdefault(one.key, {})
                for value in dict.fromkeys(one.values):
                    by_value.setdefault(value, []).append(group)
                return
        self._anywhere.append(group)

    def _reached_from(self, node: Node) -> list[_Group]:
        known = self._near.get(node.name)
        if known is None:
            possible = list(self._anywhere)
            for label, by_value in self._by_label.items():
                value = node.name if label == _NAME else node.labels.get(label)
                possible += by_value.get(value, ()) if value is not None else ()
            known = [one for one in possible if reaches(one.volumes[0], node.labels, node.name, zones=self._zones)]
            self._near[node.name] = known
        return known


def order(volume: PersistentVolume) -> Order:
    """Smallest first."""
    return volume_size(volume), volume.metadata.name
