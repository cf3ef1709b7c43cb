"""The command: `python -m tests.mutants --help`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from .changes import Change, changes_of
from .explained import why_unnoticeable
from .reach import Reach, reach, test_files
from .snapshot import PACKAGES, WORK, bring_up_to_date, modules, run_pytest

RESULTS = WORK / "results.jsonl"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="mutants", description="Would the tests notice a change of the source?")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--count", type=int, default=20, help="how many changes to draw")
    parser.add_argument("--package", default="", help="a part of a module's path, such as sharing")
    parser.add_argument("--list", action="store_true", help="print the changes and stop")
    parser.add_argument("--seconds", type=float, default=120, help="of tests for one change, short ones first")
    parser.add_argument("--processes", type=int, default=1, help="that try changes at the same time")
    parser.add_argument("--tests", nargs="*", default=[], help="files and folders to ask; all if none is named")
    parser.add_argument("--fresh", action="store_true", help="forget what tests reach, and earlier results")
    options = parser.parse_args(arguments)
    if options.fresh:
        shutil.rmtree(WORK, ignore_errors=True)
    drawn = draw(options.package, options.seed, options.count)
    if options.list:
        print(*map(described, drawn), sep="\n")
        return 0
    tests = test_files(options.tests)
    version = sha256(json.dumps([tests, options.seconds]).encode()).hexdigest()[:16]
    known = results()
    # A change that was noticed will be noticed. One that was not is tried again with other tests or more time.
    todo = [c for c in drawn if (old := known.get(c.key)) is None or (is_survivor(old) and old["version"] != version)]
    print(f"{len(drawn)} changes, {len(drawn) - len(todo)} of them tried before.", flush=True)
    if todo:
        run(todo, reach(tests), version, options.seconds, options.processes)
    return report([(change, known[change.key]) for known in (results(),) for change in drawn if change.key in known])


def draw(part: str, seed: int, count: int) -> list[Change]:
    """By the digest of seed and key, so that the same ones are drawn after a change elsewhere in the source."""
    found = [change for path, module in modules() if part in str(path) for change in changes_of(path, module)]
    return sorted(found, key=lambda change: sha256(f"{seed} {change.key}".encode()).digest())[:count]


def results() -> dict[str, dict[str, Any]]:
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {result["key"]: result for result in map(json.loads, lines)}


def is_survivor(result: dict[str, Any]) -> bool:
    return bool(result["outcome"] == "survived")


def run(changes: list[Change], reached: Reach, version: str, seconds: float, processes: int) -> None:
    killers = Counter(result["test"] for result in results().values() if result["outcome"] == "killed")
    tests_of = {change.key: in_order(reached, change, killers, seconds) for change in changes}

    def run_part(number: int) -> None:
        copy = bring_up_to_date(f"changed-{number}")
        planned = [plan_for(change, copy, tests_of[change.key], version) for change in changes[number::processes]]
        if planned:
            run_in(copy, planned, reached.seconds)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(run_part, range(processes)))


def plan_for(change: Change, copy: Path, tests: list[str], version: str) -> dict[str, Any]:
    return {
        "key": change.key,
        "path": str(copy / change.path),
        "module": change.module,
        "function": change.function.name,
        "source": change.source,
        "place": place(change),
        "tests": tests,
        "version": version,
    }


def run_in(copy: Path, planned: list[dict[str, Any]], seconds: dict[str, float]) -> None:
    plan = copy.with_suffix(".json")
    plan.write_text(json.dumps({"changes": planned, "results": str(RESULTS), "seconds": seconds}))
    files = sorted({test.partition("::")[0] for change in planned for test in change["tests"]})
    run_pytest(copy, {"STROMBOLI_TRIALS": str(plan)}, "-s", "-p", "no:xdist", "-p", "tests.mutants.trial_run", *files)


def in_order(reached: Reach, change: Change, killers: Counter[str], seconds: float) -> list[str]:
    """Those first that noticed other changes in less time, then short ones."""
    chosen, total = [], 0.0
    took = reached.seconds
    for test in sorted(reached.tests_of(change), key=lambda test: ((took[test] + 0.01) / (1 + killers[test]), test)):
        total += took[test]
        if total > seconds:
            break
        chosen.append(test)
    return chosen


def place(change: Change) -> str:
    return f"{change.path.relative_to('src')}:{change.line} {change.function.name} ({change.kind})"


def described(change: Change) -> str:
    return "\n".join([place(change), *(f"    {line}" for line in change.difference)])


def report(tried: list[tuple[Change, dict[str, Any]]]) -> int:
    survivors = [change for change, result in tried if is_survivor(result)]
    for change in survivors:
        why = why_unnoticeable(change)
        print(f"\nNobody noticed: {described(change)}" if why is None else f"\n{described(change)}\n    {why}")
    print(f"\n{'package':32} {'killed':>8} {'explained':>10} {'survived':>9} {'skipped':>8}")
    for package in (*PACKAGES, ""):
        counts = Counter(outcome(change, result) for change, result in tried if f"/{package}" in str(change.path))
        if counts:
            numbers = (counts[name] for name in ("killed", "explained", "survived", "skipped"))
            print("{:32} {:8} {:10} {:9} {:8}".format(package or "all", *numbers))
    return int(any(why_unnoticeable(change) is None for change in survivors))


def outcome(change: Change, result: dict[str, Any]) -> str:
    """What no test noticed may be explained."""
    return "explained" if is_survivor(result) and why_unnoticeable(change) is not None else str(result["outcome"])


if __name__ == "__main__":
    sys.exit(main())
