"""The columns of the ledger: one row per node, one matrix per kind of amount.

    allocatable  what the node offers            used         requests of its tasks, and holdings
    idle         allocatable - used              releasing    the part of used that is being released
    pipelined    promised out of releasing
    backfilled   the part of used that is lent   conditional  promised out of idle + backfilled
    reserved     reserved for starving jobs      held         remainders of Reservations, part of used
    foreign      the part of used that pods outside all groups have: those of other schedulers, and static pods

`idle` may be negative: the allocatable amount of a node can fall below what runs on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .model import Node, Shape
from .resources import Matrix, ResourceAxis, Vector

NO_POD_LIMIT = 1 << 40
"""The value of the column "pods" for a node without a limit."""

COLUMNS = ("idle", "used", "releasing", "pipelined", "backfilled", "conditional", "reserved", "held", "foreign")


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What a node really uses, as somebody has measured it: a fact that a world may provide, beside objects."""

    amounts: Mapping[str, int]  # exact, by resource
    at: float  # when it was measured
    window: float = 0.0  # seconds before that of which it is the mean
    until: float | None = None  # the time until which it counts; None: until there is another one


class NodeTable:
    """Rows are in the order of node names, so the first of several equally good rows is the first by name."""

    def __init__(self, axis: ResourceAxis) -> None:
        self.axis = axis
        self.nodes: list[Node] = []
        self.by_name: dict[str, Node] = {}
        self.use: Mapping[str, NodeUse] = {}  # by name; a node without a measurement is unknown, not idle
        self.allocatable: Matrix = np.zeros((0, axis.width), dtype=np.int64)
        self.idle = self.allocatable.copy()
        self.used = self.allocatable.copy()
        self.releasing = self.allocatable.copy()
        self.pipelined = self.allocatable.copy()
        self.backfilled = self.allocatable.copy()
        self.conditional = self.allocatable.copy()
        self.reserved = self.allocatable.copy()
        self.held = self.allocatable.copy()
        self.foreign = self.allocatable.copy()
        self.ready: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.schedulable: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.takes_pods: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.nodes)

    def column(self, name: str) -> Matrix:
        column: Matrix = getattr(self, name)
        return column

    @property
    def future_idle(self) -> Matrix:
        """What will be free when everything releasing is gone and all pipelined tasks have started."""
        return self.idle + self.releasing - self.pipelined

    def future_idle_of(self, row: int) -> Vector:
        future: Vector = self.idle[row] + self.releasing[row] - self.pipelined[row]
        return future

    def future_amounts(self, row: int, columns: Iterable[int]) -> list[int]:
        """`future_idle_of` in these columns."""
        idle, leaving, promised = self.idle[row].tolist(), self.releasing[row].tolist(), self.pipelined[row].tolist()
        return [idle[column] + leaving[column] - promised[column] for column in columns]

    @property
    def accessible(self) -> Matrix:
        """What would be free if all lent resources were returned, less what conditional tasks count on."""
        return self.idle + self.backfilled - self.conditional

    def free_to_divide(self) -> Vector:
        """What is free, or is being released for nobody, on nodes that take pods."""
        free: Vector = np.maximum(self.future_idle[self.takes_pods], 0).sum(axis=0)
        return free

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Write the fields of at least one node into its row, and update `idle`."""
        rows = np.array([node.row for node in nodes], dtype=np.int64)
        kinds: dict[tuple[tuple[str, int], ...], Vector] = {}  # most nodes offer the same as others
        vectors = []
        for node in nodes:
            kind = tuple(node.allocatable.items())
            if kind not in kinds:
                kinds[kind] = self.axis.vector({"pods": NO_POD_LIMIT, **node.allocatable})
            vectors.append(kinds[kind])
        self.allocatable[rows] = vectors
        self.idle[rows] = self.allocatable[rows] - self.used[rows]
        self.ready[rows] = [node.ready for node in nodes]
        self.schedulable[rows] = [node.schedulable for node in nodes]
        self.takes_pods[rows] = [node.takes_pods for node in nodes]

    def occupy(self, rows: Sequence[int], shapes: Sequence[Shape]) -> list[int]:
        """Add what tasks of these shapes request to what is used on these rows; returns the distinct rows."""
        requests = {shape.id: shape.request for shape in shapes}
        kind_of = {shape_id: kind for kind, shape_id in enumerate(requests)}
        where = np.array(rows, dtype=np.int64)
        order = np.argsort(where, kind="stable")
        amounts = np.array(list(requests.values()))[np.array([kind_of[shape.id] for shape in shapes])[order]]
        where = where[order]
        starts = np.flatnonzero(np.diff(where, prepend=-1))
        distinct = where[starts]
        sums = np.add.reduceat(amounts, starts, axis=0)
        self.used[distinct] += sums
        self.idle[distinct] -= sums
        rows_of_them: list[int] = distinct.tolist()
        return rows_of_them

    def lay_out(self, nodes: Iterable[Node]) -> None:
        """Assign rows in the order of names after nodes were added or removed; known nodes keep their amounts."""
        ordered = sorted(nodes, key=lambda node: node.name)
        old = np.array([node.row for node in ordered], dtype=np.int64)
        known = old >= 0
        width = self.axis.width

        def permuted(column: Matrix) -> Matrix:
            fresh = np.zeros((len(ordered), width), dtype=np.int64)
            fresh[known, : column.shape[1]] = column[old[known]]
            return fresh

        for name in ("allocatable", *COLUMNS):
            setattr(self, name, permuted(self.column(name)))
        for name in ("ready", "schedulable", "takes_pods"):
            flags = np.zeros(len(ordered), dtype=np.bool_)
            flags[known] = getattr(self, name)[old[known]]
            setattr(self, name, flags)
        self.nodes = ordered
        self.by_name = {node.name: node for node in ordered}
        for row, node in enumerate(ordered):
            node.row = row
        new = [node for node, is_known in zip(ordered, known.tolist(), strict=True) if not is_known]
        if new:
            self.set_nodes(new)

    def widen(self) -> None:
        """Pad the columns to the width of the axis."""
        short = self.axis.width - self.allocatable.shape[1]
        if short > 0:
            for name in ("allocatable", *COLUMNS):
                setattr(self, name, np.pad(self.column(name), ((0, 0), (0, short))))
