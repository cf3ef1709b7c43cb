"""How much of what a queue holds fits within what it deserves, in whole pods and whole gangs.

A sum cannot answer that. Of one pod of 8 GPUs nothing fits within 6, of two pods of 4 one does, of a gang of 32 either
all or nothing. So the units of work are packed into the limits, and the value of the best packing is the answer. The
value of a unit is the sum of its shares of the cluster.

A unit is a core, which counts whole or not at all, with extras that count only beside their core: the minimum of a gang
and the pods above it.

The best packing is found by branch and bound. Queues have few kinds of units, and mostly the first packing tried (the
largest units first) reaches the bound. Packing is hard in general, so the search stops after `_STEPS` steps. The answer
is therefore two numbers: the value of the best packing found, and a bound that no packing exceeds. They are equal if
the search ended. Whoever compares packings takes the number that errs on the safe side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_STEPS = 200

Amounts = tuple[int, ...]


class Unit(NamedTuple):
    core: Amounts
    extras: tuple[tuple[Amounts, int], ...] = ()  # (amounts of one pod, how many)


class Packed(NamedTuple):
    at_least: int
    at_most: int


def pack(units: Mapping[Unit, int], limits: Sequence[int | None], values: Sequence[int]) -> Packed:
    """The value of the best packing. `limits`: by column, None if the column has no limit and no value. `values`: what
    one unit of each column is worth."""
    columns = [column for column, limit in enumerate(limits) if limit is not None]
    search = _Search([limits[column] or 0 for column in columns], [values[column] for column in columns])
    for unit, count in units.items():
        search.add(_part(unit.core, columns), count, [(_part(extra, columns), n) for extra, n in unit.extras])
    return search.run()


def _part(amounts: Amounts, columns: Sequence[int]) -> Amounts:
    return tuple([amounts[column] for column in columns])


class _Search:
    def __init__(self, limits: list[int], values: list[int]) -> None:
        self._limits = tuple(limits)
        self._values = values
        self._cores: Counter[tuple[Amounts, tuple[tuple[Amounts, int], ...]]] = Counter()
        self._available: Counter[Amounts] = Counter()  # extras beside the cores chosen so far
        self._best = 0
        self._steps = 0

    def add(self, core: Amounts, count: int, extras: list[tuple[Amounts, int]]) -> None:
        """Without what would not fit even alone."""
        if all(amount <= limit for amount, limit in zip(core, self._limits, strict=True)):
            left = [limit - amount for amount, limit in zip(core, self._limits, strict=True)]
            fitting = [(e, n) for e, n in extras if all(a <= most for a, most in zip(e, left, strict=True))]
            self._cores[core, tuple(sorted(fitting))] += count

    def run(self) -> Packed:
        cores = sorted(self._cores.items(), key=lambda item: (-self._worth(item[0][0]), item[0]))
        kinds = {extra for (_, extras), _ in cores for extra, _ in extras}
        extras = sorted(kinds, key=lambda extra: (-self._worth(extra), extra))
        self._order: list[tuple[Amounts, tuple[tuple[Amounts, int], ...], int]] = [
            *((core, beside, count) for (core, beside), count in cores),
            *((extra, (), -1) for extra in extras),
        ]
        # By position: all that is still to come, at most.
        rest = [0] * len(self._limits)
        self._rest = [tuple(rest)]
        for (_, beside), count in cores:
            for extra, number in beside:
                rest = [has + more * number * count for has, more in zip(rest, extra, strict=True)]
        self._rest += [tuple(rest)] * len(extras)
        for (core, _), count in reversed(cores):
            rest = [has + more * count for has, more in zip(rest, core, strict=True)]
            self._rest.append(tuple(rest))
        self._rest.reverse()
        highest = self._bound(0, self._limits, 0)
        self._visit(0, self._limits, 0)
        return Packed(self._best, highest if self._steps > _STEPS else self._best)

    def _worth(self, amounts: Amounts) -> int:
        return sum(amount * value for amount, value in zip(amounts, self._values, strict=True))

    def _bound(self, position: int, left: Amounts, worth: int) -> int:
        for room, more, value in zip(left, self._rest[position], self._values, strict=True):
            worth += min(room, more) * value
        return worth

    def _visit(self, position: int, left: Amounts, worth: int) -> None:
        self._best = max(self._best, worth)
        if position == len(self._order):
            return
        amounts, beside, count = self._order[position]
        if count < 0:
            count = self._available[amounts]
        for most, amount in zip(left, amounts, strict=True):
            if amount:
                count = min(count, most // amount)
        each = self._worth(amounts)
        for number in range(count, -1, -1):
            after = tuple([most - number * amount for most, amount in zip(left, amounts, strict=True)])
            if self._bound(position + 1, after, worth + number * each) <= self._best:
                return  # with fewer of these it is lower still
            self._steps += 1
            if self._steps > _STEPS:
                return
            for extra, per_core in beside:
                self._available[extra] += per_core * number
            self._visit(position + 1, after, worth + number * each)
            for extra, per_core in beside:
                self._available[extra] -= per_core * number
