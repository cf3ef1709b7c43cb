"""Many random worlds, judged by properties: do starvation, lending, queues, namespaces and priorities keep together?

    python benchmarks/together.py [--worlds 1000] [--seed 0] [--jobs 2] [--write FOLDER]

Seeds are counted from --seed on. Each has two worlds: one whose pods run about as long as the threshold of starvation,
and one with runs of 0.1 to 20 times that. Each world runs with and without the action reserve. Findings are printed
with their seed; with --write the files of every seed that has one are put below that folder, with the commands that run
them. The last line is one JSON document with what was judged. The exit status is 1 if anything was found.

The worlds and the checker are those of the tests. `tests/together/checker.py` says what is judged, and how.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

# This folder goes, as this file would be found in place of the folder of the tests that has its name.
HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent / "tests"), *(entry for entry in sys.path if Path(entry or ".").resolve() != HERE)]

from together.checker import Verdict, judge  # noqa: E402
from together.worlds import long_world, world  # noqa: E402
from world_runner import run_worlds  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    return run_worlds(__doc__.partition("\n")[0], run, write, arguments)


def run(seed: int) -> tuple[int, Verdict]:
    verdict, long = judge(world(seed), always_without=True), judge(long_world(seed), always_without=True)
    verdict.findings += [replace(found, check=f"long: {found.check}") for found in long.findings]
    verdict.judged += Counter({f"long: {what}": number for what, number in long.judged.items()})
    return seed, verdict


def write(seed: int, folder: Path) -> None:
    for kind, drawn in (("", world(seed)), ("long-", long_world(seed))):
        for name, reserve in (("with", True), ("without", False)):
            place = folder / f"{seed}-{kind}{name}-reserve"
            place.mkdir(parents=True, exist_ok=True)
            print("  stromboli " + " ".join(drawn.situation(reserve=reserve).write(place)))


if __name__ == "__main__":
    sys.exit(main())
