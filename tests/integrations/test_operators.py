"""What operators write, as scenarios: the files of `examples/integrations`. `docs/integrations.md` says what works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from starvation.scenes import Document
from stromboli.console.main import cli
from together.situations import Report

FOLDER = Path(__file__).parents[2] / "examples" / "integrations"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def documents(name: str) -> list[Document]:
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def run(parts: list[Document], folder: Path, until: str = "10s") -> Report:
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump_all(parts), encoding="utf-8")
    done = CliRunner().invoke(cli, ["simulate", str(path), "--until", until, "-o", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    report: Report = json.loads(done.stdout)
    return report


def running(report: Report) -> set[str]:
    return {name.removeprefix("default/") for name, pod in report["pods"].items() if pod["phase"] == "Running"}


def nodes_of(report: Report) -> dict[str, str]:
    return {name.removeprefix("default/"): pod["node"] for name, pod in report["pods"].items() if pod["node"]}


def without(parts: list[Document], *names: str) -> list[Document]:
    return [part for part in parts if part["metadata"]["name"] not in names]


def resized(parts: list[Document], **cpus: int) -> list[Document]:
    """With other nodes."""
    for part in parts:
        if part["kind"] == "Node" and part["metadata"]["name"] in cpus:
            part["status"]["allocatable"]["cpu"] = cpus[part["metadata"]["name"]]
    return parts


def test_a_replica_of_a_leader_worker_set_starts_whole(tmp_path: Path) -> None:
    # Five CPUs for two replicas of three.
    parts = documents("leader-worker-set")
    assert running(run(parts, tmp_path)) == {"llm-0", "llm-0-1", "llm-0-2"}
    assert len(running(run(resized(parts, n1=2), tmp_path))) == 6
    # A worker that does not exist yet.
    assert running(run(without(parts, "llm-0-2"), tmp_path)) == {"llm-1", "llm-1-1", "llm-1-2"}


def test_the_leader_starts_first_where_it_has_to_be_ready(tmp_path: Path) -> None:
    """`startupPolicy: LeaderReady`: the minimum is one pod, and the group is admitted with room for all of it."""
    parts = without(documents("leader-worker-set"), "llm-0-1", "llm-0-2", "llm-1-6f9c", "llm-1", "llm-1-1", "llm-1-2")
    for part in parts:
        if part["kind"] == "PodGroup":
            part["spec"]["minMember"] = 1
    assert running(run(parts, tmp_path)) == {"llm-0"}
    report = run(resized(parts, n0=2, n1=0), tmp_path)  # not enough for the workers that will come
    assert running(report) == set()
    assert report["podGroups"]["default/llm-0-6f9c"]["phase"] == "Pending"


def test_the_pods_of_a_job_set_start_together_in_one_rack(tmp_path: Path) -> None:
    parts = documents("jobset")
    assert set(nodes_of(run(parts, tmp_path)).values()) == {"b0", "b1"}
    assert running(run(without(parts, "js-rj-2-0"), tmp_path)) == set()
    assert running(run(resized(parts, b1=0), tmp_path)) == set()


def test_the_pods_of_a_train_job_start_together_in_one_rack(tmp_path: Path) -> None:
    parts = documents("trainer")
    assert set(nodes_of(run(parts, tmp_path)).values()) == {"b0", "b1"}
    report = run(resized(parts, b1=2), tmp_path)
    assert running(report) == set()
    assert report["pods"]["default/finetune-node-0-0"]["reason"] == "DomainShort"


def test_a_ray_cluster_starts_with_its_head_and_all_workers(tmp_path: Path) -> None:
    parts = documents("ray")
    assert running(run(parts, tmp_path)) == {"first-head", "first-workers-0", "first-workers-1", "first-workers-2"}
    assert running(run(without(parts, "first-head", "second-head"), tmp_path)) == set()
    # The autoscaler adds a worker, above the minimum.
    more = json.loads(json.dumps(next(part for part in parts if part["metadata"]["name"] == "first-workers-2")))
    more["metadata"]["name"] = "first-workers-3"
    more["metadata"]["annotations"]["sim.stromboli.io/at"] = "5s"
    assert "first-workers-3" in running(run([*parts, more], tmp_path))


def test_a_spark_application_is_admitted_with_room_for_its_executors(tmp_path: Path) -> None:
    parts = documents("spark")
    assert running(run(parts, tmp_path)) == {"pi-driver", "pi-exec-1", "pi-exec-2", "pi-exec-3"}
    # Its driver runs from 0 s to 30 s, and the executors to 22 s. Then the second one is admitted.
    driver = run(parts, tmp_path, until="60s")["pods"]["default/etl-driver"]
    assert 22 <= driver["bound"] <= 31


def test_no_clique_of_grove_starts_without_the_others(tmp_path: Path) -> None:
    parts = documents("grove")
    assert len(running(run(parts, tmp_path))) == 6
    assert len(running(run(resized(parts, n1=2), tmp_path))) == 5  # all that are needed, of each clique
    assert running(run(resized(parts, n1=1), tmp_path)) == set()
    # Two routers are no decoder.
    assert running(run(without(parts, "serve-0-decode-1", "serve-0-decode-2"), tmp_path)) == set()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_they_write_is_unknown(name: str, tmp_path: Path) -> None:
    """Every object is one that the operator writes, with its owner, and no field is misspelt or without effect."""
    parts = documents(name)
    done = CliRunner().invoke(cli, ["simulate", str(FOLDER / f"{name}.yaml"), "--until", "1s"], catch_exceptions=False)
    assert "warning" not in done.output
    groups: list[dict[str, Any]] = [part for part in parts if part["kind"] == "PodGroup"]
    assert groups
    for group in groups:
        if group["apiVersion"].startswith("scheduling.volcano.sh"):
            (owner,) = group["metadata"]["ownerReferences"]
            assert owner["controller"]
