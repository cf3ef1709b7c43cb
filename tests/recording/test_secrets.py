"""Recordings have no values that may be secret."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from starvation.scenes import Document, gang, node
from stromboli.console.main import cli

SECRET = "hunter2"


def with_secrets(document: Document) -> Document:
    document["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = SECRET
    for kind in ("containers", "initContainers"):
        document["spec"].setdefault(kind, [{"name": "first", "image": "busybox"}])
        document["spec"][kind][0] |= {
            "env": [{"name": "PASSWORD", "value": SECRET}], "command": ["run", SECRET], "args": [f"--with={SECRET}"],
        }  # fmt: skip
    document["spec"]["volumes"] = [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"password": SECRET}}}]
    return document


def test_a_recording_of_pods_with_passwords(tmp_path: Path) -> None:
    """Also where a pod's spec is in a decision: the second gang starves, and a Reservation has its template."""
    documents = [
        node("n1", 2), *[with_secrets(one) if one["kind"] == "Pod" else one for one in gang("a", 1, 1, run=30)],
        *[with_secrets(one) if one["kind"] == "Pod" else one for one in gang("b", 2, at=1)],
    ]  # fmt: skip
    scenario, file, config = tmp_path / "scenario.yaml", tmp_path / "record.jsonl", tmp_path / "scheduler.yaml"
    scenario.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
    config.write_text(
        "actions: [{name: allocate}, {name: reserve, arguments: {starvingJobTimeThreshold: 1s}}]\n"
        "tiers: [{plugins: [{name: gang}, {name: predicates}, {name: proportion}]}]\n",
        encoding="utf-8",
    )
    arguments = ["simulate", str(scenario), "--config", str(config), "--until", "6s", "--record", str(file)]
    assert CliRunner().invoke(cli, arguments, catch_exceptions=False).exit_code == 0
    recorded = file.read_text(encoding="utf-8")
    assert '"type":"Reserve"' in recorded
    assert SECRET not in recorded
    assert CliRunner().invoke(cli, ["replay", str(file)], catch_exceptions=False).exit_code == 0
