"""What a group asks for: how close together its pods must be, and which of them form sub-groups.

A PodGroup states this as Volcano has it, in `networkTopology` and `subGroupPolicy`. A mode that is not given is `hard`.
A hard group without a highest tier must be inside one domain, of whatever tier: so say Volcano's documents, though its
scheduler ignores such a group's mode.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.api import LabelSelector
from stromboli.api.kinds.batch import NetworkTopology, PodGroupSpec
from stromboli.api.kinds.batch import SubGroupPolicy as PolicySpec


@dataclass(frozen=True)
class Closeness:
    """`hard`: pods never go beyond one domain of the highest tier. Otherwise they go as far as they have to."""

    hard: bool
    highest_tier: int | None = None  # the number of the tier; None: see the name
    highest_tier_name: str = ""  # "" without a number: any tier
    label_key: str = ""  # not domains of the tree, but those that nodes have by this label


@dataclass(frozen=True)
class SubGroupPolicy:
    """Pods that the selector matches form a sub-group for each combination of values that they have for the keys; all
    of them form one if there are no keys. A pod without a value for one of the keys is in none."""

    name: str  # of one with `groups`: what these are, such as "PodGroup x"
    keys: tuple[str, ...]
    size: int | None  # how many pods make a sub-group whole; None: as many as there are
    least: int  # how many sub-groups there must be before the group starts
    closeness: Closeness | None
    selector: LabelSelector | None = field(default=None, hash=False)  # None: all pods
    # PodGroups of scheduling.k8s.io whose pods these are, by name; then no selector counts. With each, how many pods it
    # must have before one of them starts.
    groups: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Layout:
    closeness: Closeness | None  # of the group as a whole
    policies: tuple[SubGroupPolicy, ...] = ()


def layout_of(spec: PodGroupSpec) -> Layout | None:
    """None for a group that asks for nothing of this."""
    if spec.network_topology is None and not spec.sub_group_policy:
        return None
    return Layout(_closeness(spec.network_topology), tuple(map(_policy, spec.sub_group_policy)))


def _closeness(topology: NetworkTopology | None) -> Closeness | None:
    if topology is None:
        return None
    return Closeness(topology.mode != "soft", topology.highest_tier_allowed, topology.highest_tier_name)


def _policy(spec: PolicySpec) -> SubGroupPolicy:
    return SubGroupPolicy(
        name=spec.name,
        selector=spec.label_selector,
        keys=tuple(spec.match_label_keys),
        size=spec.sub_group_size,
        least=spec.min_sub_groups or 0,
        closeness=_closeness(spec.network_topology),
    )
