"""What the benchmarks of random worlds share: they run many seeds, print findings, and count what was judged."""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run_worlds(
    description: str,
    run: Callable[[int], tuple[int, Any]],
    write: Callable[[int, Path], None],
    arguments: list[str] | None = None,
) -> int:
    """`run` judges the world of a seed; `write` puts its files below a folder. Returns the exit status."""
    parser = argparse.ArgumentParser(description=description)
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
