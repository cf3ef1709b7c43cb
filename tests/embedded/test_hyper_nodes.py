"""HyperNodes in `stromboli up`: made from labels, counted by the controllers, and used by the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from embedded.api import MERGE, Api
from embedded.test_up import JOBS, PODS, in_cluster, phase_of, volcano_job
from stromboli.console.up.cluster import Plan
from stromboli.console.up.machines import Machines

HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
RACK = "example.com/rack"


def seen(api: Api, path: str, wanted: Callable[[dict[str, Any]], bool]) -> None:
    for event in api._transport.events(path, {"watch": "true", "timeoutSeconds": "60"}, {}):
        if wanted(event["object"]):
            return
    raise AssertionError(f"{path} never shows it")


def counts(one: dict[str, Any], name: str, nodes: int) -> bool:
    return one["metadata"]["name"] == name and one.get("status", {}).get("nodeCount") == nodes


def reasons(one: dict[str, Any]) -> list[str]:
    return [condition["reason"] for condition in one.get("status", {}).get("conditions", [])]


def racks(*sizes: int) -> list[Machines]:
    """Nodes of one CPU, so many in each rack. The names take turns, so that no order of names keeps racks together."""
    return [
        Machines(
            [f"n{number}-{rack}" for number in range(size)],
            {"cpu": "1", "memory": "8Gi", "pods": "110"},
            {RACK: f"r{rack}"},
        )
        for rack, size in enumerate(sizes)
    ]


def test_racks_from_labels(tmp_path: Path) -> None:
    plan = Plan(folder=tmp_path / "data", persistent=False, machines=racks(2, 3, 2), period=0.2, topology_keys=(RACK,))

    def script(api: Api) -> None:
        seen(api, HYPER_NODES, lambda one: counts(one, "r1", 3))
        (accepted,) = api.get(f"{HYPER_NODES}/r1")["status"]["conditions"]
        assert (accepted["type"], accepted["status"], accepted["reason"]) == ("Accepted", "True", "Used")
        job = volcano_job("train", 3, ["true"])
        job["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
        api.create(JOBS, job)
        phase_of(api, "train", "Running")
        used = {pod["spec"]["nodeName"] for pod in api.get(PODS)["items"]}
        assert used == {"n0-1", "n1-1", "n2-1"}
        # Somebody writes one that contradicts them.
        wrong = {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n0-0"}}}]}
        api.create(HYPER_NODES, {
            "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "x"}, "spec": wrong,
        })  # fmt: skip
        seen(api, HYPER_NODES, lambda one: reasons(one) == ["Overlap"])
        api.patch("/api/v1/nodes/n0-1", {"metadata": {"labels": {RACK: None}}}, MERGE)
        seen(api, HYPER_NODES, lambda one: counts(one, "r1", 2))

    in_cluster(plan, script)
