"""HyperNodes made from labels of nodes, so that people and other programs see the same tree as the scheduler.

The scheduler can read such labels itself (`topologyKeys` in its configuration). Objects show which nodes each domain
has, and people can add to them, for example a domain that no label names. There is one for each value of each label,
with the nodes and narrower domains inside it: the tree that `cluster.topology.labels` makes.

Objects made here have a label that says so. Only those are changed and deleted. The others are their users': if one of
them has a name that is needed here, the one from labels gets a longer name.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import ClassVar, Final

from msgspec.structs import replace

from stromboli.api import ExactMatch, HyperNode, HyperNodeMember, HyperNodeSpec, KObject, MemberSelector, Node, names
from stromboli.api.kinds.metadata import ObjectMeta
from stromboli.cluster.topology import Domain, Members, PatternMatches, Tree, by_labels
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update

SOURCE: Final = "label"
_LONGEST: Final = 200  # of a name that is taken from labels; the limit for names of objects is 253
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")

Labels = Mapping[str, str]


class HyperNodeDiscovery:
    observes: ClassVar = (HyperNode, Node)

    def __init__(self, keys: Sequence[str]) -> None:
        """`keys`: the labels, from the widest to the narrowest."""
        self._keys = tuple(keys)
        self._labels: dict[str, Labels] = {}  # by node: those with one of the keys only
        self._is_due = True

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        if isinstance(obj, HyperNode):
            self._is_due = True
            return
        name = obj.metadata.name
        known = self._labels.pop(name, {})
        if after is not None:
            found = {key: value for key in self._keys if (value := after.metadata.labels.get(key))}
            if found:
                self._labels[name] = found
        self._is_due = self._is_due or self._labels.get(name, {}) != known

    def next_due(self, now: float) -> float | None:
        return None

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        if not self._is_due:
            return []
        others = {one.metadata.name for one in objects.list(HyperNode) if not _is_made_here(one)}
        wanted = {one.metadata.name: one for one in self._wanted(others)}
        present = {one.metadata.name: one for one in objects.list(HyperNode) if _is_made_here(one)}
        changes: list[Change] = [Create(one) for name, one in wanted.items() if name not in present]
        for name, one in present.items():
            if name not in wanted:
                changes.append(Delete(one))
            elif (one.spec, one.metadata.labels) != (wanted[name].spec, wanted[name].metadata.labels):
                meta = replace(one.metadata, labels=wanted[name].metadata.labels)
                changes.append(Update(replace(one, metadata=meta, spec=wanted[name].spec)))
        self._is_due = bool(changes)  # they may fail
        return changes

    def _wanted(self, others: Container[str]) -> Iterator[HyperNode]:
        nodes = Members(sorted(self._labels.items(), key=lambda one: one[0]), PatternMatches())
        tree = by_labels(self._keys, nodes)
        name_of = _names(tree, others)
        for domain in tree.domains:
            first = nodes.names[int(domain.rows[0])]
            wider = self._keys[: len(self._keys) - domain.tier + 1]
            labels = {key: value for key in wider if (value := self._labels[first].get(key))}
            yield HyperNode(
                metadata=ObjectMeta(name=name_of[domain.index], labels=labels | {names.TOPOLOGY_SOURCE: SOURCE}),
                spec=HyperNodeSpec(
                    tier=domain.tier, tier_name=domain.tier_name, members=[*_members(tree, domain, nodes, name_of)]
                ),
            )


def _is_made_here(hyper_node: HyperNode) -> bool:
    return hyper_node.metadata.labels.get(names.TOPOLOGY_SOURCE) == SOURCE


def _members(tree: Tree, domain: Domain, nodes: Members, name_of: Mapping[int, str]) -> Iterator[HyperNodeMember]:
    """The narrower domains, and the nodes that are in none of them."""
    inside: set[int] = set()
    for part in tree.parts_of(domain):
        inside.update(part.rows.tolist())
        yield _member("HyperNode", name_of[part.index])
    for row in domain.rows.tolist():
        if row not in inside:
            yield _member("Node", nodes.names[row])


def _member(kind: str, name: str) -> HyperNodeMember:
    return HyperNodeMember(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))


def _names(tree: Tree, others: Container[str]) -> dict[int, str]:
    """Those of the domains, as far as an object may have them. Which one stays as it is must not depend on anything but
    the domains and the objects of users."""
    found: dict[int, str] = {}
    taken: dict[str, int] = {}
    for domain in tree.domains:
        name = _NOT_IN_NAMES.sub("-", domain.name.lower()).strip("-")[:_LONGEST].rstrip("-")
        if name != domain.name or name in others or name in taken:
            digest = sha256(f"{domain.tier_name}={domain.name}".encode()).hexdigest()[:8]
            name = f"{name}-{digest}".lstrip("-")
        taken[name] = domain.index
        found[domain.index] = name
    return found
