"""Whether two versions decide the same: a hash of all that happens in each of many worlds.

    python benchmarks/decisions.py [--worlds 1000] [--seed 0] [--jobs 2] > before.txt
    python benchmarks/decisions.py [--worlds 1000] [--seed 0] [--jobs 2] --compare before.txt

Each line is the name of a world and the hash of its whole report: all placements, evictions, conditions, reasons and
times. The worlds are the examples, and random ones with all features, every second one with a scheduler that restarts
again and again. --compare reads the lines of another version, prints the worlds that differ, and then ends with 1.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent / "tests"), *(entry for entry in sys.path if Path(entry or ".").resolve() != HERE)]

from click.testing import CliRunner  # noqa: E402

from all_features.checkers.repetition import restarts  # noqa: E402
from all_features.generator.draw import draw  # noqa: E402
from stromboli.console.main import cli  # noqa: E402

EXAMPLES = HERE.parent / "examples"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first world")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--compare", type=Path, help="the lines that another version printed")
    options = parser.parse_args(arguments)
    before = _read(options.compare) if options.compare else {}
    names = [*(path.name for path in sorted(EXAMPLES.glob("*.yaml"))), *_seeds(options.seed, options.worlds)]
    if options.compare and (unknown := [name for name in names if name not in before]):
        parser.error(f"{options.compare} has no line for {unknown[0]}")
    different = 0
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for name, digest in pool.imap(run, names):
            if not options.compare:
                print(name, digest, flush=True)
            elif before[name] != digest:
                different += 1
                print(f"{name} differs", flush=True)
    if options.compare:
        print(f"{len(names)} worlds, {different} differ")
    return 1 if different else 0


def _seeds(first: int, count: int) -> list[str]:
    return [str(seed) for seed in range(first, first + count)]


def _read(path: Path) -> dict[str, str]:
    return dict(line.split() for line in path.read_text(encoding="utf-8").splitlines())


def run(name: str) -> tuple[str, str]:
    """The world of this name, and its hash."""
    if name.endswith(".yaml"):
        result = CliRunner().invoke(cli, ["simulate", str(EXAMPLES / name), "--output", "json"])
        report = result.stdout_bytes
    else:
        world = draw(int(name))
        documents = [*world.documents, *restarts(world, int(name))] if int(name) % 2 else None
        report = world.output(documents)
    return name, hashlib.sha256(report).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
