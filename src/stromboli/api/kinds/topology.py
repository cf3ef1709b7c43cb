"""HyperNodes under Volcano's name: sets of nodes that are close together, such as racks, in a tree.

A HyperNode has nodes or other HyperNodes as members. The lower its tier, the closer its nodes are to each other.
"""

from __future__ import annotations

from msgspec import field

from .metadata import ApiObject, ApiStruct, Condition, LabelSelector


class ExactMatch(ApiStruct):
    name: str = ""


class RegexMatch(ApiStruct):
    pattern: str = ""


class MemberSelector(ApiStruct):
    """One of them is given."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(ApiStruct):
    type: str = ""
    selector: MemberSelector = field(default_factory=MemberSelector)


class HyperNodeSpec(ApiStruct):
    tier: int | None = None
    tier_name: str = ""
    members: list[HyperNodeMember] = field(default_factory=list)


class HyperNodeStatus(ApiStruct):
    conditions: list[Condition] = field(default_factory=list)
    node_count: int = 0


class HyperNode(ApiObject):
    api_version: str = "topology.volcano.sh/v1alpha1"
    kind: str = "HyperNode"
    spec: HyperNodeSpec = field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = field(default_factory=HyperNodeStatus)
