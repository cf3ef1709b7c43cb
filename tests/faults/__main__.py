"""The command: `python -m tests.faults --help`."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from .mistakes import MISTAKES, try_all
from .plan import Plan, draw
from .run import Verdict, judge
from .shrink import shrink

CHUNK: Final = 25  # worlds that one process runs
COMMAND: Final = ".venv/bin/python -m tests.faults"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="faults", description="The live processes in a simulated world with faults.")
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first one")
    parser.add_argument("--hours", type=float, help="run as many worlds as there is time for")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one world, and print its history")
    parser.add_argument(
        "--plan", type=Path, help="with --replay or --shrink: the steps in this file, not those of the seed"
    )
    parser.add_argument(
        "--shrink", type=int, metavar="SEED", help="find the fewest steps that still fail, and print them"
    )
    parser.add_argument("--until", type=int, default=5, metavar="N", help="stop after so many worlds that fail")
    parser.add_argument("--keep-going", action="store_true", help="do not stop for worlds that fail")
    parser.add_argument(
        "--mistakes", nargs="*", choices=MISTAKES, metavar="NAME", help="try whether they notice our mistakes"
    )
    parser.add_argument("--processes", type=int, default=1, help="how many worlds run at the same time")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return _replay(_plan(options.plan, options.replay))
    if options.shrink is not None:
        return _shrink(_plan(options.plan, options.shrink))
    if options.mistakes is not None:
        return try_all(options.mistakes, options.first, options.seeds)
    until = sys.maxsize if options.keep_going else options.until
    return _soak(options.first, options.seeds, options.hours, until, options.processes)


def _plan(file: Path | None, seed: int) -> Plan:
    return draw(seed) if file is None else Plan.from_json(file.read_text())


def _replay(plan: Plan) -> int:
    verdict = judge(plan)
    print(*verdict.lines, sep="\n")
    print(f"\n{len(verdict.lines)} lines, {verdict.digest}", *verdict.findings, sep="\n")
    return bool(verdict.findings)


def _shrink(plan: Plan) -> int:
    kinds = judge(plan).kinds
    if not kinds:
        print("This world does not fail.")
        return 0
    small = shrink(plan, lambda one: bool(judge(one).kinds & kinds), lambda text: print(text, file=sys.stderr))
    print(small.to_json())
    for step in small.steps:
        print(step, file=sys.stderr)
    print(*judge(small).findings, sep="\n", file=sys.stderr)
    return 1


class _Soak:
    """Worlds one after the other, and what came of them so far."""

    def __init__(self, first: int) -> None:
        self.first = self.seed = first
        self.began = time.monotonic()
        self.hits: Counter[tuple[str, str]] = Counter()
        self.failed: list[int] = []
        self.histories = sha256()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def run(self, seeds: range, processes: int) -> None:
        for text, met, digest in _judged(seeds, processes):
            self.hits.update(met)
            self.histories.update(digest.encode())
            if text:
                self.failed.append(self.seed)
                print(text, flush=True)
            self.seed += 1
        done = self.seed - self.first
        print(f"{done} worlds, {done / self.seconds:.2f}/s, {len(self.failed)} failed", flush=True)

    def tell(self) -> None:
        print(coverage(self.hits))
        print(f"All histories: {self.histories.hexdigest()}")
        print(f"{self.seed - self.first} worlds in {self.seconds:.0f} s, {len(self.failed)} failed: {self.failed}")


def _soak(first: int, seeds: int, hours: float | None, until: int, processes: int) -> int:
    soak = _Soak(first)
    last = sys.maxsize if hours is not None else first + seeds
    most_seconds = inf if hours is None else hours * 3600
    judge(draw(first))  # so that what is kept for all worlds is there before processes are forked
    gc.collect()
    gc.freeze()
    with suppress(KeyboardInterrupt):  # who interrupts it wants to know what came of it so far
        while soak.seed < last and soak.seconds < most_seconds and len(soak.failed) < until:
            soak.run(range(soak.seed, min(soak.seed + min(CHUNK, 5 * until) * processes, last)), processes)
    soak.tell()
    return bool(soak.failed)


def _judged(seeds: range, processes: int) -> list[tuple[str, Counter[tuple[str, str]], str]]:
    """In processes of their own, which end before their garbage is collected: that takes a fifth as long as worlds."""
    with get_context("fork").Pool(processes, gc.disable) as pool:
        return pool.map(_judge, seeds, chunksize=5)


def _judge(seed: int) -> tuple[str, Counter[tuple[str, str]], str]:
    verdict = judge(draw(seed))
    return failure(verdict) if verdict.findings else "", verdict.hits, verdict.digest


def failure(verdict: Verdict) -> str:
    seed = verdict.plan.seed
    findings = "\n".join(f"  {finding}" for finding in verdict.findings[:5])
    replay, small = f"{COMMAND} --replay {seed}", f"{COMMAND} --shrink {seed}"
    return f"seed {seed} fails:\n{findings}\n  replay: {replay}\n  make it small: {small}"


def coverage(hits: Counter[tuple[str, str]]) -> str:
    """How often each fault hit something, and what it hit most."""
    rows = []
    for fault in sorted({fault for fault, _ in hits}):
        of = Counter({what: count for (kind, what), count in hits.items() if kind == fault})
        most = ", ".join(f"{what} {count}" for what, count in sorted(of.items(), key=lambda one: (-one[1], one[0]))[:4])
        rows.append(f"{fault:<24} {sum(of.values()):>7}  {len(of):>3} kinds: {most}")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
