"""Hollow nodes on a real API server: the command, as users start, stop and kill it."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.client import Client, Refused, eventually

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
COMMAND = [sys.executable, "-c", "from stromboli.console.main import main; main()", "hollow-nodes"]


class Hollow:
    """The command on two nodes that no other test knows."""

    def __init__(self, kubeconfig: Path) -> None:
        self.prefix = f"hollow-{secrets.token_hex(3)}-"
        self.nodes = [f"{self.prefix}0", f"{self.prefix}1"]
        self._arguments = ["--kubeconfig", str(kubeconfig), "--nodes", "2", "--name-prefix", self.prefix]
        self._process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> None:
        command = [*COMMAND, *self._arguments, "--node-cpu", "8", "--node-memory", "16Gi", *arguments]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def end(self, number: signal.Signals) -> str:
        """What it said, up to the end that this signal made."""
        assert self._process is not None
        self._process.send_signal(number)
        said = self._process.communicate(timeout=60)[1]
        assert self._process.returncode == (-number if number == signal.SIGKILL else 0), said
        self._process = None
        return said

    def clean_up(self) -> None:
        if self._process is not None:
            self.end(signal.SIGTERM)


@pytest.fixture
def hollow(kubeconfig: Path) -> Iterator[Hollow]:
    hollow = Hollow(kubeconfig)
    yield hollow
    hollow.clean_up()


def ready(admin: Client, hollow: Hollow) -> list[Any]:
    def there() -> list[Any]:
        nodes = [node for node in admin.list(NODES) if node["metadata"]["name"] in hollow.nodes]
        assert len(nodes) == 2
        assert not any(node["spec"].get("taints") for node in nodes)
        leases = [lease["metadata"]["name"] for lease in admin.list(LEASES)]
        assert set(hollow.nodes) <= set(leases)
        return nodes

    return eventually(there)


def bound_pod(
    admin: Client, namespace: str, name: str, node: str, says: dict[str, str] | None = None, grace: int = 30
) -> str:
    """A pod that a scheduler gave its node; returns its path."""
    annotations = {f"sim.stromboli.io/{about}": text for about, text in (says or {}).items()}
    path = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"containers": [{"name": "main", "image": "work"}], "terminationGracePeriodSeconds": grace}
    admin.create(path, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
    admin.create(f"{path}/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
    return f"{path}/{name}"


def reaches(admin: Client, path: str, phase: str) -> Any:
    def there() -> Any:
        pod = admin.get(path)
        assert pod["status"]["phase"] == phase
        return pod

    return eventually(there)


def is_gone(admin: Client, path: str) -> bool:
    try:
        admin.get(path)
    except Refused as refused:
        return refused.reason == "NotFound"
    return False


def conditions(obj: Any) -> dict[str, str]:
    return {one["type"]: one["status"] for one in obj["status"]["conditions"]}


def test_nodes_are_registered_and_removed(admin: Client, hollow: Hollow) -> None:
    hollow.start("--node-gpus", "4", "--label", "pool=tests")
    node = ready(admin, hollow)[0]
    assert conditions(node) == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }
    assert node["status"]["allocatable"] == {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4", "pods": "110"}
    assert node["metadata"]["labels"]["pool"] == "tests"
    said = hollow.end(signal.SIGINT)
    assert said == "2 hollow nodes ready. Ctrl-C removes them.\n2 hollow nodes removed.\n"
    for name in hollow.nodes:
        assert is_gone(admin, f"{NODES}/{name}")
        assert is_gone(admin, f"{LEASES}/{name}")


def test_pods_run_and_end(admin: Client, hollow: Hollow, namespace: str) -> None:
    hollow.start()
    ready(admin, hollow)
    good = bound_pod(admin, namespace, "good", hollow.nodes[0], {"run": "1s"})
    bad = bound_pod(admin, namespace, "bad", hollow.nodes[1], {"run": "0s", "exit-code": "3"})
    wrong = bound_pod(admin, namespace, "wrong", hollow.nodes[1], {"run": "a while"})
    endless = bound_pod(admin, namespace, "endless", hollow.nodes[1])

    done = reaches(admin, good, "Succeeded")["status"]
    assert done["containerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    assert done["podIPs"] == [{"ip": done["podIP"]}]
    failed = reaches(admin, bad, "Failed")
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert conditions(failed) == {
        "PodScheduled": "True",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
    }
    refused = reaches(admin, wrong, "Failed")["status"]
    assert refused["reason"] == "UnreadableAnnotation"
    assert "sim.stromboli.io/run" in refused["message"]
    running = reaches(admin, endless, "Running")
    assert set(conditions(running).values()) == {"True"}
    assert "running" in running["status"]["containerStatuses"][0]["state"]


def test_deleted_pods_are_removed_after_their_grace_period(admin: Client, hollow: Hollow, namespace: str) -> None:
    hollow.start()
    ready(admin, hollow)
    own = bound_pod(admin, namespace, "own", hollow.nodes[0], grace=1)
    shorter = bound_pod(admin, namespace, "shorter", hollow.nodes[0], {"grace": "0s"}, grace=3600)
    longer = bound_pod(admin, namespace, "longer", hollow.nodes[0], grace=3600)
    for path in (own, shorter, longer):
        reaches(admin, path, "Running")
        admin.delete(path)
    eventually(lambda: is_gone(admin, own) and is_gone(admin, shorter))
    assert admin.get(longer)["status"]["phase"] == "Running"


def test_killed_and_started_again(admin: Client, hollow: Hollow, namespace: str) -> None:
    hollow.start("--keep-nodes")
    before = {node["metadata"]["name"]: node["metadata"]["uid"] for node in ready(admin, hollow)}
    over = bound_pod(admin, namespace, "over", hollow.nodes[0], {"run": "0s"})
    running = bound_pod(admin, namespace, "running", hollow.nodes[0], {"run": "2s"})
    began = reaches(admin, running, "Running")["status"]["startTime"]
    ended = reaches(admin, over, "Succeeded")
    hollow.end(signal.SIGKILL)
    meanwhile = bound_pod(admin, namespace, "meanwhile", hollow.nodes[1], {"run": "0s"})

    hollow.start()
    after = reaches(admin, running, "Succeeded")["status"]
    assert after["startTime"] == began
    assert after["containerStatuses"][0]["state"]["terminated"]["startedAt"] == began
    reaches(admin, meanwhile, "Succeeded")
    assert admin.get(over) == ended
    assert {node["metadata"]["name"]: node["metadata"]["uid"] for node in ready(admin, hollow)} == before


def test_a_real_node_is_not_changed(admin: Client, hollow: Hollow) -> None:
    admin.create(NODES, {"metadata": {"name": hollow.nodes[1]}})
    real = admin.get(f"{NODES}/{hollow.nodes[1]}")
    try:
        hollow.start()
        assert hollow._process is not None
        said = hollow._process.communicate(timeout=60)[1]
        assert hollow._process.returncode == 2
        hollow._process = None
        assert said.startswith(f"stromboli: error: Node {hollow.nodes[1]} exists and is not a hollow node")
        assert said.count("\n") == 1
        assert admin.get(f"{NODES}/{hollow.nodes[1]}") == real
        assert is_gone(admin, f"{NODES}/{hollow.nodes[0]}")
    finally:
        admin.delete(f"{NODES}/{hollow.nodes[1]}")
