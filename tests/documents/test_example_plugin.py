"""The plugin of the examples: installed like any distribution, found by its names, and felt.

A process of its own, because what is installed is looked for when a process starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from documents.installing import install

SOURCE = Path(__file__).parents[2] / "src"
EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site-packages")
    install(EXAMPLE, folder)
    return folder


def stromboli(*arguments: str, site: Path | None) -> subprocess.CompletedProcess[str]:
    folders = [SOURCE] if site is None else [SOURCE, site]  # of the code under test, whatever is installed
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-c", "from stromboli.console.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def simulated(site: Path, configuration: Path, *arguments: str, scenario: str = "nodes.yaml") -> dict[str, Any]:
    path = str(EXAMPLE / scenario)
    done = stromboli("simulate", path, "--config", str(configuration), "--output", "json", *arguments, site=site)
    assert (done.returncode, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_pods_go_to_the_cheap_node_and_leave_it_when_it_is_given_back(site: Path) -> None:
    report = simulated(site, EXAMPLE / "scheduler.yaml")
    pods = report["pods"]
    assert [pods[f"default/worker-{n}"]["node"] for n in range(4)] == ["node-b", "node-b", "node-a", "node-a"]
    evicted = [(e["t"], e["object"], e["reason"]) for e in report["events"] if e["type"] == "Evicted"]
    assert evicted == [(30.0, "default/worker-0", "GivenBack"), (30.0, "default/worker-1", "GivenBack")]


def changed(old: str, new: str, folder: Path) -> Path:
    """The example's configuration, with one difference."""
    text = (EXAMPLE / "scheduler.yaml").read_text(encoding="utf-8")
    assert old in text
    path = folder / "scheduler.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_without_weight_it_has_no_effect(site: Path, tmp_path: Path) -> None:
    """Then nodeorder spreads the two pods over two equal nodes."""
    pods = simulated(site, changed("weight: 5", "weight: 0", tmp_path), "--until", "5s")["pods"]
    assert {pods[f"default/worker-{n}"]["node"] for n in range(2)} == {"node-a", "node-b"}


def test_the_cheap_node_is_reserved(site: Path, tmp_path: Path) -> None:
    """The same share of both nodes is idle, so nodeorder gives them the same number. The plugin adds 100 * 5 * 1 for
    node-b and nothing for node-a. Without the weight they tie, and the first by name is reserved."""
    for configuration, node in (
        (EXAMPLE / "scheduler.yaml", "node-b"),
        (changed("weight: 5", "weight: 0", tmp_path), "node-a"),
    ):
        report = simulated(site, configuration, "--until", "20s", scenario="starved.yaml")
        reserved = [(e["object"], e["node"]) for e in report["events"] if e["type"] == "Reserved"]
        assert reserved == [("default/large", node)]


def test_each_pod_has_its_own_price_limit(site: Path) -> None:
    """The two pods differ in an annotation only. The one that may cost more goes to the expensive node, the other one
    waits until the cheap node is free."""
    report = simulated(site, EXAMPLE / "scheduler.yaml", scenario="limits.yaml")
    assert {name: pod["node"] for name, pod in report["pods"].items()} == {
        "default/early": "node-b", "default/urgent": "node-a", "default/patient": "node-b"
    }  # fmt: skip


def test_only_short_jobs_borrow(site: Path, tmp_path: Path) -> None:
    for configuration, borrowers in (
        (EXAMPLE / "scheduler.yaml", set()),
        (changed("  - name: short_loans\n", "", tmp_path), {"default/render"}),
    ):
        report = simulated(site, configuration, scenario="loans.yaml")
        assert {name for name, pod in report["pods"].items() if pod["backfill"]} == borrowers


def test_the_descheduler_moves_pods_to_the_cheap_node(site: Path) -> None:
    """The built-in configuration spreads the two pods; the plugin of the descheduler moves one of them."""
    scenario, policy = str(EXAMPLE / "nodes.yaml"), str(EXAMPLE / "descheduler.yaml")
    done = stromboli(
        "simulate", scenario, "--descheduler-config", policy, "--until", "20s", "--output", "json", site=site
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["summary"]["moves"]["succeeded"] == 1
    assert {pod["node"] for pod in report["pods"].values() if pod["phase"] == "Running"} == {"node-b"}


def test_its_mistakes_are_found_with_their_line(site: Path, tmp_path: Path) -> None:
    wrong = changed("weight: 5", "weight: cheap", tmp_path)
    done = stromboli("simulate", str(EXAMPLE / "nodes.yaml"), "--config", str(wrong), site=site)
    assert done.returncode == 2
    assert 'line 15: plugin "cheapest": argument "weight" must be a number, not "cheap"' in done.stderr


def test_who_did_not_install_it_is_told_so() -> None:
    done = stromboli("simulate", str(EXAMPLE / "nodes.yaml"), "--config", str(EXAMPLE / "scheduler.yaml"), site=None)
    assert done.returncode == 2
    assert 'unknown action "give_back"' in done.stderr
