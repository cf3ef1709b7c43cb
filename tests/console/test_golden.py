"""What every command prints about one fixed cluster, character for character.

The expected outputs are in the folder `golden`. After a deliberate change, write them anew with

    UPDATE_GOLDEN=1 pytest tests/console/test_golden.py

and read the differences: users will see them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from stromboli.console.main import run

FOLDER = Path(__file__).parent / "golden"
CLUSTER = ["--scenario", str(FOLDER / "cluster.yaml"), "--config", str(FOLDER / "scheduler.yaml"), "--at", "40s"]
COMMANDS = {
    "status": ["status"],
    "status-wide": ["status", "-o", "wide"],
    "status-json": ["status", "-o", "json"],
    "queues": ["queues"],
    "queues-yaml": ["queues", "-o", "yaml"],
    "jobs": ["jobs"],
    "jobs-wide": ["jobs", "-o", "wide"],
    "jobs-waiting": ["jobs", "--waiting", "--queue", "science"],
    "jobs-json": ["jobs", "-n", "studio", "-o", "json"],
    "nodes": ["nodes"],
    "nodes-wide": ["nodes", "-o", "wide"],
    "reservations": ["reservations"],
    "why-reserved": ["why", "lab/training"],
    "why-selector": ["why", "studio/render"],
    "why-quota": ["why", "shop/report"],
    "why-json": ["why", "studio/render", "-o", "json"],
    "why-running": ["why", "lab/sweep"],
    "why-completed": ["why", "lab/done"],
    "plan-now": ["plan", "-f", str(FOLDER / "small-job.yaml")],
    "plan-later": ["plan", "-f", str(FOLDER / "large-job.yaml")],
    "plan-json": ["plan", "-f", str(FOLDER / "large-job.yaml"), "-o", "json"],
    "top": ["top", "--once", "--rows", "3"],
    "diag": ["diag"],
}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


def compare(name: str, shown: str) -> None:
    file = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_output(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMANDS[name], *CLUSTER]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "\x1b" not in shown.out
    text = shown.out.replace(f"{FOLDER}/", "")
    if name == "diag":  # times are those of the machine
        text = re.sub(r"(?m)(?<= )\s*[0-9]+\.[0-9](?=( ms|$))", "0.0", text)
    compare(name, text)


def test_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "decisions.jsonl"
    simulated = ["simulate", CLUSTER[1], "--config", CLUSTER[3], "--until", "40s", "--record", str(recording)]
    assert run([*simulated, "--output", "json"]) == 0
    capsys.readouterr()
    for name, options in {
        "replay": [], "replay-cycles": ["--cycles"], "replay-explain": ["--explain", "lab/training", "--cycle", "8"],
    }.items():  # fmt: skip
        assert run(["replay", str(recording), *options]) == 0
        # How many events a cycle had depends on which objects a simulation creates by itself.
        compare(name, re.sub(r"(?<=Z) +[0-9]+(?=  )", "  N", capsys.readouterr().out))


def test_every_golden_file_is_used() -> None:
    used = {*COMMANDS, "replay", "replay-cycles", "replay-explain"}
    assert {file.stem for file in FOLDER.glob("*.txt")} == used
