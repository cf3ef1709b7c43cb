"""The placement kernels, compiled by Numba: the same results as kernels_numpy.py, bit for bit, for large clusters.

For a gang of a hundred on a hundred thousand nodes, a scan of all nodes for each task is too much. So there is a third
kernel with the result of `place`: a tree of tournaments among the rows (`rank_rows`, `place_ranked`). The winner of all
is at the top, and after a change of one row only its way to the top is played again.

`nogil` lets the event loop run while a cycle computes. `cache` keeps the machine code on disk, so only the first start
compiles. There is no `fastmath`: it reorders sums, and the results of the two versions would differ.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NAME = "numba"
RANKS = True  # has `rank_rows` and `place_ranked`


@njit(cache=True, nogil=True)
def _part(row, column, times, request, used, allocatable):
    after = used[row, column] + times * request[column]
    if after <= 0:
        return 0.0
    return min(float(after) / float(allocatable[row, column]), 1.0)


@njit(cache=True, nogil=True)
def _freedom(row, times, request, used, allocatable):
    total = 0.0
    for column in range(2):
        offer = allocatable[row, column]
        free = offer - (used[row, column] + times * request[column])
        if offer > 0 and free > 0:
            total += float(free) / float(offer) * 100.0
    return total / 2.0


@njit(cache=True, nogil=True)
def _use(row, times, request, used, allocatable):
    total = 0.0
    for column in range(2):
        offer = allocatable[row, column]
        after = used[row, column] + times * request[column]
        if offer > 0 and 0 < after <= offer:
            total += float(after) / float(offer) * 100.0
    return total / 2.0


@njit(cache=True, nogil=True)
def _evenness(row, times, request, used, allocatable, columns):
    count = 0.0
    total = 0.0
    for column in columns:
        if allocatable[row, column] > 0:
            count += 1.0
            total += _part(row, column, times, request, used, allocatable)
    divisor = max(count, 1.0)
    mean = total / divisor
    variance = 0.0
    for column in columns:
        if allocatable[row, column] > 0:
            off = _part(row, column, times, request, used, allocatable) - mean
            variance += off * off
    return (1.0 - np.sqrt(variance / divisor)) * 100.0


@njit(cache=True, nogil=True)
def _fullness(row, times, request, used, allocatable, columns, weights):
    total = 0.0
    weight_sum = 0.0
    for index in range(columns.shape[0]):
        column = columns[index]
        weight_sum += weights[index]
        offer = allocatable[row, column]
        if offer > 0:
            after = used[row, column] + times * request[column]
            if after > offer:
                return 0.0
            if after > 0:
                total += weights[index] * (float(after) / float(offer))
    return total / weight_sum * 100.0 if weight_sum > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _score(
    row, times, request, used, allocatable, base,
    least, most, balanced, pack, balanced_columns, pack_columns, pack_weights,
):  # fmt: skip
    score = base[row]
    if least != 0.0:
        score += least * _freedom(row, times, request, used, allocatable)
    if most != 0.0:
        score += most * _use(row, times, request, used, allocatable)
    if balanced != 0.0:
        score += balanced * _evenness(row, times, request, used, allocatable, balanced_columns)
    if pack != 0.0:
        score += pack * _fullness(row, times, request, used, allocatable, pack_columns, pack_weights)
    return score


@njit(cache=True, nogil=True)
def score_rows(
    rows, times, request, used, allocatable, base, out,
    least, most, balanced, pack, balanced_columns, pack_columns, pack_weights,
):  # fmt: skip
    for index in range(rows.shape[0]):
        row = rows[index]
        out[row] = _score(
            row, times[row] + 1, request, used, allocatable, base,
            least, most, balanced, pack, balanced_columns, pack_columns, pack_weights,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def place(
    count, mask, room, request, columns, score, used, allocatable, base,
    least, most, balanced, pack, balanced_columns, pack_columns, pack_weights, out,
):  # fmt: skip
    size = mask.shape[0]
    times = np.zeros(size, dtype=np.int64)
    for placed in range(count):
        best = -1
        best_score = 0.0
        for row in range(size):
            if not mask[row] or (best >= 0 and score[row] <= best_score):
                continue
            enough = True
            for index in range(columns.shape[0]):
                column = columns[index]
                if room[row, column] < (times[row] + 1) * request[column]:
                    enough = False
                    break
            if enough:
                best = row
                best_score = score[row]
            else:
                mask[row] = False
        if best < 0:
            return placed
        out[placed] = best
        times[best] += 1
        score[best] = _score(
            best, times[best] + 1, request, used, allocatable, base,
            least, most, balanced, pack, balanced_columns, pack_columns, pack_weights,
        )  # fmt: skip
    return count


@njit(cache=True, nogil=True)
def _fits(row, times, mask, room, request, columns):
    if not mask[row]:
        return False
    for index in range(columns.shape[0]):
        column = columns[index]
        if room[row, column] < (times + 1) * request[column]:
            return False
    return True


@njit(cache=True, nogil=True)
def _winner(left, right, score):
    """Of two rows; -1 is none. The first of equally good ones, as in `place`."""
    if left < 0:
        return right
    if right < 0 or score[left] >= score[right]:
        return left
    return right


@njit(cache=True, nogil=True)
def _play(tree, leaf, score):
    """Play the matches again on the way from a leaf to the top."""
    position = leaf >> 1
    while position >= 1:
        tree[position] = _winner(tree[2 * position], tree[2 * position + 1], score)
        position >>= 1


@njit(cache=True, nogil=True)
def rank_rows(rows, tree, mask, room, request, columns, score):
    """Bring the tree up to date for these rows. `tree` has twice as many entries as leaves, a power of two; the leaf of
    a row holds its number, or -1 if it cannot take a task."""
    leaves = tree.shape[0] // 2
    for index in range(rows.shape[0]):
        row = rows[index]
        tree[leaves + row] = row if _fits(row, 0, mask, room, request, columns) else -1
    if rows.shape[0] * 8 > leaves:
        for position in range(leaves - 1, 0, -1):
            tree[position] = _winner(tree[2 * position], tree[2 * position + 1], score)
        return
    for index in range(rows.shape[0]):
        _play(tree, leaves + rows[index], score)


@njit(cache=True, nogil=True)
def place_ranked(
    count, tree, times, mask, room, request, columns, score, used, allocatable, base,
    least, most, balanced, pack, balanced_columns, pack_columns, pack_weights, out,
):  # fmt: skip
    """As `place`, by the tree. `times` is zero everywhere. Leaves `times`, `tree` and `score` as they were: nothing is
    placed until the ledger says so."""
    leaves = tree.shape[0] // 2
    placed = 0
    while placed < count:
        best = tree[1]
        if best < 0:
            break
        out[placed] = best
        placed += 1
        times[best] += 1
        score[best] = _score(
            best, times[best] + 1, request, used, allocatable, base,
            least, most, balanced, pack, balanced_columns, pack_columns, pack_weights,
        )  # fmt: skip
        tree[leaves + best] = best if _fits(best, times[best], mask, room, request, columns) else -1
        _play(tree, leaves + best, score)
    for index in range(placed):
        row = out[index]
        if times[row] > 0:
            times[row] = 0
            score[row] = _score(
                row, 1, request, used, allocatable, base,
                least, most, balanced, pack, balanced_columns, pack_columns, pack_weights,
            )  # fmt: skip
            tree[leaves + row] = row
            _play(tree, leaves + row, score)
    return placed
