"""Moves on a real API server: a whole one, one whose leader is stopped, and one of a gang that others want pods of.

There is no ReplicaSet controller here, so `SetKeeper` replaces pods that are gone, each under a new name.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from kube.client import Refused, eventually
from kube.cluster import NODES, RESERVATIONS, Cluster, History, Program

TIMEOUT = 60.0
EVICTING = "scheduling.stromboli.io/migration-evicting"
RUNS = int(os.environ.get("STROMBOLI_GANG_RUNS", "2"))
"""Runs of the gang with random offsets; the full test has 50."""


def _app_of(pod: Any) -> str:
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
            if _app_of(pod) == self.name and not pod["metadata"].get("deletionTimestamp")
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
            if _app_of(pod) == self.name and not pod["metadata"].get("deletionTimestamp")
        ]

    def runs_on(self, node: str) -> bool:
        return self.nodes() == [node] * self._count


def descheduler(cluster: Cluster, *arguments: str, interval: str = "1s", leader: bool = False) -> Program:
    path = cluster.folder / "policy.json"
    path.write_text(json.dumps({
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "deschedulingInterval": interval,
        "nodeSelector": f"pool={cluster.name}",
        "profiles": [{
            "name": "low",
            "pluginConfig": [{"name": "Defragmentation", "args": {
                "ResourceType": "cpu", "lowThresholds": {"cpu": 30}, "defragmentThresholds": {"cpu": 60},
                "protectionThresholds": {"cpu": 100},
            }}],
            "plugins": {"balance": {"enabled": ["Defragmentation"]}},
        }],
    }))  # fmt: skip
    options = ["--policy", str(path), "--scheduler-name", cluster.name, "--lease-namespace", cluster.namespace]
    options += ["--probe-port", "0", "--log-format", "json", *([] if leader else ["--no-leader-elect"])]
    program = cluster.start("descheduler", *options, *arguments)
    eventually(program.is_ready, timeout=TIMEOUT)
    return program


def controllers(cluster: Cluster) -> Program:
    return cluster.start(
        "controllers", "--scheduler-name", cluster.name, "--lease-namespace", cluster.namespace, "--no-leader-elect",
        "--probe-port", "0", "--log-format", "json",
    )  # fmt: skip


def cordon(cluster: Cluster, node: str, on: bool) -> None:
    cluster.admin.patch(f"{NODES}/{node}", {"spec": {"unschedulable": on}})


@contextmanager
def two_nodes(cluster: Cluster) -> Iterator[tuple[SetKeeper, SetKeeper, str, str]]:
    """5 of 8 CPUs on one node, 1 of 8 on the other: x and y, and where they are."""
    here, there = cluster.hollow_nodes(2, cpu=8)
    cluster.scheduler("--period", "200ms")
    controllers(cluster)
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


def test_the_life_of_a_move(cluster: Cluster) -> None:
    with two_nodes(cluster) as (_, y, here, there):
        program = descheduler(cluster)
        eventually(lambda: y.runs_on(there), timeout=TIMEOUT)
        eventually(lambda: state_of(cluster, "y") == "Succeeded", timeout=TIMEOUT)
        eventually(lambda: migrations(cluster) == [], timeout=TIMEOUT)
        (info,) = cluster.group_of("y")["spec"]["migrationInfo"]
        assert (info["sourceNode"], info["targetNode"]) == (here, there)
        notes = cluster.admin.get(f"{NODES}/{here}")["metadata"]["annotations"]
        assert "scheduling.stromboli.io/cooldown-until" in notes
        eventually(lambda: cluster.events("MigrationSucceeded"), timeout=TIMEOUT)
        assert program.metric("stromboli_descheduler_moves_total", state="succeeded") == 1
        cluster.assert_no_node_is_overfull()


def test_a_leader_that_slept_evicts_nothing_without_a_place(cluster: Cluster) -> None:
    """One write a second, so it can be stopped between its mark and its eviction. Meanwhile the place is taken away."""
    with two_nodes(cluster) as (_, y, here, _):
        slow = ("--lease-duration", "3s", "--qps", "1", "--burst", "1")
        leader = descheduler(cluster, *slow, leader=True)
        eventually(
            lambda: any(EVICTING in one["metadata"].get("annotations", {}) for one in migrations(cluster)),
            timeout=TIMEOUT, every=0.02,
        )  # fmt: skip
        leader.pause()
        (reservation,) = migrations(cluster)
        stopped = threading.Event()
        stopped.wait(7)  # two leases
        assert y.runs_on(here), "it was stopped too late"
        cluster.admin.delete(f"{RESERVATIONS}/{reservation['metadata']['name']}")
        leader.resume()
        eventually(lambda: state_of(cluster, "y") == "Failed", timeout=TIMEOUT)
        assert y.runs_on(here)
        assert cluster.events("Migrated") == []


def alive_over_time(history: History, app: str) -> list[int]:
    """How many pods of an app were bound and not terminating, after each change."""
    alive: dict[str, bool] = {}
    counts = []
    for pod in history._pods:
        if _app_of(pod) == app:
            alive[pod["metadata"]["uid"]] = bool(pod["spec"].get("nodeName")) and not pod["metadata"].get(
                "deletionTimestamp"
            )
            counts.append(sum(alive.values()))
    return counts


def test_a_gang_that_is_moved_and_reclaimed_keeps_its_minimum(cluster: Cluster) -> None:
    random = Random(7)
    lender, claimant = cluster.queue("lender", weight=1), cluster.queue("claimant", weight=3)
    full, low = cluster.hollow_nodes(2, cpu=6)
    cluster.scheduler("--period", "200ms")
    controllers(cluster)
    program = descheduler(cluster, interval="24h")
    for number in range(RUNS):
        history = cluster.history()
        app = f"g{number}"
        cluster.group(app, 4, queue=lender)
        cordon(cluster, low, True)
        keeper = SetKeeper(cluster, app, 5)
        with keeper.kept():
            eventually(lambda keeper=keeper: keeper.runs_on(full), timeout=TIMEOUT)
            cordon(cluster, low, False)
            cordon(cluster, full, True)
            victim = next(name for name in cluster.bound() if name.startswith(f"{app}-"))
            cluster.delete_pod(victim, grace=0)  # its successor goes to the other node
            eventually(lambda keeper=keeper: sorted(keeper.nodes()) == sorted([full] * 4 + [low]), timeout=TIMEOUT)
            cordon(cluster, full, False)
            before = len(alive_over_time(history, app))
            offset = random.random() * 2
            timer = threading.Timer(offset, lambda app=app: [
                cluster.single(f"{app}-claim-{n}", queue=claimant) for n in range(7)
            ])  # fmt: skip
            timer.start()
            threading.Event().wait(1.0)
            program._ask("/descheduler/plan")
            _apply(program)
            timer.join()
            threading.Event().wait(6.0)
            counts = alive_over_time(history, app)[before:]
            assert min(counts, default=5) >= 4, (offset, counts)
        for name in list(cluster.pods()):
            cluster.delete_pod(name, grace=0)
        for one in migrations(cluster):
            cluster.admin.delete(f"{RESERVATIONS}/{one['metadata']['name']}")
        for name in (full, low):
            notes = {"scheduling.stromboli.io/cooldown-until": None, "scheduling.stromboli.io/emptied-for": None}
            cluster.admin.patch(f"{NODES}/{name}", {"metadata": {"annotations": notes}})
        eventually(lambda: cluster.pods() == {}, timeout=TIMEOUT)


def _apply(program: Program) -> None:
    import http.client

    host, _, port = program.said("started")[-1]["probes"].rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.request("POST", "/descheduler/apply")
    assert connection.getresponse().status in (200, 409)
    connection.close()
