"""HyperNodes: how their members are selected.

The rules between a HyperNode and others, such as that none is in two others, need all HyperNodes and nodes at once:
they are in `cluster.topology.hyper_nodes`, and the controllers report what breaks them.
"""

from __future__ import annotations

from typing import Final

from stromboli.api.kinds.topology import HyperNode, HyperNodeMember, MemberSelector

from .rule import Rule, unless

_ONE_MUST: Final = "must have exactly one of exactMatch, regexMatch and labelMatch"
_EXACT_MUST: Final = "must have an exactMatch, as the member is a HyperNode"
_ITSELF_MUST: Final = "must not have the HyperNode itself"
_FIELDS: Final = ("exactMatch", "regexMatch", "labelMatch")


def _one_selector(selector: MemberSelector) -> str:
    given = (selector.exact_match, selector.regex_match, selector.label_match)
    return unless(sum(one is not None for one in given) == 1, _ONE_MUST)


def _exact(member: HyperNodeMember) -> str:
    return unless(member.type != "HyperNode" or member.selector.exact_match is not None, _EXACT_MUST)


def _not_itself(obj: HyperNode) -> str:
    named = [
        member.selector.exact_match.name
        for member in obj.spec.members
        if member.type == "HyperNode" and member.selector.exact_match is not None
    ]
    return unless(obj.metadata.name not in named, _ITSELF_MUST)


RULES: Final = (
    Rule(
        on=MemberSelector, field="", must=_ONE_MUST, broken=_one_selector,
        cel=" + ".join(f"(has(self.{name}) ? 1 : 0)" for name in _FIELDS) + " == 1",
    ),
    Rule(
        on=HyperNodeMember, field="selector", must=_EXACT_MUST, broken=_exact,
        cel="self.type != 'HyperNode' || has(self.selector) && has(self.selector.exactMatch)",
    ),
    Rule(
        on=HyperNode, field="spec.members", must=_ITSELF_MUST, broken=_not_itself,
        cel="!has(self.spec) || !has(self.spec.members) || self.spec.members.all(m, m.type != 'HyperNode'"
        " || !has(m.selector) || !has(m.selector.exactMatch) || m.selector.exactMatch.name != self.metadata.name)",
    ),
)  # fmt: skip
