"""The best packing of pods and gangs within limits, compared with trying everything."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.scheduling.sharing import packing
from stromboli.scheduling.sharing.packing import Packed, Unit, pack

amounts = st.tuples(st.integers(0, 4), st.integers(0, 4))
units = st.builds(
    lambda core, extras: Unit(core, tuple(sorted(extras.items()))),
    amounts, st.dictionaries(amounts, st.integers(1, 2), max_size=2),
)  # fmt: skip
limits = st.tuples(st.one_of(st.none(), st.integers(0, 8)), st.one_of(st.none(), st.integers(0, 8)))
VALUES = (3, 5)


def best(work: list[Unit], most: tuple[int | None, int | None]) -> int:
    """Every core with or without, and any number of extras beside those."""
    values = [0]
    for taken in product([False, True], repeat=len(work)):
        chosen = [unit for unit, take in zip(work, taken, strict=True) if take]
        extras = [(extra, number) for unit in chosen for extra, number in unit.extras]
        for numbers in product(*[range(number + 1) for _, number in extras]):
            parts = [(unit.core, 1) for unit in chosen]
            parts += [(extra, n) for (extra, _), n in zip(extras, numbers, strict=True)]
            used = [sum(part[column] * n for part, n in parts) for column in (0, 1)]
            if all(limit is None or amount <= limit for amount, limit in zip(used, most, strict=True)):
                counted = zip(used, VALUES, most, strict=True)
                values.append(sum(amount * value for amount, value, limit in counted if limit is not None))
    return max(values)


@given(st.lists(units, max_size=3), limits)
def test_the_best_packing_is_found(work: list[Unit], most: tuple[int | None, int | None]) -> None:
    exact = best(work, most)
    assert pack(Counter(work), most, VALUES) == Packed(exact, exact)


@given(st.lists(units, max_size=3), limits)
def test_a_search_that_is_cut_short_gives_safe_bounds(work: list[Unit], most: tuple[int | None, int | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_STEPS", 1)
        found = pack(Counter(work), most, VALUES)
    assert found.at_least <= best(work, most) <= found.at_most


# In 6, a pod of 8 does not fit. Of two pods of 4 one does. A gang of 2 fits with three more pods, a gang of 4 with two.
@pytest.mark.parametrize(
    ("unit", "count", "fits"),
    [(Unit((8,)), 1, 0), (Unit((4,)), 2, 4), (Unit((2,), (((1,), 3),)), 1, 5), (Unit((4,), (((1,), 3),)), 1, 6)],
)
def test_whole_pods_and_gangs_are_packed(unit: Unit, count: int, fits: int) -> None:
    assert pack({unit: count}, [6], [1]) == Packed(fits, fits)
