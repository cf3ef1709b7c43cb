"""The axis of resources: which column of a vector belongs to which resource.

All amounts are int64 vectors over one shared axis, so that sums, differences and comparisons are single operations on
arrays. The axis only grows: a new resource gets the next free column, and existing columns never move. Vectors are
padded to the axis' width, a power of two; when the width itself grows, the cluster pads all its vectors once.

The column of a resource depends on which object named it first, so nothing may depend on the order of columns. Code
that adds up floats iterates over `by_name()`, and code that picks "the first insufficient resource" does so by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.int64]

CPU = 0
MEMORY = 1
PODS = 2

UNLIMITED = np.iinfo(np.int64).max // 4
"""Stands for "no limit" in a vector; a quarter of the range, so that adding real amounts never wraps around."""


class ResourceAxis:
    """Names of resources and their columns."""

    def __init__(self) -> None:
        self.names: list[str] = ["cpu", "memory", "pods"]
        self.index: dict[str, int] = {name: column for column, name in enumerate(self.names)}
        self.width = 8

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str) -> int:
        """The column of a resource; a new name gets the next one."""
        column = self.index.get(name)
        if column is None:
            column = len(self.names)
            self.names.append(name)
            self.index[name] = column
            while self.width < len(self.names):
                self.width *= 2
        return column

    def vector(self, amounts: Mapping[str, int], *, missing: int = 0) -> Vector:
        """The amounts as a vector; resources that are not given have the value `missing`."""
        columns = [self.column(name) for name in amounts]
        values = [missing] * self.width
        for column, amount in zip(columns, amounts.values(), strict=True):
            values[column] = min(amount, UNLIMITED)
        return np.array(values, dtype=np.int64)

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

    def amounts(self, vector: Vector) -> dict[str, int]:
        """The non-zero entries of a vector, by name, in the order of names."""
        return dict(self._nonzero(vector))

    def _nonzero(self, vector: Vector) -> Iterator[tuple[str, int]]:
        values = vector.tolist()
        for name, column in self.by_name():
            if column < len(values) and values[column]:
                yield name, values[column]


def fits(request: Vector, available: Vector) -> bool:
    """Whether every requested amount is available. Resources that are not requested do not matter: a node that is
    overcommitted in one resource still accepts pods that request none of it."""
    return bool(((request <= available) | (request == 0)).all())
