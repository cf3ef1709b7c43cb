"""The trees of a cluster: from HyperNodes if there are any, otherwise from labels of its nodes.

Trees are made when they are asked for and kept until a node comes or goes, its labels change, or a HyperNode changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stromboli.api import ApiError, HyperNode, validate

from .hyper_nodes import Problem, Resolved, resolve
from .labels import by_labels
from .members import Labels, Members, PatternMatches
from .tree import NO_TREE, Tree


class Topology:
    def __init__(self, nodes: Callable[[], Sequence[tuple[str, Labels]]] = tuple) -> None:
        """`nodes`: names and labels in the order of rows."""
        self._nodes = nodes
        self._objects: dict[str, HyperNode] = {}
        self._invalid: dict[str, str] = {}  # what is wrong with some of them, by name
        self._patterns = PatternMatches()
        self._forget()

    def _forget(self) -> None:
        self._members: Members | None = None
        self._resolved: tuple[Resolved, Tree] | None = None
        self._by_keys: dict[tuple[str, ...], Tree] = {}

    # -- in -----------------------------------------------------------------------------------------------------

    def nodes_changed(self) -> None:
        """Rows or labels of nodes are others than before."""
        self._forget()

    def apply(self, obj: HyperNode) -> None:
        before = self._objects.get(obj.metadata.name)
        self._objects[obj.metadata.name] = obj
        if before is None or before.spec != obj.spec:
            self._judge(obj)
            self._resolved = None

    def _judge(self, obj: HyperNode) -> None:
        self._invalid.pop(obj.metadata.name, None)
        try:
            validate(obj)
        except ApiError as error:
            self._invalid[obj.metadata.name] = f"{error.field}: {error.message}"

    def delete(self, name: str) -> None:
        if self._objects.pop(name, None) is not None:
            self._invalid.pop(name, None)
            self._resolved = None

    # -- out ----------------------------------------------------------------------------------------------------

    def known(self, name: str) -> HyperNode | None:
        return self._objects.get(name)

    @property
    def has_hyper_nodes(self) -> bool:
        return bool(self._objects)

    def tree(self, keys: Sequence[str]) -> Tree:
        """Of the HyperNodes if there are any, otherwise of these labels, from the widest to the narrowest."""
        if self._objects:
            return self._of_hyper_nodes()[1]
        return self._of_labels(tuple(keys)) if keys else NO_TREE

    def by_label(self, key: str) -> Tree:
        """The domains of one label, in one tier."""
        return self._of_labels((key,))

    @property
    def problems(self) -> Mapping[str, Problem]:
        """What is wrong with HyperNodes, by name."""
        return self._of_hyper_nodes()[0].problems if self._objects else {}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many nodes each HyperNode has, in use or not, by name."""
        return self._of_hyper_nodes()[0].counts if self._objects else {}

    def _of_hyper_nodes(self) -> tuple[Resolved, Tree]:
        if self._resolved is None:
            nodes = self._known_nodes()
            resolved = resolve(self._objects.values(), nodes, self._invalid)
            self._resolved = (resolved, Tree(len(nodes), [(*one[:3], one[3].tolist()) for one in resolved.found]))
        return self._resolved

    def _of_labels(self, keys: tuple[str, ...]) -> Tree:
        known = self._by_keys.get(keys)
        if known is None:
            nodes = self._known_nodes()
            if nodes.keys.isdisjoint(keys):
                return NO_TREE
            known = self._by_keys[keys] = by_labels(keys, nodes)
        return known

    def _known_nodes(self) -> Members:
        if self._members is None:
            self._members = Members(self._nodes(), self._patterns)
        return self._members
