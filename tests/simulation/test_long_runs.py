"""A run with many decisions loads the compiled kernels, once, and its report is that of the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulation.scenario_runner import load
from starvation.scenes import node, pod
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.simulation import engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.report import build_report, encode_report
from stromboli.simulation.virtual_time import microseconds


@pytest.mark.parametrize(("many", "loaded"), [(3, 1), (1000, 0)])
def test_compiled_kernels_are_loaded_when_a_run_is_long(
    many: int, loaded: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(engine, "_LONG_RUN", many)
    monkeypatch.setattr(engine, "load_compiled_kernels", lambda: calls.append(1))
    documents = [node("n1", 2, pods=10), *[pod(f"p{number}", 1, at=10 * number, run=15) for number in range(12)]]
    file = tmp_path / "scenario.json"
    file.write_text("\n---\n".join(json.dumps(document) for document in documents))
    registry = Registry()
    journal, configuration = Journal(), registry.default()
    run = engine.Engine(
        load(file), journal, new_scheduler=lambda: Scheduler(configuration, registry), period=microseconds(1)
    )
    run.run()
    assert len(calls) == loaded
    assert json.loads(encode_report(build_report(run)))["pods"]
