"""What single fields of HyperNodes must be. Rules over several fields are in `api.rules`."""

from __future__ import annotations

from stromboli.api.errors import ApiError
from stromboli.api.kinds.topology import HyperNode, MemberSelector

from . import limits, rules
from .patterns import Pattern

MEMBER_TYPES = ("Node", "HyperNode")
MAX_TIER_NAME = 253  # characters


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
    rules.label_selector(selector.label_match, f"{at}.labelMatch")


def _pattern(text: str, at: str) -> None:
    rules.required(text, at)
    if len(text) > limits.MAX_PATTERN:
        raise ApiError(at, f"must be at most {limits.MAX_PATTERN} characters, not {len(text)}")
    try:
        Pattern(text)
    except ValueError as error:
        raise ApiError(at, f"must be a regular expression such as rack-1-.*: {error}") from None
