"""The API server is down, or loses its history: nothing is lost or done twice, and work continues when it is back."""

from __future__ import annotations

import time

from kube.client import eventually
from kube.cluster import Cluster, Program, condition

OUTAGE_SECONDS = 20.0


def relisted(scheduler: Program) -> bool:
    return "the resourceVersion has expired" in scheduler.log


def test_a_server_that_is_away_for_a_while(cluster: Cluster) -> None:
    cluster.hollow_nodes(2, cpu=4)
    history = cluster.history()
    scheduler = cluster.scheduler("--qps", "2", "--burst", "1")
    # One runs on, one ends meanwhile, and one waits for the room of the latter.
    cluster.single("stays", cpu="3")
    cluster.single("ends", cpu="3", annotations={"sim.stromboli.io/run": "8s"})
    cluster.all_bound(["stays", "ends"])
    cluster.single("waits", cpu="3")
    # And a gang is in the middle of being bound.
    gang = cluster.gang("gang", 8, cpu="100m")
    eventually(lambda: len(cluster.bound()) > 2, every=0.02)
    cluster.server.stop()
    time.sleep(OUTAGE_SECONDS)
    cluster.server.start()

    cluster.all_bound([*gang, "waits"], timeout=60)
    cluster.single("late", cpu="100m")
    cluster.all_bound(["late"])
    assert cluster.pods()["stays"]["status"]["phase"] == "Running"
    assert cluster.pods()["ends"]["status"]["phase"] == "Succeeded"
    cluster.assert_no_node_is_overfull()
    assert all(len(nodes) <= 1 for nodes in history.nodes_of_pods().values())
    assert scheduler.metric("stromboli_cycle_failures_total") == 0


def test_a_server_that_crashes_in_the_middle_of_a_gang(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=8)
    history = cluster.history()
    cluster.scheduler("--qps", "8", "--burst", "1")
    gang = cluster.gang("gang", 8)
    eventually(lambda: len(cluster.bound()) >= 2, every=0.02)
    cluster.server.kill()
    cluster.server.start()

    cluster.all_bound(gang, timeout=60)
    cluster.assert_no_node_is_overfull()
    assert all(len(nodes) <= 1 for nodes in history.nodes_of_pods().values())


def test_a_server_that_hangs(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=8)
    scheduler = cluster.scheduler("--lease-duration", "3s", replicas=True)
    eventually(lambda: scheduler.metric("stromboli_leader") == 1)
    cluster.server.pause()
    eventually(lambda: scheduler.said("no longer the leader"))
    cluster.server.resume()

    cluster.single("late")
    cluster.all_bound(["late"])


def test_a_server_that_has_compacted_its_history(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=4)
    scheduler = cluster.scheduler()
    cluster.single("goes", cpu="4")
    cluster.all_bound(["goes"])
    cluster.single("gives-up", cpu="4")
    eventually(lambda: condition(cluster.pods()["gives-up"], "PodScheduled"))

    scheduler.pause()
    cluster.server.kill()  # or the news would wait for it in its connections
    cluster.server.start()
    cluster.delete_pod("goes", grace=0)
    cluster.delete_pod("gives-up")
    cluster.single("comes", cpu="4")
    cluster.server.forget()
    scheduler.resume()

    cluster.all_bound(["comes"], timeout=60)
    assert relisted(scheduler)
    assert set(cluster.pods()) == {"comes"}
    assert scheduler.metric("stromboli_binds_total", outcome="failed") == 0
