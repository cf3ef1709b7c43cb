"""Many random clusters that come to rest: does anything lie idle that somebody waits for?

    python benchmarks/conservation.py [--worlds 1000] [--seed 0] [--jobs 2] [--write FOLDER]

Seeds are counted from --seed on. Findings are printed with their seed; with --write the files of every world that has
one are put below that folder, with the command that runs them. The last line is one JSON document with what was
judged. The exit status is 1 if anything was found.

The worlds and the checker are those of the tests. `tests/conservation/checker.py` says what is judged, and how.
"""

from __future__ import annotations

import sys
from pathlib import Path

# This folder goes, as this file would be found in place of the folder of the tests that has its name.
HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent / "tests"), *(entry for entry in sys.path if Path(entry or ".").resolve() != HERE)]

from conservation.checker import Verdict, judge  # noqa: E402
from conservation.worlds import world  # noqa: E402
from world_runner import run_worlds  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    return run_worlds(__doc__.partition("\n")[0], run, write, arguments)


def run(seed: int) -> tuple[int, Verdict]:
    return seed, judge(world(seed))


def write(seed: int, folder: Path) -> None:
    place = folder / str(seed)
    place.mkdir(parents=True, exist_ok=True)
    print("  stromboli " + " ".join(world(seed).situation().write(place)))


if __name__ == "__main__":
    sys.exit(main())
