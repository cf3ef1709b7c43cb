"""When the pods of sets are replaced: one second after they went, whatever restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stromboli.console.main import cli

Document = dict[str, Any]
UNTIL = 16


def test_restarts_of_the_controllers_in_every_second_move_no_replacement(tmp_path: Path) -> None:
    # Low pods fill the node. High ones come at 3 s and at 7 s, run for 2 s each, and evict pods of both sets, which
    # take 2 s to end. Each pod is replaced a second after it went: those of the ReplicaSet from their eviction on,
    # those of the StatefulSet when their name is free.
    plain = simulate(tmp_path, [])
    assert len([event for event in plain["events"] if event["type"] == "Evicted"]) >= 4
    assert submitted(plain, "default/web-0") == [0.0]
    assert len(submitted(plain, "default/db-0")) >= 2
    restarts = [restart(second, "controllers") for second in range(UNTIL + 1)]
    assert simulate(tmp_path, restarts) == plain


@pytest.mark.parametrize("second", range(1, UNTIL))
def test_a_restart_in_one_second_moves_no_replacement(second: int, tmp_path: Path) -> None:
    assert simulate(tmp_path, [restart(second, "controllers")]) == simulate(tmp_path, [])


def submitted(report: Document, pod: str) -> list[float]:
    return [event["t"] for event in report["events"] if event["type"] == "Submitted" and event["object"] == pod]


def simulate(folder: Path, more: list[Document]) -> Document:
    file = folder / "scenario.yaml"
    file.write_text("\n---\n".join(json.dumps(document) for document in [*documents(), *more]), encoding="utf-8")
    result = CliRunner().invoke(cli, ["simulate", str(file), "--until", f"{UNTIL}s", "-o", "json"])
    assert result.exit_code == 0, result.output
    report: Document = json.loads(result.stdout)
    return report


def documents() -> list[Document]:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 100))
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": 4}}}
    sets = [the_set("ReplicaSet", "web"), the_set("StatefulSet", "db")]
    high = [pod(f"high-{at}", at) for at in (3, 7)]
    return [*classes, node, *sets, *high]


def the_set(kind: str, name: str) -> Document:
    template = {
        "metadata": {"labels": {"app": name}, "annotations": {"sim.stromboli.io/grace": "2s"}},
        "spec": spec("low"),
    }
    return {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template},
    }  # fmt: skip


def pod(name: str, at: int) -> Document:
    timing = {"sim.stromboli.io/at": f"{at}s", "sim.stromboli.io/run": "2s"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": timing}, "spec": spec("high", 3)
    }  # fmt: skip


def spec(priority: str, cpu: int = 1) -> Document:
    return {
        "schedulerName": "volcano", "priorityClassName": priority,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
    }  # fmt: skip


def restart(at: int, component: str) -> Document:
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Restart", "at": f"{at}s", "component": component}
