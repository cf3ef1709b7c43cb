"""Many random clusters that come to rest: does anything lie idle that somebody waits for?

    python benchmarks/conservation.py [--worlds 1000] [--seed 0] [--jobs 2] [--write FOLDER]

Seeds are counted from --seed on. Findings are printed with their seed; with --write the files of every world that has
one are put below that folder, with the command that runs them. The last line is one JSON document with what was
judged. The exit status is 1 if anything was found.

The worlds and the checker are those of the tests. `tests/conservation.checker.py` says what is judged, and how.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from pathlib import Path

# This folder goes, as this file would be found in place of the folder of the tests that has its name.
HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent / "tests"), *(entry for entry in sys.path if Path(entry or ".").resolve() != HERE)]

from conservation.checker import Verdict, judge  # noqa: E402
from conservation.worlds import world  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first world")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="a folder for the files of worlds with findings")
    options = parser.parse_args(arguments)
    seeds = range(options.seed, options.seed + options.worlds)
    judged: Counter[str] = Counter()
    found: Counter[str] = Counter()
    failing: list[int] = []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for seed, verdict in pool.imap(run, seeds):
            judged += verdict.judged
            for finding in verdict.findings:
                found[finding.check] += 1
                print(f"seed {seed}, at {finding.time:g} s: {finding.check}: {finding.text}", flush=True)
            if verdict.findings:
                failing.append(seed)
                if options.write:
                    write(seed, options.write)
    print(json.dumps({"worlds": len(seeds), "failing": failing, "findings": dict(found), "judged": dict(judged)}))
    return 1 if failing else 0


def run(seed: int) -> tuple[int, Verdict]:
    return seed, judge(world(seed))


def write(seed: int, folder: Path) -> None:
    place = folder / str(seed)
    place.mkdir(parents=True, exist_ok=True)
    print("  stromboli " + " ".join(world(seed).situation().write(place)))


if __name__ == "__main__":
    sys.exit(main())
