"""HyperNodes resolved: which domains they make of the nodes, and what is wrong with them.

People and programs write HyperNodes one by one, so at any moment some may contradict others. Such a HyperNode is left
out whole, and so is every one that has it as a member: a rack with half of its nodes would be a wrong answer to every
question. Who is right cannot be known, so the order is fixed: lower tiers come first, then names; what contradicts
an earlier one is left out. The others stay in use. One that is invalid by itself is left out, too: not every server
refuses it, and none can tell whether a pattern is a regular expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from stromboli.api import HyperNode
from stromboli.api.kinds.topology import MemberSelector

from .members import Members
from .tree import Rows

_SHOWN = 3  # names in one message
_NONE: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class Problem:
    """What is wrong with a HyperNode. `left_out`: it is no domain because of that."""

    reason: str
    message: str
    left_out: bool


@dataclass(frozen=True)
class Resolved:
    found: list[tuple[str, int, str, Rows]] = field(default_factory=list)  # as `Tree` takes them
    problems: dict[str, Problem] = field(default_factory=dict)  # by HyperNode
    counts: dict[str, int] = field(default_factory=dict)  # how many nodes each has, in use or not


def resolve(hyper_nodes: Iterable[HyperNode], members: Members, invalid: Mapping[str, str] = _NONE) -> Resolved:
    """`invalid`: what is wrong with some of them, whatever the others are."""
    return _Resolution({obj.metadata.name: obj for obj in hyper_nodes}, members, invalid).run()


class _Resolution:
    def __init__(self, objects: Mapping[str, HyperNode], members: Members, invalid: Mapping[str, str]) -> None:
        self._objects = objects
        self._invalid = invalid
        self._nodes = members
        self._inner = {name: sorted(_inner(obj)) for name, obj in objects.items()}
        self._parents: dict[str, str] = {}  # of those in use
        self._rows: dict[str, Rows] = {}  # of all, in use or not
        self._domain_of: dict[int, Rows] = {}  # by tier, then row: which of those in use, -1 for none
        self._used: list[str] = []
        self._tier_names: dict[str, str] = {}  # the HyperNode that had it first
        self._result = Resolved()

    def run(self) -> Resolved:
        for name, error in self._invalid.items():
            self._leave_out(name, "Invalid", error)
        on_cycles = self._on_cycles()
        for name in sorted(on_cycles - self._invalid.keys()):
            way = " → ".join(self._cycle(name))
            self._leave_out(name, "Cycle", f"It is a member of itself: {way}. Remove one of these members.")
        for name in sorted(self._objects, key=lambda name: (self._tier(name), name)):
            self._rows[name] = self._collect(name)
            self._result.counts[name] = len(self._rows[name])
            if name not in on_cycles and name not in self._invalid and not self._contradicts(name):
                self._use(name)
        return self._result

    def _tier(self, name: str) -> int:
        return self._objects[name].spec.tier or 0

    def _leave_out(self, name: str, reason: str, message: str) -> bool:
        self._result.problems[name] = Problem(reason, message, left_out=True)
        return True

    def _remark(self, name: str, reason: str, message: str) -> None:
        self._result.problems.setdefault(name, Problem(reason, message, left_out=False))

    # -- members ----------------------------------------------------------------------------------------------------

    def _on_cycles(self) -> set[str]:
        """Those that are their own member, over others."""
        left = set(self._objects)
        while True:  # Whoever has only members that are on no cycle is on none.
            ends = {name for name in left if left.isdisjoint(self._inner[name])}
            if not ends:
                return {name for name in left if len(self._cycle(name)) > 1}
            left -= ends

    def _cycle(self, name: str) -> list[str]:
        """The shortest way from a HyperNode back to itself; itself alone if there is none."""
        came_from: dict[str, str] = {}
        ends = [name]
        while ends:
            following: list[str] = []
            for end in ends:
                for inner in self._inner.get(end, ()):
                    if inner == name:
                        return [name, *reversed(_way(end, came_from, name)), name]
                    if inner in self._objects and inner not in came_from:
                        came_from[inner] = end
                        following.append(inner)
            ends = following
        return [name]

    def _collect(self, name: str) -> Rows:
        """All its nodes. Members are of lower tiers, so they have theirs already. What has no nodes is reported."""
        rows: set[int] = set()
        missing: list[str] = []
        for member in self._objects[name].spec.members:
            if member.type == "HyperNode":
                inner = "" if member.selector.exact_match is None else member.selector.exact_match.name
                rows.update(self._rows[inner].tolist() if inner in self._rows else ())
                if inner not in self._objects:
                    missing.append(f"there is no HyperNode {inner}")
            else:
                selected = self._nodes.selected(member.selector)
                rows.update(selected)
                if not selected:
                    missing.append(_missing(member.selector))
        if missing:
            shown = "; ".join(missing[:_SHOWN])
            more = f"; and {len(missing) - _SHOWN} more members without nodes" if len(missing) > _SHOWN else ""
            has = f"It has {_number(len(rows), 'node')} by its other members" if rows else "It has no nodes"
            self._remark(name, "MembersMissing", f"{has}: {shown}{more}.")
        return np.array(sorted(rows), dtype=np.int64)

    # -- contradictions ---------------------------------------------------------------------------------------------

    def _contradicts(self, name: str) -> bool:
        """Whether it contradicts those in use. Then it is left out."""
        return self._has_bad_member(name) or self._divides_a_domain(name)

    def _has_bad_member(self, name: str) -> bool:
        tier = self._tier(name)
        for inner in self._inner[name]:
            if inner not in self._objects:
                continue
            if self._tier(inner) >= tier:
                return self._leave_out(
                    name, "TierOrder",
                    f"Its tier is {tier}, and that of its member {inner} is {self._tier(inner)}. The tier must be "
                    "above those of all members.",
                )  # fmt: skip
            problem = self._result.problems.get(inner)
            if problem is not None and problem.left_out:
                return self._leave_out(
                    name, "MemberLeftOut", f"Its member {inner} cannot be used ({problem.reason}), so neither can it."
                )
            if inner in self._parents:
                return self._leave_out(
                    name, "TwoParents",
                    f"Its member {inner} is a member of {self._parents[inner]}, too. A HyperNode can be in one other "
                    "only.",
                )  # fmt: skip
        return False

    def _divides_a_domain(self, name: str) -> bool:
        """Whether it has a node that another one of its tier has, or a part of the nodes of one below it."""
        rows, tier = self._rows[name], self._tier(name)
        for below in sorted(self._domain_of):
            domain_of = self._domain_of[below]
            if below == tier:
                shared = rows[domain_of[rows] >= 0]
                if len(shared):
                    other = self._used[int(domain_of[shared[0]])]
                    return self._leave_out(
                        name, "Overlap",
                        f"{_number(len(shared), 'node')} of it, such as {self._nodes.names[int(shared[0])]}, "
                        f"{'is' if len(shared) == 1 else 'are'} in {other}, which has the same tier ({tier}). A node "
                        "can be in one HyperNode of a tier only.",
                    )  # fmt: skip
                continue
            indices, has = np.unique(domain_of[rows], return_counts=True)
            for index, count in zip(indices.tolist(), has.tolist(), strict=True):
                if index >= 0 and count < len(self._rows[self._used[index]]):
                    other = self._used[index]
                    return self._leave_out(
                        name, "Overlap",
                        f"It has {count} of the {len(self._rows[other])} nodes of {other}, whose tier {below} is below "
                        "its own. It must have all of them or none.",
                    )  # fmt: skip
        return False

    def _use(self, name: str) -> None:
        spec, rows, tier = self._objects[name].spec, self._rows[name], self._tier(name)
        for inner in self._inner[name]:
            self._parents[inner] = name
        domain_of = self._domain_of.get(tier)
        if domain_of is None:
            domain_of = self._domain_of[tier] = np.full(len(self._nodes), -1, dtype=np.int64)
        domain_of[rows] = len(self._used)
        self._used.append(name)
        self._result.found.append((name, tier, spec.tier_name, rows))
        if spec.tier_name:
            first = self._tier_names.setdefault(spec.tier_name, name)
            if self._tier(first) != tier:
                self._remark(
                    name, "TierName",
                    f"It calls tier {tier} {spec.tier_name}, as {first} calls tier {self._tier(first)}. Groups that "
                    f"name this tier get tier {self._tier(first)}.",
                )  # fmt: skip


def _inner(obj: HyperNode) -> Iterator[str]:
    """The names of its members that are HyperNodes."""
    yield from {
        member.selector.exact_match.name
        for member in obj.spec.members
        if member.type == "HyperNode" and member.selector.exact_match is not None
    }


def _missing(selector: MemberSelector) -> str:
    if selector.exact_match is not None:
        return f"there is no node {selector.exact_match.name}"
    if selector.regex_match is not None:
        return f'no node has a name that "{selector.regex_match.pattern}" matches'
    return "no node has the labels of a member"


def _way(end: str, came_from: Mapping[str, str], start: str) -> list[str]:
    way: list[str] = []
    while end != start:
        way.append(end)
        end = came_from[end]
    return way


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
