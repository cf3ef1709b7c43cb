"""Cycles that would change nothing are skipped: with and without them, a run has the same report, byte for byte.

The worlds are random and sparse: work comes now and then and runs for minutes, so most cycles have nothing to do but to
watch the clock. Thresholds, timeouts of reservations and of policies, estimates (true and false ones), TTLs, grace
periods and restarts make time alone change what happens.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from simulation.scenario_runner import load
from starvation.scenes import Document, gang, node, pod, priority_class, queue, restart
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.report import build_report, encode_report
from stromboli.simulation.virtual_time import microseconds
from together.situations import configuration, job, replica_set

WORLDS = 18
PARTS = 6  # so that several processes share them
ARRIVALS_END = 400


def documents(dice: Random) -> list[Document]:
    found: list[Document] = [priority_class("low", 1), priority_class("high", 100), queue("a", 1), queue("b", 2)]
    found += [node(f"n{number}", dice.choice([4, 8]), pods=50) for number in range(dice.randint(2, 3))]
    for number in range(dice.randint(6, 10)):
        found += _work(dice, f"w{number}")
    if dice.random() < 0.5:
        grace = dice.choice([0, 7])
        found.append(replica_set("service", dice.randint(1, 2), 1, queue="a", priority="low", grace=grace))
    if dice.random() < 0.5:
        found.append(restart(dice.randint(20, ARRIVALS_END), dice.choice(["scheduler", "controllers", "all"])))
    return found


def _work(dice: Random, name: str) -> list[Document]:
    run = dice.choice([None, 30.5, 90, 150, 200])
    options: dict[str, Any] = {
        "at": dice.choice([0, dice.randint(0, ARRIVALS_END), dice.randint(0, ARRIVALS_END) + 0.25]),
        "priority": dice.choice(["", "low", "high"]),
        "queue": dice.choice(["a", "b"]),
        "grace": dice.choice([0, 0, 12]),
    }
    if dice.random() < 0.5:
        # Some run for longer than they say, and some end early.
        options["estimate"] = (run or 60) * dice.choice([0.5, 1, 1, 1, 2])
    if run is not None:
        options["run"] = run
    cpus, pods = dice.choice([1, 2, 3, 4, 6]), dice.randint(1, 3)
    match dice.choice(["pod", "gang", "job"]):
        case "pod":
            return [pod(name, cpus, **options)]
        case "gang":
            return gang(name, *[cpus] * pods, **options)
    made = job(name, pods, cpus, **options)
    if dice.random() < 0.5:
        made["spec"]["ttlSecondsAfterFinished"] = dice.choice([0, 40])
    if dice.random() < 0.5:
        made["spec"]["policies"] = [
            {"event": "PodPending", "action": dice.choice(["AbortJob", "RestartJob"]), "timeout": "80s"},
            {"event": "PodEvicted", "action": "RestartJob", "timeout": "5s"},
        ]
    return [made]


def config(dice: Random) -> Document:
    reserve = {
        "starvingJobTimeThreshold": dice.choice([15, 45, 90]),
        "reservationTimeout": dice.choice([10, 35, 120]),
        "maxHolders": dice.randint(1, 2),
        "reservedNodePercent": dice.choice([50, 100]),
        "scope": dice.choice(["node", "amount"]),
    }
    backfill: Document = {"useEstimates": dice.random() < 0.7}
    if dice.random() < 0.6:
        backfill |= {"backfillNonBestEffort": True, "mode": dice.choice(["preemption", "wait"])}
    leave_out = tuple(name for name in ("reserve", "preempt", "reclaim") if dice.random() < 0.2)
    return configuration(reserve, backfill, leave_out=leave_out)


def report(seed: int, folder: Path, *, every_cycle: bool) -> tuple[bytes, int]:
    """The report of a world, and how many cycles were run."""
    dice = Random(seed)
    file = folder / "scenario.yaml"
    file.write_text("\n---\n".join(json.dumps(document) for document in documents(dice)), encoding="utf-8")
    registry = Registry()
    settings = registry.load(json.dumps(config(dice)))
    until = dice.choice([None, 300, 900])
    cycles = []
    engine = Engine(
        load(file),
        Journal(),
        new_scheduler=lambda: Scheduler(settings, registry),
        period=microseconds(dice.choice([1, 5])),
        until=None if until is None else microseconds(until),
        every_cycle=every_cycle,
    )
    engine.on_cycle = cycles.append
    engine.run()
    return encode_report(build_report(engine)), len(cycles)


@pytest.mark.parametrize("part", range(PARTS))
def test_skipping_cycles_changes_nothing(part: int, tmp_path: Path) -> None:
    skipped = 0
    for seed in range(part, WORLDS, PARTS):
        expected, every = report(seed, tmp_path, every_cycle=True)
        found, some = report(seed, tmp_path, every_cycle=False)
        assert found == expected, f"world {seed}"
        skipped += every - some
    assert skipped > 0, "a comparison of equal runs proves nothing"
