"""The month of `defragmentation.py` in seconds: a model of it without the scheduler, to compare many settings.

The model has nodes with free GPUs, jobs that start in the order of their arrival wherever they fit (the node with the
least room left), and the two ways of planning moves in a few lines each. Its waits are within a minute of those of the
simulation. Single runs differ by chance, since one move changes all that follows, so several seeds are added up.

    python benchmarks/defragmentation_model.py [--nodes 200] [--days 30] [--load 0.93] [--seed 1 --seed 2 --seed 3]

Settings are written as in the simulation (thresholds:51, pending:15, eager:2).
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from defragmentation import DAY, GPUS, HOUR, PERIOD, ROUND, SIZES, Work, generate

VARIANTS = (
    "thresholds:30", "thresholds:51", "thresholds:76", "pending:60", "pending:30", "pending:15", "eager:2", "eager",
)  # fmt: skip
HOLDERS = 4  # jobs for which nodes are set aside at a time
Planner = Callable[["Model", float], None]


class Model:
    def __init__(self, works: Sequence[Work], nodes: int, days: float, planner: Planner | None) -> None:
        self.works, self.days, self._planner = works, days, planner
        self.free = [GPUS] * nodes
        self.pods: list[dict[int, int]] = [{} for _ in range(nodes)]  # by node: GPUs of each job
        self.waiting: list[int] = []
        self.set_aside: dict[int, int] = {}  # a node for a job
        self.rests_until = [0.0] * nodes
        self.moves = 0
        self._node: dict[int, int] = {}
        self._started: dict[int, float] = {}
        self._events = [(work.at, 0, number) for number, work in enumerate(works)]

    def run(self) -> Model:
        heapq.heapify(self._events)
        now, next_round = 0.0, float(ROUND)
        while now <= self.days * DAY:
            while self._events and self._events[0][0] <= now:
                self._happen(*heapq.heappop(self._events)[1:])
            self._schedule(now)
            if now >= next_round:
                next_round += ROUND
                if self._planner is not None:
                    self._planner(self, now)
            # A cycle is due at the next event, the next round, or while a job waits for a node that is being cleared.
            due = -(-self._events[0][0] // PERIOD) * PERIOD if self._events else next_round
            now = max(now + PERIOD, min(due, next_round, now + PERIOD if self.set_aside else next_round))
        return self

    def _happen(self, ends: int, job: int) -> None:
        work = self.works[job]
        if not ends:
            self.waiting.append(job)
            if work.service:  # its user removes it, whether it has started or not
                heapq.heappush(self._events, (work.at + work.hours * HOUR, 1, job))
        elif job in self._node:
            node = self._node.pop(job)
            self.free[node] += self.pods[node].pop(job)
        elif job in self.waiting:
            self.waiting.remove(job)
            self.set_aside.pop(job, None)

    def _schedule(self, now: float) -> None:
        still = []
        for job in self.waiting:
            work, held = self.works[job], self.set_aside.get(job)
            node = held if held is not None and self.free[held] >= work.gpus else self.tightest(work.gpus, ())
            if node is None:
                still.append(job)
                continue
            self.set_aside.pop(job, None)
            self._place(job, node)
            self._started[job] = now
            if not work.service:
                heapq.heappush(self._events, (now + work.hours * HOUR, 1, job))
        self.waiting = still

    def tightest(self, gpus: int, closed: Iterable[int], taken: dict[int, int] | None = None) -> int | None:
        """The node with the least room left; `taken`: what is planned already."""
        taken = taken or {}
        shut = {*closed, *self.set_aside.values()}
        fitting = [
            (free - taken.get(node, 0), node)
            for node, free in enumerate(self.free)
            if free - taken.get(node, 0) >= gpus and node not in shut
        ]
        return min(fitting)[1] if fitting else None

    def _place(self, job: int, node: int) -> None:
        self.pods[node][job] = self.works[job].gpus
        self.free[node] -= self.works[job].gpus
        self._node[job] = node

    def resting(self, now: float) -> set[int]:
        return {node for node, until in enumerate(self.rests_until) if until > now}

    def carry_out(self, source: int, plan: Sequence[tuple[int, int]], now: float) -> None:
        for job, target in plan:
            self.free[source] += self.pods[source].pop(job)
            self._place(job, target)
            self.moves += 1
        for node in (source, *(target for _, target in plan)):
            self.rests_until[node] = now + PERIOD + ROUND

    def waits(self) -> dict[int, list[float]]:
        """Minutes by size, of the jobs that were not there at the start."""
        found: dict[int, list[float]] = {size: [] for size, _ in SIZES}
        for job, work in enumerate(self.works):
            if work.at:
                end = self.days * DAY
                if work.service and job not in self._started:
                    end = min(end, work.at + work.hours * HOUR)
                found[work.gpus].append((self._started.get(job, end) - work.at) / 60)
        return found


def thresholds(low: float, protection: float) -> Planner:
    def plan(model: Model, now: float) -> None:
        closed = model.resting(now)
        sources = [n for n, free in enumerate(model.free) if 0 < GPUS - free < low / 100 * GPUS and n not in closed]
        for source in sorted(sources, key=lambda n: (-model.free[n], n)):
            if source in model.resting(now):
                continue  # it has taken a pod of another one
            moves, taken = [], dict[int, int]()
            for job, gpus in sorted(model.pods[source].items(), key=lambda pod: (-pod[1], pod[0])):
                # Not to nodes that are empty, used less than the source, or would be too full.
                unfit = [n for n, free in enumerate(model.free) if (free == GPUS or free > model.free[source] or
                         (GPUS - free + taken.get(n, 0) + gpus) * 100 > protection * GPUS)]  # fmt: skip
                target = model.tightest(gpus, {source, *closed, *unfit}, taken)
                if target is None or not model.works[job].service:
                    break
                taken[target] = taken.get(target, 0) + gpus
                moves.append((job, target))
            else:
                model.carry_out(source, moves, now)
                closed.add(source)

    return plan


def for_pending(minutes: float = 0.0, most: int = 8) -> Planner:
    def plan(model: Model, now: float) -> None:
        resting, tried = model.resting(now), dict[int, int]()
        sources: set[int] = set()
        for job in list(model.waiting):
            work = model.works[job]
            moves = min(most, int((now - work.at) / 60 / minutes)) if minutes else most
            if job in model.set_aside or len(model.set_aside) >= HOLDERS or tried.get(work.gpus, -1) >= moves:
                continue
            for _, _, source, leaving in _cheapest(model, work.gpus, resting | model.resting(now)):
                found = _seats(model, leaving, {source, *resting, *sources}) if len(leaving) <= moves else None
                if found is not None:
                    model.carry_out(source, found, now)
                    model.set_aside[job] = source
                    sources.add(source)
                    break
            else:
                tried[work.gpus] = moves

    return plan


def _cheapest(model: Model, gpus: int, closed: set[int]) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """For each node: how many pods would have to leave, how large they are, and which."""
    found = []
    for node, free in enumerate(model.free):
        pods = {job: size for job, size in model.pods[node].items() if model.works[job].service}
        short = gpus - free
        if node in closed or node in model.set_aside.values() or short <= 0 or sum(pods.values()) < short:
            continue
        largest = sorted(pods.values(), reverse=True)
        count = next(n for n in range(1, len(pods) + 1) if sum(largest[:n]) >= short)
        sets = [(sum(pods[job] for job in chosen), chosen) for chosen in combinations(sorted(pods), count)]
        size, chosen = min(each for each in sets if each[0] >= short)
        found.append((count, size, node, chosen))
    return sorted(found)


def _seats(model: Model, leaving: Sequence[int], closed: set[int]) -> list[tuple[int, int]] | None:
    found, taken = [], dict[int, int]()
    for job in sorted(leaving, key=lambda job: (-model.works[job].gpus, job)):
        target = model.tightest(model.works[job].gpus, closed, taken)
        if target is None:
            return None
        taken[target] = taken.get(target, 0) + model.works[job].gpus
        found.append((job, target))
    return found


def planner_of(variant: str) -> Planner:
    mode, _, value = variant.partition(":")
    match mode:
        case "thresholds":
            return thresholds(float(value or 30), 95 if not value or float(value) == 30 else 100)
        case "pending":
            return for_pending(float(value or 30))
        case "eager":
            return for_pending(most=int(value or 8))
    raise SystemExit(f"no such variant: {variant}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--load", type=float, default=0.93)
    parser.add_argument("--seed", action="append", type=int, help="may be given several times; 1, 2 and 3 by default")
    parser.add_argument("--variant", action="append")
    options = parser.parse_args(arguments)
    seeds = options.seed or [1, 2, 3]
    months = [generate(days=options.days, nodes=options.nodes, load=options.load, seed=seed) for seed in seeds]
    base = [Model(works, options.nodes, options.days, None).run().waits() for works in months]
    print(f"{'':14} {'mean wait of 8-GPU jobs, by seed':>36} {'moves':>6} {'saved per move*':>16} {'GPU hours**':>12}")
    _print_line("none", base, base, 0)
    for variant in options.variant or VARIANTS:
        models = [Model(works, options.nodes, options.days, planner_of(variant)).run() for works in months]
        _print_line(variant, base, [model.waits() for model in models], sum(model.moves for model in models))
    print("* Minutes that jobs of 8 GPUs wait less, in all. ** Hours that all jobs wait less, times their GPUs.")
    return 0


def _print_line(
    variant: str, base: Sequence[dict[int, list[float]]], waits: Sequence[dict[int, list[float]]], moves: int
) -> None:
    saved = {
        size: sum(sum(before[size]) - sum(after[size]) for before, after in zip(base, waits, strict=True))
        for size, _ in SIZES
    }
    means = " ".join(f"{sum(each[GPUS]) / max(1, len(each[GPUS])):6.0f}" for each in waits)
    hours = sum(size * minutes / 60 for size, minutes in saved.items())
    print(f"{variant:14} {means:>36} {moves:6} {saved[GPUS] / max(1, moves):16.0f} {hours / max(1, moves):12.0f}")


if __name__ == "__main__":
    sys.exit(main())
