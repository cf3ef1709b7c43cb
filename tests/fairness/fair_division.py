"""What everybody should have, computed once more, in another way.

Two oracles in plain Python, over exact fractions, for work that is all of one kind. `level` says what each should have
if pods could be divided. `by_turns` says how whole pods are dealt out one by one, the needy first. Neither knows
anything of the scheduler's own arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Demand:
    """`least` is set aside in any case, `most` is what is asked for or allowed."""

    weight: int
    most: int
    least: int = 0


def level(amount: int, demands: Mapping[str, Demand]) -> dict[str, Fraction]:
    """The exact shares: everybody stands at one level per weight, but not below `least` nor above `most`.

    The level is searched among the points where somebody reaches a bound: between two of them the sum is a straight
    line. (`least` beyond `most` counts: it is withheld from the others.)
    """

    def poured(height: Fraction) -> dict[str, Fraction]:
        return {
            name: max(Fraction(demand.least), min(height * demand.weight, Fraction(max(demand.most, demand.least))))
            for name, demand in demands.items()
        }

    bounds = ((demand, bound) for demand in demands.values() for bound in (demand.least, demand.most))
    points = sorted({Fraction(bound, demand.weight) for demand, bound in bounds})
    below = Fraction(0)
    for point in points:
        if sum(poured(point).values()) > amount:
            low, high = sum(poured(below).values()), sum(poured(point).values())
            if low >= amount:
                return poured(below)  # what is guaranteed is more than there is
            return poured(below + (point - below) * (amount - low) / (high - low))
        below = point
    return poured(below)


def by_turns(amount: int, demands: Mapping[str, Demand]) -> dict[str, int]:
    """Unit by unit to whoever has the least for its weight and wants more; ties by name."""
    has = dict.fromkeys(sorted(demands), 0)
    for _ in range(amount):
        wanting = [name for name, demand in sorted(demands.items()) if has[name] < demand.most]
        if not wanting:
            break
        has[min(wanting, key=lambda name: (Fraction(has[name], demands[name].weight), name))] += 1
    return has
