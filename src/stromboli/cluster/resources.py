"""The axis of resources: which column of a vector means what.

Every amount the scheduler compares is an int64 vector over one shared axis, so that sums, differences and "does it
fit" are single operations on arrays. The axis only ever grows: a new resource name takes the next free column, and
old columns never move. Vectors are padded to the axis' width (a power of two with room to spare); when the width
itself has to grow, the cluster pads everything it holds, once.

NB: the column of a resource depends on who mentioned it first, so nothing may depend on column order. What adds up
floats walks `by_name()`, and what picks "the first short resource" does so by name.
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
        """The column of a resource; a name not seen before takes the next one."""
        column = self.index.get(name)
        if column is None:
            column = len(self.names)
            self.names.append(name)
            self.index[name] = column
            while self.width < len(self.names):
                self.width *= 2
        return column

    def vector(self, amounts: Mapping[str, int], *, missing: int = 0) -> Vector:
        """The amounts as a vector; resources not named there are `missing`."""
        columns = [self.column(name) for name in amounts]
        vector = np.full(self.width, missing, dtype=np.int64)
        for column, amount in zip(columns, amounts.values(), strict=True):
            vector[column] = min(amount, UNLIMITED)
        return vector

    def zeros(self) -> Vector:
        return np.zeros(self.width, dtype=np.int64)

    def pad(self, vector: Vector, *, missing: int = 0) -> Vector:
        """The same amounts at today's width."""
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


def fits(request: Vector, room: Vector) -> bool:
    """Whether every amount asked for is there. What is not asked for may be short: a node that shrank below its
    use in one resource still takes pods that want none of it."""
    return bool(((request <= room) | (request == 0)).all())
