"""Dividing by weight, to the last unit: the worked numbers, and what must hold for any of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.scheduling.sharing.division import Claim, divide


def claim(weight: int, *, wants: int, least: int = 0, limit: int | None = None) -> Claim:
    most = wants if limit is None else min(wants, limit)
    return Claim(weight, least, max(most, least))


FIRST_THREE = [claim(1, wants=30, least=5), claim(1, wants=30), claim(1, wants=30, limit=10)]


@pytest.mark.parametrize(
    ("amount", "claims", "given"),
    [
        # 30 / 3 = 10 each: above the guarantee of the first, and just the limit of the third
        (30, FIRST_THREE, [10, 10, 10]),
        # 30 / (1+1+1+2) = 6 for each unit of weight
        (30, [*FIRST_THREE, claim(2, wants=30, least=10)], [6, 6, 6, 12]),
        # the fourth wants 2 but keeps its guarantee of 10; 20 / 3 = 6 each and 2 left over, for the first two
        (30, [*FIRST_THREE, claim(2, wants=2, least=10)], [7, 7, 6, 10]),
        # the same in millicores: 20000 / 3 = 6666 each and 2 left over
        (
            30_000,
            [
                claim(1, wants=30_000, least=5_000),
                claim(1, wants=30_000),
                claim(1, wants=30_000, limit=10_000),
                claim(2, wants=2_000, least=10_000),
            ],
            [6_667, 6_667, 6_666, 10_000],
        ),
        # 2 and 3 are wanted and had; the other gets what is left of 16
        (16, [claim(1, wants=2), claim(3, wants=20), claim(4, wants=3)], [2, 11, 3]),
        # the first may not have its half
        (10, [claim(1, wants=10, limit=2), claim(1, wants=10)], [2, 8]),
        # a guarantee is kept for its queue even while it wants nothing
        (10, [claim(1, wants=0, least=4), claim(1, wants=10)], [4, 6]),
        # a guarantee above the share comes out of everybody else's: (12 - 8) / 2
        (12, [claim(1, wants=12, least=8), claim(1, wants=12), claim(1, wants=12)], [8, 2, 2]),
        # one unit cannot be shared: it goes to the first in order
        (1, [claim(1, wants=1), claim(5, wants=1)], [1, 0]),
        # 3, 1.5 and 1.5: the unit left over goes past the first, which is full, to the second
        (6, [claim(2, wants=3), claim(1, wants=6), claim(1, wants=6)], [3, 2, 1]),
        # guarantees that exceed the whole are kept all the same; nobody gets a negative amount
        (5, [claim(1, wants=9, least=4), claim(1, wants=9, least=4), claim(1, wants=9)], [4, 4, 0]),
        # more than all of them want
        (100, [claim(1, wants=2), claim(9, wants=3)], [2, 3]),
        (0, [claim(1, wants=2), claim(9, wants=3)], [0, 0]),
        (10, [], []),
    ],
)
def test_worked_numbers(amount: int, claims: list[Claim], given: list[int]) -> None:
    assert divide(amount, claims) == given


claims_of_any_kind = st.lists(
    st.builds(
        lambda weight, least, more: Claim(weight, least, least + more),
        st.integers(1, 9),
        st.one_of(st.just(0), st.integers(0, 50)),
        st.integers(0, 200),
    ),
    max_size=8,
)


def as_if_water(amount: int, claims: list[Claim]) -> list[Fraction]:
    """What each would get if units were divisible, found by trying every level at which something changes."""
    levels = sorted({Fraction(edge, c.weight) for c in claims for edge in (c.least, c.most)} | {Fraction(0)})

    def at(level: Fraction) -> list[Fraction]:
        return [min(max(level * c.weight, Fraction(c.least)), Fraction(c.most)) for c in claims]

    below = levels[0]
    for level in levels:
        if sum(at(level)) > amount:
            break
        below = level
    # Between two edges the sum grows by the weights of the vessels that are neither dry nor full.
    slope = sum(c.weight for c in claims if c.least <= below * c.weight < c.most)
    lacking = amount - sum(at(below))
    return at(below + Fraction(lacking) / slope if slope and lacking > 0 else below)


@given(amount=st.integers(0, 600), claims=claims_of_any_kind)
def test_everybody_is_within_one_unit_of_the_water_level(amount: int, claims: list[Claim]) -> None:
    for got, level in zip(divide(amount, claims), as_if_water(amount, claims), strict=True):
        assert abs(got - level) <= 1


@given(amount=st.integers(0, 600), claims=claims_of_any_kind)
def test_nothing_is_lost_and_nobody_leaves_the_bounds(amount: int, claims: list[Claim]) -> None:
    given = divide(amount, claims)
    for got, wanted in zip(given, claims, strict=True):
        assert wanted.least <= got <= wanted.most
    lowest, highest = sum(c.least for c in claims), sum(c.most for c in claims)
    assert sum(given) == min(max(amount, lowest), highest)
