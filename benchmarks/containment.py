"""Errors in every function that is handed one job: do all other jobs start?

The test suite tries a part of the functions (`tests/containment/test_every_function.py`); this tries all of them, in
all worlds, and prints each finding. It takes some minutes.

    python -m benchmarks.containment
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))


def main() -> int:
    from containment.contained_worlds import WORLDS, is_odd_name, play
    from containment.fault_injection import raising
    from containment.test_every_function import late, places_of

    findings = tried = 0
    for make in WORLDS:
        wrongly_charged = failed_cycles = 0
        for place in places_of(make):
            with raising(place):
                played = play(make())
            tried += 1
            wrongly_charged += any(not is_odd_name(ref.key) for ref in played.charged)
            failed_cycles += bool(played.failed_cycles)
            queues = sorted({ref.key for ref in played.charged if ref.kind == "Queue"})
            if queues:
                print(f"{make.__name__}: {place}: charged to queues {queues}", flush=True)
            if not played.errors or late(make, played):
                findings += 1
                print(f"{make.__name__}: {place}: late {late(make, played)}, {len(played.errors)} errors", flush=True)
        print(
            f"{make.__name__}: {len(places_of(make))} functions; errors in {wrongly_charged} were charged to others, "
            f"too, and in {failed_cycles} a cycle failed",
            flush=True,
        )
    print(f"{tried} tried, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
