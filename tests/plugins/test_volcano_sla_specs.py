"""Volcano's end-to-end specs about service levels (`test/e2e/schedulingbase/sla.go`, August 2026), by their names.

A cluster of four CPUs, and Jobs of pods of one CPU. The configuration is that of Volcano's own suites: `sla` stands
above `overcommit`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulation.scenario_runner import run_text
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

CONFIGURATION = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}, {name: sla}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: binpack}
"""
NODES = "".join(
    f"{{apiVersion: v1, kind: Node, metadata: {{name: n{number}}}, status: {{allocatable: {{cpu: 2}}}}}}\n---\n"
    for number in range(2)
)


def job(name: str, pods: int, time: str, *, at: str = "0s", until: str = "") -> str:
    marks = {"sla-waiting-time": time, "sim.stromboli.io/at": at} | ({"sim.stromboli.io/until": until} if until else {})
    annotations = ", ".join(f"{key}: {value}" for key, value in marks.items())
    return f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}, annotations: {{{annotations}}}}}
spec:
  minAvailable: {pods}
  tasks:
  - name: test
    replicas: {pods}
    template: {{spec: {{containers: [{{name: main, resources: {{requests: {{cpu: 1}}}}}}]}}}}
---
"""


def pods(folder: Path, text: str, until: float) -> dict[str, list[str]]:
    """The phases of the pods of each Job at a time."""
    registry = Registry(installed_plugins=(), installed_actions=())
    scheduler = Scheduler(registry.load(CONFIGURATION), registry)
    report: Any = run_text(folder, NODES + text, until=until, scheduler=scheduler)
    found: dict[str, list[str]] = {}
    for name, one in report["pods"].items():
        found.setdefault(name.removeprefix("default/").rpartition("-test-")[0], []).append(one["phase"])
    return found


def test_sla_permits_job_to_be_inqueue(tmp_path: Path) -> None:
    """It requests twice the cluster. Before its time it has no pods, after it they are there and wait."""
    large = job("j1-overlarge", 8, "3s")
    assert pods(tmp_path, large, 2) == {}
    assert pods(tmp_path, large, 6) == {"j1-overlarge": ["Pending"] * 8}


def test_sla_adjusts_job_order(tmp_path: Path) -> None:
    """In the spec a job keeps the others out that is larger than the cluster. Here such a job is promised nothing, so
    one that runs keeps them out. When it is gone, the one whose time is over first starts, although it came last."""
    text = job("j1-running", 4, "3s", until="20s") + job("j2-slow-sla", 4, "1h", at="10s")
    text += job("j3-fast-sla", 4, "30m", at="12s")
    assert pods(tmp_path, text, 15) == {"j1-running": ["Running"] * 4}
    found = pods(tmp_path, text, 30)
    assert found["j3-fast-sla"] == ["Running"] * 4
    assert "j2-slow-sla" not in found


def test_a_job_that_can_never_start_keeps_nobody_out(tmp_path: Path) -> None:
    text = job("j1-overlarge", 8, "3s") + job("j2-slow-sla", 4, "1h", at="10s")
    assert pods(tmp_path, text, 15) == {"j1-overlarge": ["Pending"] * 8, "j2-slow-sla": ["Running"] * 4}
