"""Which nodes are chosen: the score against an oracle in fractions, the search against all combinations, and a worker
that changes its mind only for a reason."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from msgspec.structs import replace

from builders import node
from queue_locks.lock_objects import Setting, locking_queue
from stromboli.controllers.queue_locks.demand import Demand
from stromboli.controllers.queue_locks.score import Nodes, score_of, sum_of
from stromboli.controllers.queue_locks.search import best_set, exact_set, greedy_set

Amounts = list[tuple[int, ...]]


def oracle(sizes: Amounts, mine: Amounts, idle: Amounts, chosen: list[int], target: tuple[int, ...]) -> Fraction:
    """The score as it is defined, written a second time, in exact fractions and without arrays."""

    def total(amounts: Amounts, resource: int) -> int:
        return sum(amounts[row][resource] for row in chosen)

    resources = range(len(target))
    there = [r for r in resources if total(sizes, r)]
    asked = [r for r in resources if target[r]]
    fit = sum(min(Fraction(1), Fraction(target[r], total(sizes, r))) for r in there if target[r]) / len(there)
    own = sum((Fraction(total(mine, r), total(sizes, r)) for r in asked if total(sizes, r)), Fraction(0)) / len(asked)
    free = sum((Fraction(total(idle, r), total(sizes, r)) for r in asked if total(sizes, r)), Fraction(0)) / len(asked)
    return Fraction(40 * fit + 35 * own + 10 * free, 100) + Fraction(15, 100 * len(chosen))


def arrays(sizes: Amounts, mine: Amounts, idle: Amounts) -> Nodes:
    table = [np.array(amounts, dtype=np.float64).T for amounts in (sizes, sizes, mine, idle)]
    return Nodes(tuple(f"n{i:03}" for i in range(len(sizes))), *table)


def random_cluster(rng: random.Random, number: int) -> tuple[Amounts, Amounts, Amounts]:
    sizes, mine, idle = [], [], []
    for _ in range(number):
        cpu = rng.choice([4, 8, 16, 32])
        size = (cpu * 1000, cpu * rng.choice([2, 4, 8]), rng.choice([0, 0, 0, 4, 8]))
        own = rng.choice([0, 0, rng.randint(1, 50)])
        others = rng.choice([0, rng.randint(0, 100 - own)])
        sizes.append(size)
        mine.append(tuple(part * own // 100 for part in size))
        idle.append(tuple(part - part * own // 100 - part * others // 100 for part in size))
    return sizes, mine, idle


# n1 4C8G idle, n2 8C16G with 4C8G of others, n3 8C16G with 2C4G of the queue itself, n4 16C32G idle.
FOUR = (
    [(4, 8), (8, 16), (8, 16), (16, 32)],
    [(0, 0), (0, 0), (2, 4), (0, 0)],
    [(4, 8), (4, 8), (6, 12), (16, 32)],
)


@pytest.mark.parametrize(
    ("target", "best", "score"),
    # 8C16G on n3: fit 1, mine 1/4, n 1, free 3/4: 0.4 + 0.0875 + 0.15 + 0.075
    # 10C20G on n1 and n3: fit 10/12, mine 2/12, n 2, free 10/12: 0.3333 + 0.0583 + 0.075 + 0.0833
    # 20C40G on n1 and n4: fit 1, mine 0, n 2, free 1: 0.4 + 0 + 0.075 + 0.1
    [((8, 16), [2], 0.7125), ((10, 20), [0, 2], 0.55), ((20, 40), [0, 3], 0.575)],
)
def test_three_examples(target: tuple[int, int], best: list[int], score: float) -> None:
    nodes, demand = arrays(*FOUR), Demand(np.array(target, dtype=np.float64))
    assert best_set(nodes, demand, most=4) == greedy_set(nodes, demand, most=4) == best
    assert round(score_of(nodes, best, demand.target), 4) == score
    assert round(float(oracle(*FOUR, best, target)), 4) == score


def test_a_gpu_node_is_no_cheap_cpu_node() -> None:
    """Both have the 8 CPUs; the GPUs of the second would be wasted: fit 1 to fit 1/2."""
    sizes: Amounts = [(8, 0), (8, 4)]
    nodes = arrays(sizes, [(0, 0), (0, 0)], sizes)
    assert best_set(nodes, Demand(np.array([8.0, 0.0])), most=2) == [0]
    assert best_set(nodes, Demand(np.array([8.0, 4.0])), most=2) == [1]


def test_the_score_agrees_with_the_oracle() -> None:
    rng = random.Random(11)
    for _ in range(200):
        sizes, mine, idle = cluster = random_cluster(rng, rng.randint(1, 9))
        chosen = sorted(rng.sample(range(len(sizes)), rng.randint(1, len(sizes))))
        target = (rng.randint(1, 60) * 500, rng.choice([0, rng.randint(1, 200)]), rng.choice([0, rng.randint(1, 8)]))
        expected = float(oracle(sizes, mine, idle, chosen, target))
        found = score_of(arrays(*cluster), chosen, np.array(target, dtype=float))
        assert found == pytest.approx(expected, abs=5e-5)


def test_all_combinations_are_really_tried() -> None:
    """Against a search without arrays: the best of all sets that are enough."""
    rng = random.Random(12)
    for _ in range(30):
        sizes, mine, idle = cluster = random_cluster(rng, rng.randint(2, 7))
        rows = range(len(sizes))
        target = (sum(size[0] for size in sizes) * rng.randint(5, 70) // 100, 0, 0)
        enough = [
            list(chosen)
            for number in range(1, len(sizes) + 1)
            for chosen in combinations(rows, number)
            if sum(sizes[row][0] for row in chosen) >= target[0]
        ]
        best = max(oracle(sizes, mine, idle, chosen, target) for chosen in enough)
        found = exact_set(arrays(*cluster), Demand(np.array(target, dtype=float)), most=len(sizes))
        assert found is not None
        assert float(oracle(sizes, mine, idle, found, target)) == pytest.approx(float(best), abs=1e-8)


def test_the_greedy_search_is_within_a_twentieth_of_the_best() -> None:
    rng = random.Random(2026)
    for number in range(200):
        nodes = arrays(*random_cluster(rng, rng.randint(2, 12)))
        total = nodes.sizes.sum(axis=1)
        if number % 3:
            wanted = total * rng.uniform(0.05, 0.8) * np.array([1, rng.choice([0, 0.5, 1]), rng.choice([0, 0, 0.7])])
            demand = Demand(np.floor(wanted))
        else:
            demand = Demand(total * 0.3 * np.array([1, 1, 0]), count=rng.randint(1, len(nodes)))
        best = exact_set(nodes, demand, most=len(nodes))
        assert best is not None
        greedy = greedy_set(nodes, demand, most=len(nodes))
        assert bool(demand.is_met(sum_of(nodes, greedy))[0])
        assert score_of(nodes, greedy, demand.target) >= 0.95 * score_of(nodes, best, demand.target), number


def test_a_search_among_many_nodes_finds_a_set_that_is_enough_and_has_nothing_needless() -> None:
    rng = random.Random(13)
    nodes = arrays(*random_cluster(rng, 1500))
    for share in (0.001, 0.01, 0.1):
        demand = Demand(np.floor(nodes.sizes.sum(axis=1) * share))
        chosen = best_set(nodes, demand, most=750)
        assert bool(demand.is_met(sum_of(nodes, chosen))[0])
        for row in chosen:
            assert not bool(demand.is_met(sum_of(nodes, [other for other in chosen if other != row]))[0])


def test_nodes_that_must_stay_stay() -> None:
    rng = random.Random(14)
    for number in (8, 40, 400):
        nodes = arrays(*random_cluster(rng, number))
        demand = Demand(np.floor(nodes.sizes.sum(axis=1) * 0.3))
        keep = sorted(rng.sample(range(number), 2))
        assert set(keep) <= set(best_set(nodes, demand, most=number, keep=keep))


# -- the worker -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [10, 14])
def test_no_thrash(number: int) -> None:
    """A thousand rounds with changing usage. The set changes only if another is better by a tenth, and then it is: by
    the oracle, the score of the new set is more than 1.1 times that of the old one."""
    rng = random.Random(number)
    nodes = [node(f"n{i:02}", cpu=rng.choice([8, 16]), memory="32Gi") for i in range(number)]
    setting = Setting(nodes, [locking_queue("q1", {"cpu": "40", "memory": "60Gi"})])
    usage = {i: (rng.random() * 0.4, rng.random() * 0.5) for i in range(number)}
    before: list[str] = []
    changes = 0
    for round_number in range(1000):
        for i in rng.sample(range(number), 2):
            usage[i] = (rng.random() * 0.4, rng.random() * 0.5)
        setting.use(usage)
        setting.round(at=5.0 * round_number)
        locked = setting.locked("q1")
        if before and locked != before:
            changes += 1
            old, new = (oracle_of(setting, names) for names in (before, locked))
            assert new > old * Fraction(11, 10) - Fraction(1, 10**6)
        before = locked
    assert 0 < changes < 250


def oracle_of(setting: Setting, names: list[str]) -> Fraction:
    sizes, mine, idle = setting.amounts("q1")
    rows = [i for i, obj in enumerate(setting.nodes) if obj.metadata.name in names]
    return oracle(sizes, mine, idle, rows, (40_000, 60 * 2**30))


def test_between_rounds_a_better_set_is_not_looked_for() -> None:
    nodes = [node(f"n{i}", cpu=8) for i in range(4)]
    setting = Setting(nodes, [locking_queue("q1", {"cpu": "8"})])
    setting.round(at=0.0)
    assert setting.locked("q1") == ["n0"]
    setting.use({2: (1.0, 0.0)})  # n2 is used by q1 alone: 0.4 + 0.35 + 0.15 to 0.65
    setting.round(at=3.0, is_round=False)
    assert setting.locked("q1") == ["n0"]
    setting.round(at=5.0)
    assert setting.locked("q1") == ["n2"]


def test_what_others_were_promised_is_avoided_and_what_is_locked_stays() -> None:
    nodes = [node(f"n{i}", cpu=8) for i in range(6)]
    setting = Setting(nodes, [locking_queue("q1", {"cpu": "8"})])
    setting.nominate("n0", queue="q2")
    setting.reserve("n1", queue="q2", once=True)
    setting.set_aside("n2", queue="q2")
    setting.round(at=0.0)
    assert setting.locked("q1") == ["n3"]
    setting.nominate("n3", queue="q2")
    setting.round(at=5.0)
    assert setting.locked("q1") == ["n3"]
    setting.set_aside("n3", queue="q2")
    setting.round(at=10.0, is_round=False)
    assert setting.locked("q1") == ["n4"]


def test_promises_to_the_queue_itself_keep_it_from_nothing() -> None:
    setting = Setting([node("n0", cpu=8), node("n1", cpu=8)], [locking_queue("q1", {"cpu": "8"})])
    setting.nominate("n0", queue="q1")
    setting.set_aside("n0", queue="q1")
    setting.round(at=0.0)
    assert setting.locked("q1") == ["n0"]


def test_reservations_of_others_are_deducted_and_stay() -> None:
    """2 of n0's 8 CPUs are held for q2, so n0 covers 6: 8 CPUs need two nodes, 6 need one. Its own would not count."""
    nodes = [node("n0", cpu=8), node("n1", cpu=6), node("n2", cpu=6), node("n3", cpu=6)]
    for asked, holder, locked in (("8", "q2", 2), ("8", "q1", 1), ("6", "q2", 1)):
        setting = Setting(nodes, [locking_queue("q1", {"cpu": asked})])
        setting.reserve("n0", queue=holder, cpu=2)
        setting.round(at=0.0)
        assert len(setting.locked("q1")) == locked


def test_an_edited_status_is_corrected() -> None:
    """Somebody wrote nodes into the status that the queue may not have."""
    setting = Setting([node(f"n{i}", cpu=8) for i in range(4)], [locking_queue("q1", {"cpu": "8"})])
    setting.round(at=0.0)
    queue = setting.queues["q1"]
    forged = replace(queue.status.reservation, nodes=["n0", "n1", "n2", "n3", "gone"])
    setting.queues["q1"] = replace(queue, status=replace(queue.status, reservation=forged))
    setting.round(at=1.0, is_round=False)
    assert len(setting.locked("q1")) == 1
