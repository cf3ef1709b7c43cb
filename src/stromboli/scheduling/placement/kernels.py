"""The placement kernels, compiled by Numba: the same results as kernels_numpy.py, bit for bit, for large clusters.

`nogil` lets the event loop run while a cycle computes. `cache` keeps the machine code on disk, so only the first start
compiles. There is no `fastmath`: it reorders sums, and the results of the two versions would differ.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NAME = "numba"


@njit(cache=True, nogil=True)
def _score(
    row, times, request, used, allocatable, base,
    least, most, balanced, pack, balanced_columns, pack_columns, pack_weights,
):  # fmt: skip
    score = base[row]
    if least != 0.0:
        total = 0.0
        for column in range(2):
            offer = allocatable[row, column]
            free = offer - (used[row, column] + times * request[column])
            if offer > 0 and free > 0:
                total += float(free) / float(offer) * 100.0
        score += least * (total / 2.0)
    if most != 0.0:
        total = 0.0
        for column in range(2):
            offer = allocatable[row, column]
            after = used[row, column] + times * request[column]
            if offer > 0 and 0 < after <= offer:
                total += float(after) / float(offer) * 100.0
        score += most * (total / 2.0)
    if balanced != 0.0:
        count = 0.0
        total = 0.0
        for index in range(balanced_columns.shape[0]):
            column = balanced_columns[index]
            if allocatable[row, column] > 0:
                count += 1.0
                total += _part(row, column, times, request, used, allocatable)
        divisor = max(count, 1.0)
        mean = total / divisor
        variance = 0.0
        for index in range(balanced_columns.shape[0]):
            column = balanced_columns[index]
            if allocatable[row, column] > 0:
                off = _part(row, column, times, request, used, allocatable) - mean
                variance += off * off
        score += balanced * ((1.0 - np.sqrt(variance / divisor)) * 100.0)
    if pack != 0.0:
        total = 0.0
        weight_sum = 0.0
        over = False
        for index in range(pack_columns.shape[0]):
            column = pack_columns[index]
            weight_sum += pack_weights[index]
            offer = allocatable[row, column]
            if offer > 0:
                after = used[row, column] + times * request[column]
                if after > offer:
                    over = True
                elif after > 0:
                    total += pack_weights[index] * (float(after) / float(offer))
        if not over and weight_sum > 0.0:
            score += pack * (total / weight_sum * 100.0)
    return score


@njit(cache=True, nogil=True)
def _part(row, column, times, request, used, allocatable):
    after = used[row, column] + times * request[column]
    if after <= 0:
        return 0.0
    return min(float(after) / float(allocatable[row, column]), 1.0)


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
