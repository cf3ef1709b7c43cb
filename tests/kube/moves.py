"""What tests of moves on a real API server need: sets whose pods are replaced, two nodes of which one is hardly used, a
descheduler, and requests to it.

There is no ReplicaSet controller here, so `SetKeeper` replaces pods that are gone, each under a new name.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kube.client import Refused, eventually
from kube.cluster import NODES, Cluster, Program

TIMEOUT = 60.0


def app_of(pod: Any) -> str:
    app: str = pod["metadata"].get("labels", {}).get("app", "")
    return app


class SetKeeper:
    """A set whose pods are replaced, by a thread."""

    def __init__(self, cluster: Cluster, name: str, count: int, *, group: str = "", **pod: Any) -> None:
        self._cluster, self.name, self._count = cluster, name, count
        self._group, self._pod = group or name, pod
        self._path = f"/apis/apps/v1/namespaces/{cluster.namespace}/replicasets"
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "m", "image": "work"}]}}
        spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template}
        created = cluster.admin.create(self._path, {"metadata": {"name": name}, "spec": spec})
        self._uid = created["metadata"]["uid"]
        self._number = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep)

    @contextmanager
    def kept(self) -> Iterator[SetKeeper]:
        self._fill()
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join()

    def _keep(self) -> None:
        while not self._over.wait(0.2):
            try:
                self._fill()
            except (OSError, Refused):
                continue

    def _fill(self) -> None:
        alive = [
            pod
            for pod in self._cluster.pods().values()
            if app_of(pod) == self.name and not pod["metadata"].get("deletionTimestamp")
        ]
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": self.name, "uid": self._uid, "controller": True
        }  # fmt: skip
        for _ in range(self._count - len(alive)):
            self._create(f"{self.name}-{self._number}", owner)
            self._number += 1

    def _create(self, name: str, owner: dict[str, Any]) -> None:
        cluster = self._cluster
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        cluster.admin.create(f"/api/v1/namespaces/{cluster.namespace}/pods", {
            "metadata": {
                "name": name, "labels": {"app": self.name}, "ownerReferences": [owner],
                "annotations": {"scheduling.k8s.io/group-name": self._group},
            },
            "spec": {
                "schedulerName": cluster.name, "nodeSelector": {"pool": cluster.name},
                "terminationGracePeriodSeconds": 1, "containers": [container], **self._pod,
            },
        })  # fmt: skip

    def nodes(self) -> list[str]:
        return [
            pod["spec"].get("nodeName", "")
            for pod in self._cluster.pods().values()
            if app_of(pod) == self.name and not pod["metadata"].get("deletionTimestamp")
        ]

    def runs_on(self, node: str) -> bool:
        return self.nodes() == [node] * self._count


LOW_NODES = {
    "ResourceType": "cpu", "lowThresholds": {"cpu": 30}, "defragmentThresholds": {"cpu": 60},
    "protectionThresholds": {"cpu": 100},
}  # fmt: skip


def policy_file(cluster: Cluster, interval: str, plugin: str, arguments: dict[str, Any]) -> Path:
    path = cluster.folder / "policy.json"
    path.write_text(json.dumps({
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "deschedulingInterval": interval,
        "nodeSelector": f"pool={cluster.name}",
        "profiles": [{
            "name": "test", "pluginConfig": [{"name": plugin, "args": arguments}],
            "plugins": {"balance": {"enabled": [plugin]}},
        }],
    }))  # fmt: skip
    return path


TOKEN = "the-token-of-this-process"


def descheduler(
    cluster: Cluster, *more: str, interval: str = "1s", leader: bool = False, plugin: str = "Defragmentation",
    arguments: dict[str, Any] | None = None,
) -> Program:  # fmt: skip
    path = policy_file(cluster, interval, plugin, LOW_NODES if arguments is None else arguments)
    options = ["--policy", str(path), "--scheduler-name", cluster.name, "--lease-namespace", cluster.namespace]
    options += ["--probe-port", "0", "--log-format", "json", *([] if leader else ["--no-leader-elect"])]
    token = cluster.folder / "token"
    token.write_text(TOKEN)
    program = cluster.start("descheduler", *options, "--token-file", str(token), *more)
    eventually(program.is_ready, timeout=TIMEOUT)
    return program


def controllers(cluster: Cluster) -> Program:
    return cluster.start(
        "controllers", "--scheduler-name", cluster.name, "--lease-namespace", cluster.namespace, "--no-leader-elect",
        "--probe-port", "0", "--log-format", "json",
    )  # fmt: skip


def scheduler_and_controllers(cluster: Cluster) -> Program:
    """Both run; the scheduler is returned."""
    controllers(cluster)
    return cluster.scheduler("--period", "200ms")


def cordon(cluster: Cluster, node: str, on: bool) -> None:
    cluster.admin.patch(f"{NODES}/{node}", {"spec": {"unschedulable": on}})


@contextmanager
def two_nodes(cluster: Cluster) -> Iterator[tuple[SetKeeper, SetKeeper, str, str]]:
    """5 of 8 CPUs on one node, 1 of 8 on the other: x and y, and where they are."""
    here, there = cluster.hollow_nodes(2, cpu=8)
    for name in ("x", "y"):
        cluster.group(name, 0)  # no gang: with a minimum of 1, the only pod of y would have to stay
    cordon(cluster, there, True)
    with SetKeeper(cluster, "y", 1).kept() as y:
        eventually(lambda: y.runs_on(here), timeout=TIMEOUT)
        cordon(cluster, there, False)
        cordon(cluster, here, True)
        with SetKeeper(cluster, "x", 5).kept() as x:
            eventually(lambda: x.runs_on(there), timeout=TIMEOUT)
            cordon(cluster, here, False)
            yield x, y, here, there


def migrations(cluster: Cluster) -> list[Any]:
    return [one for one in cluster.reservations() if one["spec"].get("replaces")]


def state_of(cluster: Cluster, group: str) -> str:
    state: str = cluster.group_of(group).get("status", {}).get("migrationState", {}).get("phase", "")
    return state


def apply_now(program: Program) -> dict[str, Any]:
    """The answer to a request for a run, with the token of the process."""
    status, answer = apply_with(program, TOKEN)
    assert status == http.client.OK, answer
    found: dict[str, Any] = answer
    return found


def own_address() -> str:
    """An address of this machine under which it is not its own loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no network")
    return address


def apply_with(
    process: Program, token: str | None, query: str = "", *, method: str = "POST", what: str = "apply"
) -> tuple[int, Any]:
    """Status and answer of a request for a run, as somebody on another machine makes it."""
    host, _, port = process.said("started")[-1]["probes"].rpartition(":")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        while True:
            connection.request(method, f"/descheduler/{what}{query}", headers=headers)
            answer = connection.getresponse()
            status, body = answer.status, json.loads(answer.read())
            if status != http.client.CONFLICT:  # a pass is being made
                return status, body
    finally:
        connection.close()
