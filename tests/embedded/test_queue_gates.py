"""The gate of a queue in `stromboli up`: added by the server, removed by the scheduler when the queue has room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from embedded.api import MERGE, Api
from embedded.test_hyper_nodes import seen
from embedded.test_up import PODS, in_cluster
from stromboli.console.up.cluster import Plan
from stromboli.console.up.machines import Machines

GATE = "scheduling.volcano.sh/queue-allocation-gate"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def opted_in(name: str, **spec: Any) -> dict[str, Any]:
    notes = {GATE: "true", "scheduling.volcano.sh/queue-name": "team"}
    container = {"name": "c", "image": "none", "command": ["sleep", "60"], "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "volcano", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes}, "spec": spec}


def gates(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def condition(pod: dict[str, Any]) -> str:
    said = {one["type"]: one for one in pod["status"].get("conditions", [])}
    return str(said.get("PodScheduled", {}).get("reason", ""))


def test_a_queue_of_one_cpu(tmp_path: Path) -> None:
    plan = Plan(
        folder=tmp_path / "data", persistent=False, period=0.2,
        machines=[Machines(["n0"], {"cpu": "4", "memory": "8Gi", "pods": "110"})],
    )  # fmt: skip

    def script(api: Api) -> None:
        api.create(QUEUES, {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"},
            "spec": {"weight": 1, "capability": {"cpu": "1"}},
        })  # fmt: skip
        other = {"name": "example.com/other"}
        assert gates(api.create(PODS, opted_in("first", schedulingGates=[other]))) == [other["name"], GATE]
        api.create(PODS, opted_in("second"))
        seen(api, PODS, lambda one: one["metadata"]["name"] == "second" and one["status"]["phase"] == "Running")
        only_ours = {"spec": {"schedulingGates": [{"name": GATE}]}}
        api.patch(f"{PODS}/first", only_ours, MERGE)
        waits = "1 cpu requested, 1 allocated, at most 1 allowed"
        seen(api, PODS, lambda one: one["metadata"]["name"] == "first" and waits in str(one["status"]))
        first = api.get(f"{PODS}/first")
        assert (gates(first), condition(first)) == ([GATE], "SchedulingGated")
        api.delete(f"{PODS}/second")
        seen(api, PODS, lambda one: one["metadata"]["name"] == "first" and one["status"]["phase"] == "Running")
        assert gates(api.get(f"{PODS}/first")) == []
        events = api.get("/api/v1/namespaces/default/events")["items"]
        assert {one["involvedObject"]["name"] for one in events if one["reason"] == "Ungated"} == {"first", "second"}

    in_cluster(plan, script)
