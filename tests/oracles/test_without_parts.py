"""A part of the configuration is left out: admission without enqueue, gangs without the plugin gang."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from starvation.scenes import Document, gang, node
from stromboli.console.main import cli

JOB: Document = {
    "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
    "spec": {
        "minAvailable": 2,
        "tasks": [{
            "name": "t", "replicas": 2, "template": {"spec": {
                "containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}],
            }},
        }],
    },
}  # fmt: skip


def bound(tmp_path: Path, documents: list[Document], configuration: Document) -> dict[str, float | None]:
    """When each pod was bound."""
    scenario, config = tmp_path / "scenario.yaml", tmp_path / "scheduler.yaml"
    scenario.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
    config.write_text(json.dumps(configuration), encoding="utf-8")
    arguments = ["simulate", str(scenario), "--config", str(config), "--until", "5s", "--output", "json"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    pods = json.loads(result.stdout)["pods"]
    return {name: told["bound"] for name, told in pods.items()}


def plugins(*names: str) -> list[Document]:
    return [{"plugins": [{"name": name} for name in names]}]


def test_without_enqueue_a_job_gets_its_pods_at_once(tmp_path: Path) -> None:
    configuration = {"actions": "allocate", "tiers": plugins("priority", "gang", "predicates", "proportion")}
    times = bound(tmp_path, [node("n1", 4), JOB], configuration)
    assert sorted(times) == ["default/j-t-0", "default/j-t-1"]
    assert None not in times.values()


def test_without_the_plugin_gang_there_are_no_gangs(tmp_path: Path) -> None:
    # Three pods that must start together, and room for two: they start one by one.
    documents = [node("n1", 2), *gang("g", 1, 1, 1)]
    configuration = {"actions": "enqueue, allocate", "tiers": plugins("priority", "predicates", "proportion")}
    times = bound(tmp_path, documents, configuration)
    assert sum(time is not None for time in times.values()) == 2


def test_a_gang_that_is_not_asked_whether_it_is_ready_starts_one_by_one(tmp_path: Path) -> None:
    tiers: list[Document] = [
        {"plugins": [{"name": "priority"}, {"name": "gang", "enableJobReady": False}, {"name": "predicates"}]}
    ]
    documents = [node("n1", 2), *gang("g", 1, 1, 1)]
    times = bound(tmp_path, documents, {"actions": "enqueue, allocate", "tiers": tiers})
    assert sum(time is not None for time in times.values()) == 2
