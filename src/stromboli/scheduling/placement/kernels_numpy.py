"""The placement kernels, in readable form.

They define what the compiled kernels (kernels.py) do. Both have the same signatures and must give the same results bit
for bit, so sums are in the same order. Small clusters use this version: below a few hundred nodes compilation does not
pay.

The score of a node is computed with the task on it::

    base + least*least_score + most*most_score + balanced*balanced_score + pack*pack_score

with `used + request` for the amounts in use. The sub-scores are 0..100.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NAME = "numpy"
RANKS = False  # it has neither `rank_rows` nor `place_ranked`
CPU_AND_MEMORY = (0, 1)


def score_rows(
    rows: Ints, times: Ints, request: Ints, used: Ints, allocatable: Ints, base: Floats, out: Floats,
    least: float, most: float, balanced: float, pack: float,
    balanced_columns: Ints, pack_columns: Ints, pack_weights: Floats,
) -> None:  # fmt: skip
    """Write the score of `rows` into `out`. `times[row]`: how many tasks of this kind were already added to the row
    but are not in `used` yet."""
    offer = allocatable[rows]
    after = used[rows] + (times[rows] + 1)[:, None] * request[None, :]
    score = base[rows].copy()
    if least != 0.0:
        total = np.zeros(len(rows), dtype=np.float64)
        for column in CPU_AND_MEMORY:
            total += _share(offer[:, column] - after[:, column], offer[:, column]) * 100.0
        score += least * (total / 2.0)
    if most != 0.0:
        total = np.zeros(len(rows), dtype=np.float64)
        for column in CPU_AND_MEMORY:
            over = after[:, column] > offer[:, column]
            total += np.where(over, 0.0, _share(after[:, column], offer[:, column])) * 100.0
        score += most * (total / 2.0)
    if balanced != 0.0:
        score += balanced * _evenness(after, offer, balanced_columns)
    if pack != 0.0:
        score += pack * _fullness(after, offer, pack_columns, pack_weights)
    out[rows] = score


def _share(part: Ints, whole: Ints) -> Floats:
    """part/whole; 0 if the whole is 0 or the part is negative."""
    good = (whole > 0) & (part > 0)
    safe = np.where(whole > 0, whole, 1).astype(np.float64)
    return np.where(good, part.astype(np.float64) / safe, 0.0)


def _evenness(after: Ints, offer: Ints, columns: Ints) -> Floats:
    """100 if equal parts of all resources are used, less the more these parts differ."""
    count = np.zeros(len(after), dtype=np.float64)
    total = np.zeros(len(after), dtype=np.float64)
    fractions = []
    for column in columns.tolist():
        there = offer[:, column] > 0
        fraction = np.minimum(_share(after[:, column], offer[:, column]), 1.0)
        fractions.append((there, fraction))
        count += there
        total += np.where(there, fraction, 0.0)
    mean = total / np.maximum(count, 1.0)
    variance = np.zeros(len(after), dtype=np.float64)
    for there, fraction in fractions:
        variance += np.where(there, (fraction - mean) * (fraction - mean), 0.0)
    return np.asarray((1.0 - np.sqrt(variance / np.maximum(count, 1.0))) * 100.0)


def _fullness(after: Ints, offer: Ints, columns: Ints, weights: Floats) -> Floats:
    total = np.zeros(len(after), dtype=np.float64)
    over = np.zeros(len(after), dtype=np.bool_)
    weight_sum = 0.0
    for column, weight in zip(columns.tolist(), weights.tolist(), strict=True):
        weight_sum += weight
        there = offer[:, column] > 0
        over |= there & (after[:, column] > offer[:, column])
        total += np.where(there, weight * _share(after[:, column], offer[:, column]), 0.0)
    if weight_sum <= 0.0:
        return total * 0.0
    return np.where(over, 0.0, total / weight_sum * 100.0)


def place(
    count: int, mask: Flags, room: Ints, request: Ints, columns: Ints, score: Floats,
    used: Ints, allocatable: Ints, base: Floats,
    least: float, most: float, balanced: float, pack: float,
    balanced_columns: Ints, pack_columns: Ints, pack_weights: Floats, out: Ints,
) -> int:  # fmt: skip
    """Place up to `count` equal tasks one after the other, each on the best row that still has room. Writes the rows
    to `out` and returns how many were placed. The first of equally good rows is taken. `mask` and `score` are
    changed."""
    times = np.zeros(len(mask), dtype=np.int64)
    wanted = request[columns]
    mask &= (room[:, columns] >= wanted[None, :]).all(axis=1)
    for placed in range(count):
        feasible = np.flatnonzero(mask)
        if len(feasible) == 0:
            return placed
        row = int(feasible[np.argmax(score[feasible])])
        out[placed] = row
        times[row] += 1
        mask[row] = bool((room[row, columns] >= (times[row] + 1) * wanted).all())
        score_rows(
            np.array([row], dtype=np.int64), times, request, used, allocatable, base, score,
            least, most, balanced, pack, balanced_columns, pack_columns, pack_weights,
        )  # fmt: skip
    return count
