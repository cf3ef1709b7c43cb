"""Dividing an amount among claims by weight, to the last unit.

Picture connected vessels: each claim is a vessel as wide as its weight. It has a bottom that is filled in any case
(what it is guaranteed) and a lid (what it wants or may have at most); water poured in rises to one level in all of
them, except where a bottom is higher or a lid is lower. What a claim gets is what stands in its vessel.

The level is found without rounding. At the level that would hold if nothing stood in the way, some claims would get
more than their lid and some less than their bottom. If the lids hold back more than the bottoms add, the level can
only rise from here, so those at their lids stay there; if less, it can only fall, so those at their bottoms do. Fixing
these and starting again with the rest ends after at most as many rounds as there are claims.

Units are indivisible (a millicore, a byte, a GPU). Everyone gets the whole units below the level, and the few left
over go one each to the claims in the order given, as far as a lid allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    weight: int  # 1 or more
    least: int  # gets this much in any case, even if there is not enough for all
    most: int  # and never more than this; not below `least`


def divide(amount: int, claims: Sequence[Claim]) -> list[int]:
    """What each claim gets, in the order of the claims."""
    given = [claim.least for claim in claims]
    rising = list(range(len(claims)))  # claims whose amount still depends on the level
    left, weights = amount, sum(claim.weight for claim in claims)
    while rising:
        # The level is left / weights; both sides are multiplied by `weights` to stay with whole numbers.
        full = [i for i in rising if left * claims[i].weight > claims[i].most * weights]
        dry = [i for i in rising if left * claims[i].weight < claims[i].least * weights]
        if not full and not dry:
            break
        held_back = sum(left * claims[i].weight - claims[i].most * weights for i in full)
        added = sum(claims[i].least * weights - left * claims[i].weight for i in dry)
        fixed: set[int] = set()
        if held_back >= added:
            fixed.update(full)
            for i in full:
                given[i] = claims[i].most
        if added >= held_back:
            fixed.update(dry)
        left -= sum(given[i] for i in fixed)
        weights -= sum(claims[i].weight for i in fixed)
        rising = [i for i in rising if i not in fixed]
    for i in rising:
        given[i] = left * claims[i].weight // weights
    rest = left - sum(given[i] for i in rising)
    for i in rising:
        if rest > 0 and given[i] < claims[i].most:
            given[i] += 1
            rest -= 1
    return given
