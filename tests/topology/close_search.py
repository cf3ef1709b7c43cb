"""Whether a group has room somewhere: all ways to place it are tried. For small worlds only, and with nobody's help.

It knows of nothing but CPUs. A group has room in a set of nodes if so many of its waiting pods find a place there that
it reaches its minimum, and for each policy so many sub-groups are whole, each in one of the domains that it may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Free = tuple[int, ...]  # by node, in the order of their names
Nodes = frozenset[int]


@dataclass(frozen=True)
class Unit:
    """A sub-group that all its pods, which wait, would make whole."""

    policy: str
    pods: tuple[int, ...]  # their CPUs, the largest first
    domains: tuple[Nodes, ...]  # where it may be


@dataclass(frozen=True)
class Lacks:
    """What a group still needs before it can start."""

    pods: int
    units: tuple[tuple[str, int], ...]  # by policy

    @property
    def nothing(self) -> bool:
        return self.pods <= 0 and all(number <= 0 for _, number in self.units)

    def without(self, unit: Unit) -> Lacks:
        units = tuple((name, number - (name == unit.policy)) for name, number in self.units)
        return Lacks(self.pods - len(unit.pods), units)


def has_room(
    free: Free, domains: Iterable[Nodes], units: Sequence[Unit], loose: Sequence[int], lacks: Lacks
) -> Nodes | None:
    """The first of these sets of nodes in which the group could start."""
    for domain in domains:
        if _fits(free, domain, tuple(units), tuple(sorted(loose)), lacks, set()):
            return domain
    return None


def _fits(free: Free, domain: Nodes, units: tuple[Unit, ...], loose: tuple[int, ...], lacks: Lacks, seen: set) -> bool:  # type: ignore[type-arg]
    """Sub-groups one by one, each in every possible way or not at all; then pods of none, the smallest ones."""
    state = (free, len(units), lacks)
    if state in seen:
        return False
    seen.add(state)
    if all(number <= 0 for _, number in lacks.units):
        needed = max(lacks.pods, 0)
        if needed <= len(loose) and any(_places(free, domain, tuple(reversed(loose[:needed])))):
            return True
    if not units:
        return False
    first, *others = units
    for inside in first.domains:
        for left in _places(free, inside & domain, first.pods):
            if _fits(left, domain, tuple(others), loose, lacks.without(first), seen):
                return True
    return _fits(free, domain, tuple(others), loose, lacks, seen)


def _places(free: Free, nodes: Nodes, pods: tuple[int, ...]) -> Iterator[Free]:
    """What is left after each way to place all these pods. Equal pods are not told apart."""
    yield from sorted(_ways(free, nodes, pods))


def _ways(free: Free, nodes: Nodes, pods: tuple[int, ...]) -> set[Free]:
    ways = {free}
    for cpu in pods:
        ways = {
            (*left[:node], left[node] - cpu, *left[node + 1 :]) for left in ways for node in nodes if left[node] >= cpu
        }
    return ways
