"""What `queues`, `jobs`, `reservations` and `why` show of a scenario is what `simulate` reports of that second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stromboli.console.main import cli

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def shown(command: str, *arguments: str, scenario: Path, at: int) -> Any:
    return told(command, *arguments, "--scenario", str(scenario), "--at", f"{at}s")


def simulated(scenario: Path, until: int) -> Any:
    return told("simulate", str(scenario), "--until", f"{until}s")


def told(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--output", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# Nodes a and b are locked for the clinic and idle until 20 s: they count as the clinic's, and nobody borrows from it.
@pytest.mark.parametrize("second", [5, 15, 25, 40])
def test_queues_with_locked_nodes(second: int) -> None:
    example = EXAMPLES / "queue-locks.yaml"
    report = simulated(example, second)["queues"]
    rows = {row["name"]: row for row in shown("queues", scenario=example, at=second)["queues"]}
    for name, queue in report.items():
        assert rows[name]["allocated"] == queue["allocated"], name
        assert rows[name]["deserved"] == queue["deserved"], name
        assert (rows[name]["borrowed"], rows[name]["lent"]) == ({}, {}), name


# The lab waits for 8 CPUs while 8 are idle on nodes that are locked for the clinic: nothing is free for the lab.
def test_why_counts_what_is_free_for_the_queue() -> None:
    why = shown("why", "default/sweep", scenario=EXAMPLES / "queue-locks.yaml", at=5)
    assert (why["free"], why["largest"]) == ({"cpu": "0"}, {"cpu": "0"})
