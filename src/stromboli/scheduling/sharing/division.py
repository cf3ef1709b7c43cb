"""Divides an amount among claims by weight, exactly: weighted max-min fairness with a minimum and a maximum.

Every claim gets its weight times one common level, but at least its `least` and at most its `most`. What queues deserve
is divided by this: `plugins.proportion` and, in a tree, `plugins.queue_trees` state the claims.

The level is found without rounding. Start with the level that would hold without limits. Some claims would get more
than their maximum, and some less than their minimum. If the maximums hold back more than the minimums add, the level
can only rise from here, so the claims above their maximum get exactly that; otherwise it can only fall, so the claims
below their minimum get exactly that. Fix these and start again with the rest. This ends after at most as many rounds
as there are claims.

Units are indivisible (a millicore, a byte, a GPU). Every claim gets the whole units below the level. The few left over
go one each to the claims in the order given, unless a claim has its maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    weight: int  # 1 or more
    least: int  # it always gets this much, even if there is not enough for all
    most: int  # and never more than this; at least `least`


def divide(amount: int, claims: Sequence[Claim]) -> list[int]:
    """What each claim gets, in the order of the claims."""
    given = [claim.least for claim in claims]
    rising = list(range(len(claims)))  # claims whose amount still depends on the level
    left, weights = amount, sum(claim.weight for claim in claims)
    while fixed := _fixed(claims, rising, left, weights):
        for i, share in fixed.items():
            given[i] = share
            left -= share
            weights -= claims[i].weight
        rising = [i for i in rising if i not in fixed]
    for i in rising:
        given[i] = left * claims[i].weight // weights
    rest = left - sum(given[i] for i in rising)
    for i in rising:
        if rest > 0 and given[i] < claims[i].most:
            given[i] += 1
            rest -= 1
    return given


def _fixed(claims: Sequence[Claim], rising: Sequence[int], left: int, weights: int) -> dict[int, int]:
    """Claims that get their maximum or minimum, whatever becomes of the level, by position."""
    # The level is left / weights. Both sides are multiplied by `weights`, so all numbers are integers.
    full = {i: claims[i].most for i in rising if left * claims[i].weight > claims[i].most * weights}
    below = {i: claims[i].least for i in rising if left * claims[i].weight < claims[i].least * weights}
    held_back = sum(left * claims[i].weight - most * weights for i, most in full.items())
    added = sum(least * weights - left * claims[i].weight for i, least in below.items())
    if held_back == added:
        return full | below
    return full if held_back > added else below
