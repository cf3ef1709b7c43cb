"""The compiled kernels and the readable ones are the same function.

Not nearly: a last bit of difference in a score is another node for a pod, and then a small cluster and a big one, or
two machines, would no longer decide alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.scheduling.placement import kernels, kernels_numpy

WIDTH = 5
GI = 1 << 30

# Nothing, little, a terabyte, and numbers beyond 2**53, which no float holds exactly.
amounts = st.one_of(st.just(0), st.integers(1, 8), st.integers(1, 64).map(lambda n: n * GI), st.integers(2**53, 2**56))
weights = st.one_of(st.just(0.0), st.just(1.0), st.integers(1, 50).map(float), st.floats(0.01, 10.0))


@st.composite
def placements(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """The arguments of `place`, by name, and how many tasks to place."""
    nodes = draw(st.integers(1, 6))

    def matrix(values: st.SearchStrategy[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
        rows = st.lists(values, min_size=WIDTH, max_size=WIDTH)
        return np.array(draw(st.lists(rows, min_size=nodes, max_size=nodes)), dtype=np.int64)

    used = matrix(amounts)
    request = np.array(draw(st.lists(amounts, min_size=WIDTH, max_size=WIDTH)), dtype=np.int64)
    # Mostly room for a few tasks, for scores only tell nodes apart that have some; but also none, and less than none.
    allocatable = np.maximum(used + request * matrix(st.sampled_from([0, 1, 2, 3, 5])) + matrix(st.integers(-2, 9)), 0)
    allocatable[matrix(st.integers(0, 9)) == 9] = 0
    balanced = [0, 1, *draw(st.sampled_from([[], [3]]))]
    packed = draw(st.lists(st.integers(0, WIDTH - 1), unique=True, max_size=3))
    arguments = {
        "mask": np.array(draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes)), dtype=np.bool_),
        "room": allocatable - used,  # negative where a node shrank below what runs on it
        "request": request,
        "columns": np.flatnonzero(request),
        "used": used,
        "allocatable": allocatable,
        "base": np.array(draw(st.lists(st.floats(0, 600), min_size=nodes, max_size=nodes)), dtype=np.float64),
        "least": draw(weights),
        "most": draw(weights),
        "balanced": draw(weights),
        "pack": draw(weights),
        "balanced_columns": np.array(balanced, dtype=np.int64),
        "pack_columns": np.array(packed, dtype=np.int64),
        "pack_weights": np.array([draw(weights) for _ in packed], dtype=np.float64),
    }
    return arguments, draw(st.integers(1, 8))


TERMS = ("least", "most", "balanced", "pack", "balanced_columns", "pack_columns", "pack_weights")


def scores(module: Any, a: dict[str, Any], times: Any) -> Any:
    out = np.zeros(len(a["mask"]), dtype=np.float64)
    rows = np.arange(len(out), dtype=np.int64)
    module.score_rows(
        rows, times, a["request"], a["used"], a["allocatable"], a["base"], out, *[a[term] for term in TERMS]
    )
    return out


def places(module: Any, a: dict[str, Any], count: int) -> tuple[list[int], Any]:
    score = scores(module, a, np.zeros(len(a["mask"]), dtype=np.int64))
    out = np.full(count, -1, dtype=np.int64)
    placed = module.place(
        count, a["mask"].copy(), a["room"], a["request"], a["columns"], score, a["used"], a["allocatable"], a["base"],
        *[a[term] for term in TERMS], out,
    )  # fmt: skip
    return out[:placed].tolist(), score


@settings(max_examples=120)
@given(placements(), st.integers(0, 5))
def test_scores_are_equal_to_the_last_bit(case: tuple[dict[str, Any], int], already: int) -> None:
    arguments, _ = case
    times = np.full(len(arguments["mask"]), already, dtype=np.int64)
    assert scores(kernels, arguments, times).tobytes() == scores(kernels_numpy, arguments, times).tobytes()


@settings(max_examples=120)
@given(placements())
def test_gangs_land_on_the_same_nodes_and_leave_the_same_scores(case: tuple[dict[str, Any], int]) -> None:
    arguments, count = case
    compiled, their_scores = places(kernels, arguments, count)
    readable, our_scores = places(kernels_numpy, arguments, count)
    assert compiled == readable
    assert their_scores.tobytes() == our_scores.tobytes()


@settings(max_examples=120)
@given(st.lists(placements(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_a_tree_of_tournaments_gives_the_same_places(cases: list[tuple[dict[str, Any], int]], random: Any) -> None:
    """Also after other rows have changed, and twice in a row, as nothing was placed."""
    a, count = cases[0]
    size = len(a["mask"])
    rows = np.arange(size, dtype=np.int64)
    times = np.zeros(size, dtype=np.int64)
    tree = np.full(2 << max(size - 1, 1).bit_length(), -1, dtype=np.int64)
    score = scores(kernels, a, times)
    changed = rows
    for _ in range(3):
        kernels.rank_rows(changed, tree, a["mask"], a["room"], a["request"], a["columns"], score)
        before = (tree.tobytes(), score.tobytes())
        for _ in range(2):
            out = np.full(count, -1, dtype=np.int64)
            placed = kernels.place_ranked(
                count, tree, times, a["mask"], a["room"], a["request"], a["columns"], score,
                a["used"], a["allocatable"], a["base"], *[a[term] for term in TERMS], out,
            )  # fmt: skip
            assert out[:placed].tolist() == places(kernels_numpy, a, count)[0]
            assert (tree.tobytes(), score.tobytes()) == before
            assert not times.any()
        changed = np.array(random.sample(range(size), random.randint(0, size)), dtype=np.int64)
        a["mask"][changed] = [random.random() < 0.7 for _ in changed]
        a["base"][changed] = [random.randint(0, 3) for _ in changed]
        score = scores(kernels, a, times)


@settings(max_examples=80)
@given(placements())
def test_a_gang_gets_the_best_places_and_only_as_many_as_fit(case: tuple[dict[str, Any], int]) -> None:
    """The same by hand: again and again the best node that still has room, the first of equals."""
    arguments, count = case
    request, room = arguments["request"].tolist(), arguments["room"].tolist()
    size = len(room)
    times = np.zeros(size, dtype=np.int64)
    expected: list[int] = []
    for _ in range(count):
        score = scores(kernels_numpy, arguments, times)
        fitting = [
            row
            for row in range(size)
            if arguments["mask"][row]
            and all(room[row][c] >= (int(times[row]) + 1) * request[c] for c in range(WIDTH) if request[c])
        ]
        if not fitting:
            break
        best = max(fitting, key=lambda row: (score[row], -row))
        expected.append(best)
        times[best] += 1
    assert places(kernels_numpy, arguments, count)[0] == expected
