"""What single fields of HyperNodes must be, and labels of nodes that say the same. Rules over several fields are in
`api.rules`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api.errors import ApiError
from stromboli.api.kinds.topology import HyperNode, MemberSelector

from . import limits, rules
from .patterns import Pattern

MEMBER_TYPES = ("Node", "HyperNode")
MAX_TIER_NAME = 253  # characters
MAX_TOPOLOGY_KEYS = 16


def check_hyper_node(obj: HyperNode) -> None:
    spec = obj.spec
    if spec.tier is None:
        raise ApiError("spec.tier", "is required")
    rules.at_least(spec.tier, 0, "spec.tier")
    if len(spec.tier_name) > MAX_TIER_NAME:
        raise ApiError("spec.tierName", f"must be at most {MAX_TIER_NAME} characters, not {len(spec.tier_name)}")
    if not spec.members:
        raise ApiError("spec.members", "must have at least one member")
    limits.at_most(limits.MAX_MEMBERS, spec.members, "spec.members", "members; select nodes by a label")
    for index, member in enumerate(spec.members):
        rules.required(member.type, f"spec.members[{index}].type")
        rules.one_of(member.type, MEMBER_TYPES, f"spec.members[{index}].type")
        _selector(member.selector, f"spec.members[{index}].selector")


def _selector(selector: MemberSelector, at: str) -> None:
    if selector.exact_match is not None:
        rules.required(selector.exact_match.name, f"{at}.exactMatch.name")
        rules.dns_subdomain(selector.exact_match.name, f"{at}.exactMatch.name")
    if selector.regex_match is not None:
        _pattern(selector.regex_match.pattern, f"{at}.regexMatch.pattern")
    rules.operators(selector.label_match, f"{at}.labelMatch")


def _pattern(text: str, at: str) -> None:
    rules.required(text, at)
    if len(text) > limits.MAX_PATTERN:
        raise ApiError(at, f"must be at most {limits.MAX_PATTERN} characters, not {len(text)}")
    try:
        Pattern(text)
    except ValueError as error:
        raise ApiError(at, f"must be a regular expression such as rack-1-.*: {error}") from None


def check_topology_keys(keys: Sequence[str], at: str) -> None:
    """Labels of nodes, from the widest to the narrowest."""
    if len(keys) > MAX_TOPOLOGY_KEYS:
        raise ApiError(at, f"must be at most {MAX_TOPOLOGY_KEYS} labels")
    for key in keys:
        try:
            rules.label_key(key, at)
        except ApiError:
            raise ApiError(at, 'must be labels such as "topology.kubernetes.io/zone"') from None
        if keys.count(key) > 1:
            raise ApiError(at, f'must name "{key}" once')


def parse_topology_keys(text: str, at: str) -> tuple[str, ...]:
    """Such labels, separated by commas."""
    keys = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
    check_topology_keys(keys, at)
    return keys
