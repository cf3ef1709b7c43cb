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


MISSING_QUEUE = """
{apiVersion: v1, kind: Namespace, metadata: {name: team, annotations: {scheduling.volcano.sh/queue-name: nowhere}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j, namespace: team}
spec:
  minAvailable: 1
  tasks:
  - {name: t, replicas: 1, template: {spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}}}
---
apiVersion: scheduling.volcano.sh/v1alpha1
kind: Reservation
metadata: {name: lost}
spec:
  queue: nowhere
  template: {spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}}
  owners: [{labelSelector: {matchLabels: {a: b}}}]
---
apiVersion: scheduling.volcano.sh/v1alpha1
kind: Reservation
metadata: {name: large}
spec:
  template: {spec: {containers: [{name: main, resources: {requests: {cpu: 9}}}]}}
  owners: [{labelSelector: {matchLabels: {a: b}}}]
"""
NO_QUEUE = "Queue nowhere does not exist; create it or use another queue."


@pytest.fixture
def missing_queue(tmp_path: Path) -> Path:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(MISSING_QUEUE, encoding="utf-8")
    return scenario


def table(scenario: Path) -> str:
    """What `simulate` prints, however wide it is."""
    return " ".join(CliRunner().invoke(cli, ["simulate", str(scenario), "--until", "5s"]).stdout.split())


# The Job names no queue, so it is in that of its namespace, which does not exist. It is not admitted and has no pods.
def test_a_job_of_a_missing_queue(missing_queue: Path) -> None:
    (group,) = simulated(missing_queue, 5)["podGroups"].values()
    assert [(one["reason"], one["message"]) for one in group["conditions"]] == [("NoQueue", NO_QUEUE)]
    (job,) = shown("jobs", scenario=missing_queue, at=5)
    assert (job["reason"], job["message"]) == ("NoQueue", NO_QUEUE)
    assert f"team/j 0 NoQueue {NO_QUEUE}" in table(missing_queue)


def test_reservations_that_wait_say_why(missing_queue: Path) -> None:
    report = simulated(missing_queue, 5)["reservations"]
    rows = {row["name"]: row for row in shown("reservations", scenario=missing_queue, at=5)}
    assert (report["lost"]["reason"], report["lost"]["message"]) == ("NoQueue", NO_QUEUE)
    assert report["large"]["reason"] == "QueueOverDeserved"
    for name, told_of in report.items():
        assert (rows[name]["reason"], rows[name]["message"]) == (told_of["reason"], told_of["message"])
    assert f"lost NoQueue {NO_QUEUE}" in table(missing_queue)
