"""What reports say of domains: where each group runs, and which HyperNodes cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from explanations.close_scenes import close_gang, hard, hyper_node, racks
from starvation.scenes import Document, node, scene
from stromboli.console.main import cli
from workload_groups.scenes import member, workload_group


def domains(report: Document) -> dict[str, str | None]:
    return {name.removeprefix("default/"): group["domain"] for name, group in report["podGroups"].items()}


def test_the_domain_of_a_group_is_the_lowest_that_has_all_running_pods() -> None:
    """Four GPUs are in no rack, but in the block."""
    groups = [
        close_gang("low", 2, topology=hard(highestTierAllowed=1)),
        close_gang("wide", 4),
        close_gang("waits", 9, topology=hard()),
    ]
    found = scene(racks(a=(2,), b=(2,), c=(2,)), *groups, until=2).run()
    assert domains(found.report) == {"low": "a", "wide": "block", "waits": None}


def test_by_labels_of_the_configuration_and_of_a_constraint(tmp_path: Path) -> None:
    nodes = [node(f"n{number}", 3, labels={"zone": "z", "rack": f"r{number}"}) for number in range(2)]
    pods = [member(f"g-{number}", "g", 2) for number in range(2)]
    pair = [workload_group("one", 2, key="zone"), *(member(f"one-{number}", "one", 1) for number in range(2))]
    scenario, config = tmp_path / "scenario.yaml", tmp_path / "scheduler.yaml"
    documents = [*nodes, workload_group("g", 2), *pods, *pair]
    scenario.write_text("\n---\n".join(map(json.dumps, documents)), encoding="utf-8")
    plugins = [{"name": "gang"}, {"name": "predicates"}]
    said = {"actions": "allocate", "tiers": [{"plugins": plugins}], "topologyKeys": ["zone", "rack"]}
    config.write_text(json.dumps(said), encoding="utf-8")
    arguments = ["simulate", str(scenario), "--config", str(config), "--until", "2s", "--output", "json"]
    report = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
    assert domains(report) == {"g": "z", "one": "z"}


def test_hyper_nodes_that_contradict_others_are_warnings() -> None:
    found = scene(
        racks(a=(1,), b=(1,)), hyper_node("c", 1, ("Node", "b-0")), close_gang("g", 2, topology=hard()), until=4
    ).run()
    warnings = [event for event in found.report["events"] if event["type"] == "Warning"]
    assert [(event["t"], event["object"], event["reason"]) for event in warnings] == [(0.0, "c", "Overlap")]
    assert warnings[0]["message"].startswith("1 node of it, such as b-0, is in b, which has the same tier (1).")
