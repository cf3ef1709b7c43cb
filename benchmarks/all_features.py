"""Random worlds with all features in one, judged by a checker for each feature.

    python benchmarks/all_features.py [--worlds 2000] [--seed 0] [--jobs 2] [--write FOLDER] [--close]
    python benchmarks/all_features.py --seed 17 --worlds 1 --shrink FOLDER
    python benchmarks/all_features.py --read FOLDER

The first runs worlds with seeds from --seed on, and prints each finding with the command that runs that world again.
With --write the files of every world that has a finding are put below that folder. --shrink takes objects away from
the first world that fails, as long as it fails in the same way, and writes what is left; --read judges the files of a
folder again.

With --close most groups of these worlds must be close together, and there are gangs of sub-groups.

The last lines are two JSON documents: how often each rule was tested, and what happened in these worlds. A feature that
never happens is a mistake in the generator, and makes the exit status 1, as a finding does.

The worlds and the checkers are those of the tests: tests/all_features.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

# This folder goes, as this file would be found in place of the folder of the tests that has its name.
HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent / "tests"), *(entry for entry in sys.path if Path(entry or ".").resolve() != HERE)]

from all_features.generator.close import draw_close  # noqa: E402
from all_features.generator.draw import draw  # noqa: E402
from all_features.judge import judge  # noqa: E402
from all_features.shrink import shrink  # noqa: E402
from all_features.tallies import missing  # noqa: E402
from all_features.verdict import Verdict  # noqa: E402
from all_features.world import World, command, read  # noqa: E402

ENOUGH = 200  # worlds in which everything happens


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first world")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="a folder for the files of worlds with findings")
    parser.add_argument("--shrink", type=Path, help="a folder for a small world that fails as the first one does")
    parser.add_argument("--close", action="store_true", help="worlds of groups that must be close together")
    parser.add_argument("--check", default="", help="with --shrink: the checker that must fail")
    parser.add_argument("--read", type=Path, help="judge the world in this folder")
    options = parser.parse_args(arguments)
    if options.read:
        return _judge_files(options.read)
    if options.shrink:
        return _shrink(_draw_of(options), options.seed, options.check, options.shrink)
    seeds = range(options.seed, options.seed + options.worlds)
    judged: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    found: Counter[str] = Counter()
    failing: list[int] = []
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for seed, verdict in pool.imap(partial(run, _draw_of(options)), seeds):
            judged.update(verdict.judged)
            seen.update(verdict.seen)
            for finding in verdict.findings:
                found[finding.check] += 1
                print(f"seed {seed}, at {finding.time:g} s: {finding.check}: {finding.text}", flush=True)
            if (seed + 1 - options.seed) % 100 == 0:
                print(f"{seed + 1 - options.seed} worlds, {len(failing)} with findings", file=sys.stderr, flush=True)
            if verdict.findings:
                failing.append(seed)
                close = " --close" if options.close else ""
                print(f"  python benchmarks/all_features.py{close} --seed {seed} --worlds 1", flush=True)
                if options.write:
                    print("  " + command(_draw_of(options)(seed).write(options.write / str(seed))))
    never = missing(seen) if len(seeds) >= ENOUGH else []
    if never:
        print(f"never happened: {', '.join(never)}")
    print(json.dumps({"judged": dict(sorted(judged.items()))}))
    print(json.dumps({"seen": dict(sorted(seen.items()))}))
    print(json.dumps({
        "worlds": len(seeds), "failing": failing, "findings": dict(found), "seconds": round(time.monotonic() - began)
    }))  # fmt: skip
    return 1 if failing or never else 0


def run(drawn: Callable[[int], World], seed: int) -> tuple[int, Verdict]:
    return seed, judge(drawn(seed), seed)


def _draw_of(options: argparse.Namespace) -> Callable[[int], World]:
    return draw_close if options.close else draw


def _shrink(drawn: Callable[[int], World], seed: int, check: str, folder: Path) -> int:
    world, finding = shrink(drawn(seed), seed, check, say=lambda text: print(text, file=sys.stderr))
    print(f"{len(world.documents)} documents, at {finding.time:g} s: {finding.check}: {finding.text}")
    print(command(world.write(folder)))
    (folder / "world.json").write_text(json.dumps({"seed": seed, "until": world.until, "check": finding.check}))
    return 1


def _judge_files(folder: Path) -> int:
    told = json.loads((folder / "world.json").read_text(encoding="utf-8"))
    findings = judge(read(folder, told["until"]), told["seed"]).findings
    for finding in findings:
        print(f"at {finding.time:g} s: {finding.check}: {finding.text}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
