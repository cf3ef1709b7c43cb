"""Two half gangs that wait for each other, where one has starved and nodes are reserved for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stromboli.console.main import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "half-gangs.yaml"
CONFIGURATION = """
actions: enqueue, reclaim, allocate, preempt, reserve, backfill
tiers:
- plugins: [{name: priority}, {name: gang, arguments: {gangDeadlockTimeout: TIMEOUT}}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
configurations:
- {name: reserve, arguments: {starvingJobTimeThreshold: THRESHOLD}}
"""


# The node that is reserved for one of them is full with the other: it does not drain by itself.
@pytest.mark.parametrize(("threshold", "timeout"), [(3, 20), (30, 60), (60, 20), (10, 200)])
def test_one_is_sent_away_also_where_nodes_are_reserved(
    threshold: int, timeout: int, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIGURATION.replace("TIMEOUT", str(timeout)).replace("THRESHOLD", str(threshold)))
    until = f"{timeout + 20}s"
    assert run(["simulate", str(EXAMPLE), "--config", str(config), "--until", until, "--output", "json"]) == 0
    report = json.loads(capfdbinary.readouterr().out)
    gone = [event for event in report["events"] if event["type"] == "Evicted"]
    assert {(event["reason"], timeout < event["t"] <= timeout + 2) for event in gone} == {("GangDeadlock", True)}
    assert sorted(group["running"] for group in report["podGroups"].values()) == [0, 2]
