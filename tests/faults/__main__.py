"""The command: `python -m tests.faults --help`."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from pathlib import Path

from .plan import Plan, draw
from .run import Verdict, judge
from .shrink import shrink

COMMAND = ".venv/bin/python -m tests.faults"


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
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the fifth world that fails")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return _replay(_plan(options.plan, options.replay))
    if options.shrink is not None:
        return _shrink(_plan(options.plan, options.shrink))
    return _soak(options.first, options.seeds, options.hours, options.keep_going)


def _plan(file: Path | None, seed: int) -> Plan:
    return draw(seed) if file is None else Plan.from_json(file.read_text())


def _replay(plan: Plan) -> int:
    verdict = judge(plan)
    print(*verdict.lines, sep="\n")
    print(f"\n{len(verdict.lines)} lines, {verdict.digest}", *verdict.findings, sep="\n")
    return bool(verdict.findings)


def _shrink(plan: Plan) -> int:
    rules = judge(plan).rules
    if not rules:
        print("This world does not fail.")
        return 0
    small = shrink(plan, lambda one: bool(judge(one).rules & rules), lambda text: print(text, file=sys.stderr))
    print(small.to_json())
    for step in small.steps:
        print(step, file=sys.stderr)
    print(*judge(small).findings, sep="\n", file=sys.stderr)
    return 1


def _soak(first: int, seeds: int, hours: float | None, keep_going: bool) -> int:
    began, until = time.monotonic(), None if hours is None else time.monotonic() + hours * 3600
    hits: Counter[tuple[str, str]] = Counter()
    failed: list[int] = []
    seed = first
    while (seed < first + seeds) if until is None else (time.monotonic() < until):
        verdict = judge(draw(seed))
        hits.update(verdict.hits)
        if verdict.findings:
            failed.append(seed)
            print(failure(verdict), flush=True)
        seed += 1
        if (seed - first) % 50 == 0:
            gc.collect()
            print(
                f"{seed - first} worlds, {(seed - first) / (time.monotonic() - began):.2f}/s, {len(failed)} failed",
                flush=True,
            )
        if len(failed) == 5 and not keep_going:
            break
    print(coverage(hits))
    print(f"{seed - first} worlds in {time.monotonic() - began:.0f} s, {len(failed)} failed: {failed}")
    return bool(failed)


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
        rows.append(f"{fault:<16} {sum(of.values()):>7}  on {len(of)} kinds of requests: {most}")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
