"""The axis of resources: which column of a vector belongs to which resource.

All amounts are int64 vectors over one shared axis, so that sums, differences and comparisons are single operations on
arrays. A new resource gets the next free column, and existing columns never move. Vectors are padded to the axis'
width, a power of two; when the width itself grows, the cluster pads all its vectors once.

The column of a resource depends on which object named it first, so nothing may depend on the order of columns. Code
that adds up floats iterates over `by_name()`, and code that picks "the first insufficient resource" does so by name.

Columns belong to what nodes offer and what Reservations hold, never to what somebody asks for: every vector has every
column, so a tenant who invents names would make every cycle slower for everybody. All names without a column share the
column UNOFFERED, of which no node has any: who asks for some of one fits nowhere, by the same arithmetic as anybody.
When a node begins to offer a name, it becomes a column, and what asks for it is read again (`Cluster`). When the last
one ceases to, it is none any more, so that a restart finds the same columns; the place is kept for that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.int64]
Key = TypeVar("Key", bound=Hashable)

CPU = 0
MEMORY = 1
PODS = 2
UNOFFERED = 3

UNOFFERED_NAME = "<unoffered>"
"""Stands for all resources that have no column. It is no valid name of a resource that nodes or pods could use, and
users read the real ones instead: `Shape.unoffered`, `Job.unoffered`."""

Unoffered = tuple[tuple[str, int], ...]
"""(name, amount) of resources without a column, in the order of names."""

UNLIMITED = np.iinfo(np.int64).max // 4
"""Stands for "no limit" in a vector; a quarter of the range, so that adding real amounts never wraps around."""


class ResourceAxis:
    """Names of resources and their columns."""

    def __init__(self) -> None:
        self.names: list[str] = ["cpu", "memory", "pods", UNOFFERED_NAME]
        self.index: dict[str, int] = {name: column for column, name in enumerate(self.names)}
        self.width = 8
        self.changes = 0  # how often a name became a column, or ceased to be one
        self._uses: Counter[str] = Counter()  # by name: the nodes and Reservations that make it a column
        self._used_by: dict[tuple[str, str], frozenset[str]] = {}
        self._retired: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def use(self, kind: str, name: str, resources: Iterable[str]) -> None:
        """A node offers exactly these resources, or a Reservation holds them, from now on. Those that nobody offers or
        holds any more cease to be columns."""
        owner, after = (kind, name), frozenset(resources)
        before = self._used_by.get(owner, frozenset())
        if after == before:
            return
        self._used_by[owner] = after
        if not after:
            del self._used_by[owner]
        for resource in sorted(after - before):
            self._uses[resource] += 1
            self._column(resource)
        for resource in before - after:
            self._uses[resource] -= 1
            column = self.index.get(resource, UNOFFERED)
            if not self._uses[resource]:
                del self._uses[resource]
                if column > UNOFFERED:
                    self._retired[resource] = self.index.pop(resource)
                    self.changes += 1

    def _column(self, name: str) -> None:
        if name in self.index:
            return
        self.changes += 1
        if name in self._retired:
            self.index[name] = self._retired.pop(name)
            return
        self.index[name] = len(self.names)
        self.names.append(name)
        while self.width < len(self.names):
            self.width *= 2

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Amounts that somebody asks for, as a vector. One of what has no column is enough to fit nowhere."""
        values, index = [0] * self.width, self.index
        for name, amount in amounts.items():
            column = index.get(name, UNOFFERED)
            if column != UNOFFERED:
                values[column] = min(amount, UNLIMITED)
            elif amount > 0:
                values[UNOFFERED] = 1
        return np.array(values, dtype=np.int64)

    def bounds(self, amounts: Mapping[str, int], *, missing: int) -> Vector:
        """What somebody may have, at most or at least, as a vector. Resources that are not given have the value
        `missing`; those without a column wait until they have one."""
        values = [missing] * self.width
        for name, amount in amounts.items():
            column = self.index.get(name)
            if column is not None:
                values[column] = min(amount, UNLIMITED)
        return np.array(values, dtype=np.int64)

    def unoffered(self, amounts: Mapping[str, int]) -> Unoffered:
        """Those of these amounts that `vector` has in the column UNOFFERED."""
        index = self.index
        if all(name in index for name in amounts):
            return ()
        return tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0 and name not in index))

    def zeros(self) -> Vector:
        return np.zeros(self.width, dtype=np.int64)

    def pad(self, vector: Vector, *, missing: int = 0) -> Vector:
        """The same amounts, padded to the present width."""
        short = self.width - len(vector)
        if short <= 0:
            return vector
        return np.concatenate([vector, np.full(short, missing, dtype=np.int64)])

    def by_name(self) -> list[tuple[str, int]]:
        """(name, column) in the order of names."""
        return sorted(self.index.items())

    def shared(self) -> list[tuple[str, int]]:
        """(name, column) of what queues share, in the order of names: "pods" is a matter of nodes, and nobody waits for
        a share of what no node offers."""
        return [(name, column) for name, column in self.by_name() if column not in (PODS, UNOFFERED)]

    def amounts(self, vector: Vector) -> dict[str, int]:
        """The non-zero entries of a vector, by name, in the order of names. What has no column is left out."""
        return dict(self._nonzero(vector))

    def _nonzero(self, vector: Vector) -> Iterator[tuple[str, int]]:
        values = vector.tolist()
        for name, column in self.by_name():
            if column < len(values) and values[column] and column != UNOFFERED:
                yield name, values[column]


def fits(request: Vector, available: Vector) -> bool:
    """Whether every requested amount is available. Resources that are not requested do not matter: a node that is
    overcommitted in one resource still accepts pods that request none of it."""
    return bool(((request <= available) | (request == 0)).all())


def add_to(sums: dict[Key, Vector], key: Key, amount: Vector) -> None:
    """To one of several sums. Vectors are not changed, so the first amount may be somebody else's."""
    sums[key] = sums[key] + amount if key in sums else amount
