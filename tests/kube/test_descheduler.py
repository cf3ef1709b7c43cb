"""Moves on a real API server: a whole one, those with outages, by real use, and of a gang that others want pods of."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random

from kube.client import Refused, eventually
from kube.cluster import NODES, RESERVATIONS, Cluster, History, Program, condition
from kube.move_story import COMPONENTS, move_story
from kube.moves import (
    TIMEOUT,
    SetKeeper,
    app_of,
    apply_now,
    cordon,
    descheduler,
    migrations,
    scheduler_and_controllers,
    state_of,
    two_nodes,
)

RUNS = int(os.environ.get("STROMBOLI_GANG_RUNS", "2"))
"""Runs of the gang with random offsets; the full test has 50."""


def test_the_life_of_a_move(cluster: Cluster) -> None:
    scheduler_and_controllers(cluster)
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
    scheduler_and_controllers(cluster)
    with two_nodes(cluster) as (_, y, here, _):
        slow = ("--lease-duration", "3s", "--qps", "1", "--burst", "1")
        leader = descheduler(cluster, *slow, leader=True)
        eventually(
            lambda: any(one.get("status", {}).get("evictionTime") for one in migrations(cluster)),
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


def test_a_scheduler_that_is_away_finds_the_place_kept(cluster: Cluster) -> None:
    """There are 5 of 8 CPUs in use, and one more is kept for y. The scheduler is killed before y is evicted, and a pod
    of 3 CPUs arrives. The next scheduler puts y on its place and the other pod on the node that y left."""
    scheduler = scheduler_and_controllers(cluster)
    with two_nodes(cluster) as (_, y, here, there):
        descheduler(cluster, "--qps", "1", "--burst", "1")
        eventually(
            lambda: [one.get("status", {}).get("phase") for one in migrations(cluster)] == ["Available"],
            timeout=TIMEOUT, every=0.02,
        )  # fmt: skip
        scheduler.kill()
        eventually(lambda: y.nodes() == [""], timeout=TIMEOUT)  # its successor, which nobody binds
        cluster.single("z", cpu="3")
        (kept,) = migrations(cluster)
        assert (kept["status"]["phase"], kept["status"]["nodeName"]) == ("Available", there)
        cluster.scheduler("--period", "200ms")
        eventually(lambda: y.runs_on(there), timeout=TIMEOUT)
        assert cluster.all_bound(["z"], timeout=TIMEOUT) == {"z": here}
        eventually(lambda: state_of(cluster, "y") == "Succeeded", timeout=TIMEOUT)
        cluster.assert_no_node_is_overfull()


def test_components_that_are_killed_during_moves(cluster: Cluster) -> None:
    """`benchmarks/move_kills.py` does this a hundred times. Here each component is killed once, and the descheduler is
    stopped once at its first eviction."""
    with move_story(cluster) as story:
        for component, step in zip(COMPONENTS, ("marked", "evicted", "used"), strict=True):
            story.check(story.play(component, step, 0.0))
        stopped = story.play("descheduler", "evicted", 3.0, stops=True)
        story.check(stopped)
        assert stopped.moved


# -- real use -------------------------------------------------------------------------------------------------------

METRICS = "/apis/metrics.k8s.io/v1beta1"


@contextmanager
def metrics_api(cluster: Cluster) -> Iterator[None]:
    """The metrics API as a custom resource of the same paths and fields. There is no metrics server, and without its
    APIService the group is free."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    cluster.admin.create(definitions, {
        "metadata": {"name": "pods.metrics.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced",
            "names": {"plural": "pods", "singular": "podmetrics", "kind": "PodMetrics", "listKind": "PodMetricsList"},
            "versions": [{
                "name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })  # fmt: skip
    try:
        eventually(lambda: _is_served(cluster), timeout=TIMEOUT)
        yield
    finally:
        cluster.admin.delete(f"{definitions}/pods.metrics.k8s.io")


def _is_served(cluster: Cluster) -> bool:
    try:
        return cluster.admin.list(f"{METRICS}/pods") == []
    except Refused:
        return False


def measure(cluster: Cluster, pod: str, cpu: str) -> None:
    cluster.admin.create(f"{METRICS}/namespaces/{cluster.namespace}/pods", {
        "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": {"name": pod},
        "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "10Mi"}}],
    })  # fmt: skip


def test_pods_move_by_their_real_use(cluster: Cluster) -> None:
    """x requests 5 of 8 CPUs and uses 7.5 (94 %), y requests 1 and uses 0.1. One pod of x leaves: 6 of 8 are 75 %,
    within the target of 80. A pod that is not measured makes its node unknown, so nothing follows."""
    load_aware = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 80}}
    scheduler_and_controllers(cluster)
    with two_nodes(cluster) as (x, _, here, _), metrics_api(cluster):
        for name in cluster.bound():
            measure(cluster, name, "1500m" if name.startswith("x-") else "100m")
        program = descheduler(cluster, plugin="LoadAware", arguments=load_aware)
        eventually(lambda: x.nodes().count(here) == 1, timeout=TIMEOUT)
        eventually(lambda: state_of(cluster, "x") == "Succeeded", timeout=TIMEOUT)
        assert program.metric("stromboli_descheduler_moves_total", state="succeeded") == 1


def test_nothing_moves_by_load_without_the_metrics_api(cluster: Cluster) -> None:
    scheduler_and_controllers(cluster)
    with two_nodes(cluster) as (x, _, _, there):
        program = descheduler(cluster, plugin="LoadAware", arguments={})
        eventually(lambda: program.metric("stromboli_descheduler_run_seconds_count") >= 2, timeout=TIMEOUT)
        assert x.runs_on(there)
        assert "the metrics API does not answer" in program.log


# -- two evictors ---------------------------------------------------------------------------------------------------


def alive_over_time(history: History, app: str) -> list[int]:
    """How many pods of an app were bound and not terminating, after each change."""
    alive: dict[str, bool] = {}
    counts = []
    for pod in history._pods:
        if app_of(pod) == app:
            alive[pod["metadata"]["uid"]] = bool(pod["spec"].get("nodeName")) and not pod["metadata"].get(
                "deletionTimestamp"
            )
            counts.append(sum(alive.values()))
    return counts


class GangRun:
    """A gang of 5 with a minimum of 4 on two nodes of 6 CPUs, four of them on one and one on the other. The other node
    is emptied, and a queue with a claim to 9 of the 12 CPUs arrives with 8 pods: one of them needs a place of the
    gang. Both want a pod of the gang that has one to spare."""

    CLAIMS = 8

    def __init__(self, cluster: Cluster, program: Program, number: int, nodes: tuple[str, str]) -> None:
        self._cluster, self._program = cluster, program
        self.app, self._nodes = f"g{number}", nodes
        self._claims = [f"{self.app}-claim-{index}" for index in range(self.CLAIMS)]
        self.moved = False  # whether a place for a pod of the gang was asked for
        self.apart = 0.0  # seconds between the request for the move and the claims

    def play(self, lender: str, claimant: str, offset: float) -> list[int]:
        """`offset`: seconds from the claims to the move; negative if the move is first. Returns how many pods of the
        gang ran after each change since both began."""
        cluster = self._cluster
        history = cluster.history()
        cluster.group(self.app, 4, queue=lender)
        for claim in self._claims:
            cluster.group(claim, 1, queue=claimant)
        keeper = SetKeeper(cluster, self.app, 5)
        cordon(cluster, self._nodes[1], True)
        with keeper.kept():
            self._spread(keeper)
            before = len(alive_over_time(history, self.app))
            self._collide(offset)
            eventually(self._is_settled, timeout=TIMEOUT)
            counts = alive_over_time(history, self.app)[before:]
        self._clean_up()
        return counts

    def _spread(self, keeper: SetKeeper) -> None:
        full, low = self._nodes
        eventually(lambda: keeper.runs_on(full), timeout=TIMEOUT)
        cordon(self._cluster, low, False)
        cordon(self._cluster, full, True)
        victim = next(name for name in self._cluster.bound() if name.startswith(f"{self.app}-"))
        self._cluster.delete_pod(victim, grace=0)  # its successor goes to the other node
        eventually(lambda: sorted(keeper.nodes()) == sorted([full] * 4 + [low]), timeout=TIMEOUT)
        cordon(self._cluster, full, False)

    def _collide(self, offset: float) -> None:
        claimed = []

        def claim() -> None:
            for name in self._claims:
                claimed.append(time.monotonic())
                self._cluster.pod(name)

        timer = threading.Timer(max(0.0, -offset), claim)
        timer.start()
        threading.Event().wait(max(0.0, offset))
        asked = time.monotonic()
        plans = apply_now(self._program)["plans"]
        timer.join()
        pods = [move["pod"] for plan in plans for move in plan["moves"]]
        self.moved = any(pod.startswith(f"{self._cluster.namespace}/{self.app}-") for pod in pods)
        self.apart = max(0.0, claimed[0] - asked, asked - claimed[-1])

    def _is_settled(self) -> bool:
        """The move is over, and every claim runs or was refused a place by a cycle that tried everything."""
        pods = self._cluster.pods()
        claims = [pods[name] for name in self._claims]
        refused = [condition(pod, "PodScheduled").get("reason") == "Unschedulable" for pod in claims]
        runs = [bool(pod["spec"].get("nodeName")) for pod in claims]
        gang = [pod for pod in pods.values() if app_of(pod) == self.app]
        terminating = any(pod["metadata"].get("deletionTimestamp") for pod in gang)
        over = migrations(self._cluster) == [] and not terminating
        return over and all(one or other for one, other in zip(refused, runs, strict=True))

    def _clean_up(self) -> None:
        cluster = self._cluster
        for name in list(cluster.pods()):
            with suppress(Refused):  # it has just gone by itself
                cluster.delete_pod(name, grace=0)
        for one in migrations(cluster):
            cluster.admin.delete(f"{RESERVATIONS}/{one['metadata']['name']}")
        notes = {"scheduling.stromboli.io/cooldown-until": None, "scheduling.stromboli.io/emptied-for": None}
        for name in self._nodes:
            cluster.admin.patch(f"{NODES}/{name}", {"metadata": {"annotations": notes}})
        eventually(lambda: cluster.pods() == {}, timeout=TIMEOUT)


def test_a_gang_that_is_moved_and_reclaimed_keeps_its_minimum(cluster: Cluster) -> None:
    """A run counts if the move was really asked for, in the same second as the claims. That the claims were really
    made is certain: 5 and 8 pods do not fit into 12 CPUs, and a run ends only when each claim runs or was refused."""
    random = Random(7)
    lender, claimant = cluster.queue("lender", weight=1), cluster.queue("claimant", weight=3)
    full, low = cluster.hollow_nodes(2, cpu=6)
    scheduler_and_controllers(cluster)
    program = descheduler(cluster, interval="24h")
    counted = tries = 0
    while counted < RUNS:
        assert tries < 3 * RUNS + 3, f"only in {counted} of {tries} runs both came in the same second"
        run = GangRun(cluster, program, tries, (full, low))
        offset = random.uniform(-0.5, 0.5)
        counts = run.play(lender, claimant, offset)
        assert min(counts, default=5) >= 4, (offset, counts)
        tries += 1
        counted += run.moved and run.apart < 1.0
        print(f"{counted} of {tries} runs counted; the gang had {min(counts, default=5)} pods at least")
