"""Labels and taints of all nodes, as arrays.

A cluster has thousands of nodes, but only a few different values of a label and a few different sets of taints. So a
label is a column of small codes, built on first use; a requirement is evaluated once for each *value* and then looked
up for each node. Taints are evaluated once for each distinct set. `stromboli.api.selectors` does the evaluation.

Code 0 of a column means that the node does not have the label. So arrays indexed by code have one entry more than there
are values, and a missing label is not a special case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stromboli.api import NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration
from stromboli.api.selectors import CORDON, KEEPS_AWAY, matches_node_term, tolerates, untolerated
from stromboli.cluster import Node
from stromboli.scheduling.callbacks import Rows, Scores

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]

DISCOURAGES = frozenset({"PreferNoSchedule"})


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """One label on all nodes: `codes` by row, 0 for none, else one more than the position in `values`."""

    codes: Codes
    values: tuple[str, ...]
    by_value: dict[str, int]  # the codes of `values`

    def codes_of(self, values: Iterable[str]) -> list[int]:
        """Of those of these values that some node has."""
        return [self.by_value[value] for value in dict.fromkeys(values) if value in self.by_value]

    @property
    def width(self) -> int:
        """The length of an array indexed by code."""
        return len(self.values) + 1


class NodeFacts:
    """Labels and taints of the nodes of one session, in the order of rows."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._columns: dict[str, LabelColumn] = {}
        self._tainted: list[tuple[list[Taint], Rows]] | None = None
        self._cordoned: Rows | None = None
        self._rows: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    # -- labels -------------------------------------------------------------------------------------------------

    def column(self, label: str) -> LabelColumn:
        column = self._columns.get(label)
        if column is None:
            found: dict[str, int] = {}
            values = [node.labels.get(label) for node in self._nodes]
            codes = [0 if value is None else found.setdefault(value, len(found) + 1) for value in values]
            column = self._columns[label] = LabelColumn(np.array(codes, dtype=np.int64), tuple(found), found)
        return column

    def required(self, spec: PodSpec) -> Mask | None:
        """Which nodes match the pod's nodeSelector and required node affinity; None if it has neither."""
        affinity = spec.affinity.node_affinity if spec.affinity else None
        selector = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        if not spec.node_selector and selector is None:
            return None
        mask = np.ones(len(self._nodes), dtype=np.bool_)
        for label, value in spec.node_selector.items():
            column = self.column(label)
            # A value that no node has gets a code that no node has.
            code = column.values.index(value) + 1 if value in column.values else -1
            mask &= column.codes == code
        if selector is not None:
            any_term = np.zeros(len(self._nodes), dtype=np.bool_)
            for term in selector.node_selector_terms:
                any_term |= self.satisfying(term)
            mask &= any_term
        return mask

    def preferred(self, spec: PodSpec) -> Scores | None:
        """By node, the sum of the weights of the preferences that it matches; None if the pod has none."""
        affinity = spec.affinity.node_affinity if spec.affinity else None
        if affinity is None or not affinity.preferred_during_scheduling_ignored_during_execution:
            return None
        weights = np.zeros(len(self._nodes), dtype=np.float64)
        for preferred in affinity.preferred_during_scheduling_ignored_during_execution:
            weights += preferred.weight * self.satisfying(preferred.preference)
        return weights

    def satisfying(self, term: NodeSelectorTerm) -> Mask:
        if not term.match_expressions and not term.match_fields:
            return np.zeros(len(self._nodes), dtype=np.bool_)
        mask = np.ones(len(self._nodes), dtype=np.bool_)
        for requirement in term.match_expressions:
            mask &= self._meeting(requirement)
        if term.match_fields:
            # The only field is the name, which is different for every node: a column would not help.
            fields = NodeSelectorTerm(match_fields=term.match_fields)
            for row in self._possible_rows(mask, term.match_fields[0]):
                mask[row] = matches_node_term(fields, {}, self._nodes[row].name)
        return mask

    def _possible_rows(self, mask: Mask, field: NodeSelectorRequirement) -> list[int]:
        """The rows of a mask that may match a field; the others are cleared. Thousands of local volumes name a node
        each."""
        if field.key == "metadata.name" and field.operator == "In":
            if self._rows is None:
                self._rows = {node.name: row for row, node in enumerate(self._nodes)}
            named = [self._rows[name] for name in dict.fromkeys(field.values) if name in self._rows]
            rows = [row for row in named if mask[row]]
            mask[:] = False
            return rows
        found: list[int] = np.flatnonzero(mask).tolist()
        return found

    def _meeting(self, requirement: NodeSelectorRequirement) -> Mask:
        column = self.column(requirement.key)
        if requirement.operator == "In":
            return np.asarray(np.isin(column.codes, column.codes_of(requirement.values)))
        alone = NodeSelectorTerm(match_expressions=[requirement])
        verdicts = np.zeros(column.width, dtype=np.bool_)
        verdicts[0] = matches_node_term(alone, {}, "")
        for code, value in enumerate(column.values, start=1):
            verdicts[code] = matches_node_term(alone, {requirement.key: value}, "")
        mask: Mask = verdicts[column.codes]
        return mask

    # -- taints and cordons -------------------------------------------------------------------------------------

    def cordoned_for(self, tolerations: Sequence[Toleration]) -> Rows:
        """Cordoned nodes; none if the pod tolerates that."""
        if self._cordoned is None:
            closed = [row for row, node in enumerate(self._nodes) if not node.schedulable]
            self._cordoned = np.array(closed, dtype=np.int64)
        if len(self._cordoned) and tolerates(tolerations, CORDON):
            return self._cordoned[:0]
        return self._cordoned

    def repelled_by(self, tolerations: Sequence[Toleration], effects: Collection[str]) -> Iterator[tuple[Taint, Rows]]:
        """(taint, rows) for nodes with a taint of these effects that the pod does not tolerate; only the first such
        taint of each node."""
        for taints, rows in self._taint_sets():
            taint = untolerated(tolerations, taints, effects)
            if taint is not None:
                yield taint, rows

    def discouraged(self, tolerations: Sequence[Toleration]) -> Scores | None:
        """By node, the number of PreferNoSchedule taints that the pod does not tolerate; None if there are none."""
        counts = np.zeros(len(self._nodes), dtype=np.float64)
        for taints, rows in self._taint_sets():
            counts[rows] = sum(t.effect in DISCOURAGES and not tolerates(tolerations, t) for t in taints)
        return counts if counts.any() else None

    def welcoming(self, tolerations: Sequence[Toleration]) -> Mask:
        """Nodes without a cordon or taint that excludes the pod."""
        mask = np.ones(len(self._nodes), dtype=np.bool_)
        mask[self.cordoned_for(tolerations)] = False
        for _, rows in self.repelled_by(tolerations, KEEPS_AWAY):
            mask[rows] = False
        return mask

    def _taint_sets(self) -> list[tuple[list[Taint], Rows]]:
        if self._tainted is None:
            sets: dict[tuple[tuple[str, str, str], ...], tuple[list[Taint], list[int]]] = {}
            for row, node in enumerate(self._nodes):
                taints = node.object.spec.taints
                if taints:
                    same = tuple((taint.key, taint.value, taint.effect) for taint in taints)
                    sets.setdefault(same, (taints, []))[1].append(row)
            self._tainted = [(taints, np.array(rows, dtype=np.int64)) for taints, rows in sets.values()]
        return self._tainted
