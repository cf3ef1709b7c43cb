"""The descheduler on an API server: a whole move, seen from outside."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded.api import Api
from embedded.test_up import PODS, in_cluster
from stromboli.console.main import run
from stromboli.console.up.cluster import DeschedulerPlan, Plan
from stromboli.console.up.machines import Machines

SETS = "/apis/apps/v1/namespaces/default/replicasets"
RESERVATIONS = "/apis/scheduling.volcano.sh/v1alpha1/reservations"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


def replica_set(name: str, count: int, node: str) -> dict[str, Any]:
    spec = {
        "schedulerName": "volcano", "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": count, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }  # fmt: skip


def policy(path: Path, interval: str) -> Path:
    low = {"ResourceType": "cpu", "lowThresholds": {"cpu": 30}, "defragmentThresholds": {"cpu": 60},
           "protectionThresholds": {"cpu": 95}}  # fmt: skip
    path.write_text(json.dumps({
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "deschedulingInterval": interval,
        "profiles": [{
            "name": "low", "pluginConfig": [{"name": "Defragmentation", "args": low}],
            "plugins": {"balance": {"enabled": ["Defragmentation"]}},
        }],
    }))  # fmt: skip
    return path


def pods_until(api: Api, wanted: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Follow the pods until they are as wanted."""
    pods: dict[str, dict[str, Any]] = {}
    events: Iterator[Any] = api._transport.events(PODS, {"watch": "true", "timeoutSeconds": "60"}, {})
    for event in events:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            pods.pop(name, None)
        else:
            pods[name] = event["object"]
        if wanted(list(pods.values())):
            return list(pods.values())
    raise AssertionError(f"the pods never are as wanted: {[(n, p['spec'].get('nodeName')) for n, p in pods.items()]}")


def running(pods: list[dict[str, Any]], app: str, node: str = "") -> int:
    return sum(
        pod["metadata"]["labels"].get("app") == app
        and pod.get("status", {}).get("phase") == "Running"
        and (not node or pod["spec"].get("nodeName") == node)
        for pod in pods
    )


def test_a_low_node_is_emptied(tmp_path: Path) -> None:
    machines = [Machines(["node-0", "node-1"], {"cpu": "8", "memory": "32Gi", "pods": "110"})]
    plan = Plan(
        folder=tmp_path / "data", persistent=False, machines=machines, period=0.2,
        descheduler=DeschedulerPlan(policy(tmp_path / "policy.json", "1s")),
    )  # fmt: skip

    def script(api: Api) -> None:
        # 5 of 8 CPUs on node-0, 1 of 8 on node-1. The selector of y's pod is taken off before it could matter.
        api.create(SETS, replica_set("y", 1, ""))
        pods = pods_until(api, lambda pods: running(pods, "y") == 1)
        here = pods[0]["spec"]["nodeName"]
        there = "node-1" if here == "node-0" else "node-0"
        api.create(SETS, replica_set("x", 5, there))
        pods_until(api, lambda pods: running(pods, "x", there) == 5 and running(pods, "y", there) == 1)
        groups = api.get(GROUPS)["items"]
        moved = [group for group in groups if group["spec"].get("migrationInfo")]
        (info,) = moved[0]["spec"]["migrationInfo"]
        assert (info["sourceNode"], info["targetNode"]) == (here, there)
        events = api.get("/api/v1/namespaces/default/events")["items"]
        assert "MigrationStarted" in {event["reason"] for event in events}

    in_cluster(plan, script)


def test_defrag_asks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing runs by itself: the policy has no interval."""
    machines = [Machines(["node-0", "node-1"], {"cpu": "8", "memory": "32Gi", "pods": "110"})]
    addresses: list[str] = []
    plan = Plan(
        folder=tmp_path / "data", persistent=False, machines=machines, period=0.2,
        descheduler=DeschedulerPlan(policy(tmp_path / "policy.json", "0s"), 0, addresses.append),
    )  # fmt: skip

    def script(api: Api) -> None:
        api.create(SETS, replica_set("y", 1, ""))
        pods = pods_until(api, lambda pods: running(pods, "y") == 1)
        here = pods[0]["spec"]["nodeName"]
        there = "node-1" if here == "node-0" else "node-0"
        api.create(SETS, replica_set("x", 5, there))
        pods_until(api, lambda pods: running(pods, "x", there) == 5)
        address, token = addresses[0].split()[1], addresses[0].split()[3]
        for what in ("plan", "apply"):
            assert run(["defrag", what, "--address", address]) == 3
            assert "a token is needed" in capsys.readouterr().err
            assert run(["defrag", what, "--address", address, "--token", "made-up-by-somebody"]) == 3
        assert Path(token).stat().st_mode & 0o777 == 0o600
        assert Path(token).read_text() != (tmp_path / "data" / "token").read_text(), "it is sent without TLS"
        assert run(["defrag", "plan", *addresses[0].split()]) == 0
        shown = capsys.readouterr().out
        assert f"{here} ▶ {there}  (1 cpu)" in shown
        assert run(["defrag", "plan", "--for", "nosuch", *addresses[0].split()]) == 2
        assert "there is no Job or PodGroup default/nosuch; try: stromboli jobs --waiting" in capsys.readouterr().err
        assert run(["defrag", "apply", *addresses[0].split()]) == 0
        assert "The moves are under way" in capsys.readouterr().out
        pods_until(api, lambda pods: running(pods, "y", there) == 1)

    in_cluster(plan, script)


def test_a_pod_that_is_too_old_goes_without_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No other node has room for its successor, which comes back to the same one."""
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "deschedulingInterval": "0s",
        "profiles": [{
            "name": "old", "pluginConfig": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 0}}],
            "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
        }],
    }))  # fmt: skip
    addresses: list[str] = []
    plan = Plan(
        folder=tmp_path / "data", persistent=False, period=0.2,
        machines=[Machines(["node-0"], {"cpu": "1", "memory": "32Gi", "pods": "110"})],
        descheduler=DeschedulerPlan(path, 0, addresses.append),
    )  # fmt: skip

    def script(api: Api) -> None:
        api.create(SETS, replica_set("y", 1, ""))
        first = pods_until(api, lambda pods: running(pods, "y") == 1)[0]["metadata"]["name"]
        while run(["defrag", "plan", *addresses[0].split()]) == 0 and "Nothing" in (shown := capsys.readouterr().out):
            time.sleep(0.2)  # it is not a second old
        assert f"default/{first}  leaves node-0: no place is kept for a successor" in shown
        assert run(["defrag", "apply", *addresses[0].split()]) == 0
        assert "The pods are evicted" in capsys.readouterr().out
        pods_until(api, lambda pods: running(pods, "y") == 1 and pods[0]["metadata"]["name"] != first)

    in_cluster(plan, script)


def test_its_port_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        chosen = str(policy(tmp_path / "policy.json", "0s"))
        command = ["up", "--nodes", "1", "--no-web", "--for", "1s"]
        assert run([*command, "--descheduler-config", chosen, "--descheduler-port", port]) == 2
    shown = capsys.readouterr().err
    assert f"127.0.0.1:{port}: Address already in use; choose another address or port (--descheduler-port)" in shown
