"""The life of a Reservation on a real API server: it gets a node, is used, expires and is deleted."""

from __future__ import annotations

from typing import Any

from kube.client import Refused, eventually
from kube.cluster import RESERVATIONS, Cluster

TIMEOUT = 60.0


def reservation(cluster: Cluster, name: str, cpu: str, **spec: Any) -> str:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    full_name = f"{cluster.namespace}-{name}"
    cluster.admin.create(
        RESERVATIONS,
        {
            "apiVersion": "scheduling.volcano.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": full_name},
            "spec": {
                "template": {
                    "metadata": {"namespace": cluster.namespace},
                    "spec": {
                        "schedulerName": cluster.name,
                        "nodeSelector": {"pool": cluster.name},
                        "containers": [container],
                    },
                },
                "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
                **spec,
            },
        },
    )
    return full_name


def status(cluster: Cluster, name: str) -> Any:
    return cluster.admin.get(f"{RESERVATIONS}/{name}").get("status", {})


def is_gone(cluster: Cluster, name: str) -> bool:
    try:
        cluster.admin.get(f"{RESERVATIONS}/{name}")
    except Refused as refused:
        return refused.status == 404
    return False


def test_the_life_of_a_reservation(cluster: Cluster) -> None:
    cluster.hollow_nodes(2, cpu=4)
    scheduler = cluster.scheduler()
    cluster.start("controllers", "--no-leader-elect", "--probe-port", "0", "--log-format", "json",
                  "--reservation-retention", "3s")  # fmt: skip

    # It gets a node, and the API server keeps all that the status says.
    held = reservation(cluster, "web", "4")
    eventually(lambda: status(cluster, held).get("phase") == "Available", timeout=TIMEOUT)
    node = status(cluster, held)["nodeName"]
    assert status(cluster, held)["allocatable"] == {"cpu": "4", "pods": "1"}
    conditions = {c["type"]: c["status"] for c in status(cluster, held)["conditions"]}
    assert conditions == {"Scheduled": "True", "Ready": "True"}

    # Of two pods of others one starts, on the other node.
    for number in range(2):
        cluster.single(f"other-{number}", cpu="4")
    eventually(lambda: len(cluster.bound()) == 1, timeout=TIMEOUT)
    assert node not in cluster.bound().values()
    [waiting] = {"other-0", "other-1"} - set(cluster.bound())

    # A pod with the label starts where the room is held, and says so.
    cluster.single("mine", cpu="3", labels={"app": "web"})
    eventually(lambda: cluster.bound().get("mine") == node, timeout=TIMEOUT)
    uid = cluster.admin.get(f"{RESERVATIONS}/{held}")["metadata"]["uid"]
    annotations = cluster.pods()["mine"]["metadata"]["annotations"]
    assert annotations["scheduling.stromboli.io/reservation"] == f"{held}/{uid}"
    eventually(lambda: status(cluster, held).get("allocated", {}).get("cpu") == "3", timeout=TIMEOUT)
    assert [owner["name"] for owner in status(cluster, held)["currentOwners"]] == ["mine"]

    # A scheduler that has just started finds the same: one CPU is left for pods with the label, and for nobody else.
    scheduler.kill()
    cluster.scheduler()
    cluster.single("small", cpu="1")
    cluster.single("mine-too", cpu="1", labels={"app": "web"})
    eventually(lambda: cluster.bound().get("mine-too") == node, timeout=TIMEOUT)
    assert "small" not in cluster.bound()
    cluster.assert_no_node_is_overfull()

    # When its pods are gone it holds everything again.
    cluster.delete_pod("mine", grace=0)
    cluster.delete_pod("mine-too", grace=0)
    eventually(lambda: not status(cluster, held).get("currentOwners"), timeout=TIMEOUT)
    assert status(cluster, held)["phase"] == "Available"
    assert "small" not in cluster.bound()

    # Its time is over: the room is free, and the object is deleted a while later.
    cluster.admin.patch(f"{RESERVATIONS}/{held}", {"spec": {"ttl": "1s"}})
    eventually(lambda: is_gone(cluster, held) or status(cluster, held)["phase"] == "Expired", timeout=TIMEOUT)
    eventually(lambda: cluster.bound().get(waiting) == node or "small" in cluster.bound(), timeout=TIMEOUT)
    eventually(lambda: is_gone(cluster, held), timeout=TIMEOUT)


def test_once_and_at_the_end_of_a_node(cluster: Cluster) -> None:
    [first, second] = cluster.hollow_nodes(2, cpu=4)
    cluster.scheduler()
    cluster.start("controllers", "--no-leader-elect", "--probe-port", "0", "--log-format", "json")

    # For one pod: then it is over, and what the pod leaves is free.
    once = reservation(cluster, "once", "4", allocateOnce=True, nodeName=first)
    eventually(lambda: status(cluster, once).get("nodeName") == first, timeout=TIMEOUT)
    cluster.single("mine", cpu="1", labels={"app": "once"})
    eventually(lambda: status(cluster, once).get("phase") == "Succeeded", timeout=TIMEOUT)
    assert cluster.bound() == {"mine": first}

    # Its node is deleted: one that is not used looks for another, one that names its node fails.
    free = reservation(cluster, "free", "4")
    eventually(lambda: status(cluster, free).get("nodeName") == second, timeout=TIMEOUT)
    cluster.delete_pod("mine", grace=0)
    cluster.admin.delete(f"/api/v1/nodes/{second}")
    eventually(lambda: status(cluster, free).get("nodeName") == first, timeout=TIMEOUT)
    pinned = reservation(cluster, "pinned", "1", nodeName=second)
    eventually(lambda: status(cluster, pinned).get("phase") == "Pending", timeout=TIMEOUT)


def test_one_with_a_priority_while_the_scheduler_is_killed(cluster: Cluster) -> None:
    """Four pods fill the node, and take 3 s to end. They are evicted for the Reservation, and its node stands in its
    status. Schedulers that are killed meanwhile neither lose that nor give the room to the pod that waits."""
    [node] = cluster.hollow_nodes(1, cpu=4)
    scheduler = cluster.scheduler()
    cluster.start("controllers", "--no-leader-elect", "--probe-port", "0", "--log-format", "json")
    high = cluster.priority_class("high", 1000)
    low = [f"low-{number}" for number in range(4)]
    for name in low:
        cluster.single(name, cpu="1", terminationGracePeriodSeconds=3)
    cluster.all_bound(low, timeout=TIMEOUT)

    template = {
        "metadata": {"namespace": cluster.namespace},
        "spec": {
            "schedulerName": cluster.name, "nodeSelector": {"pool": cluster.name}, "priorityClassName": high,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "4"}}}],
        },
    }  # fmt: skip
    held = reservation(cluster, "urgent", "4", template=template)
    cluster.single("small", cpu="1")
    eventually(lambda: status(cluster, held).get("nodeName") == node, timeout=TIMEOUT)
    for _ in range(2):
        scheduler.kill()
        scheduler = cluster.scheduler()
    eventually(lambda: status(cluster, held).get("phase") == "Available", timeout=TIMEOUT)
    assert status(cluster, held)["nodeName"] == node
    assert cluster.bound() == {}

    # It is not for pods of lower priority, and says so once.
    cluster.single("lesser", cpu="4", labels={"app": "urgent"})
    eventually(lambda: any(c["type"] == "PodRefused" for c in status(cluster, held)["conditions"]), timeout=TIMEOUT)
    cluster.single("mine", cpu="4", labels={"app": "urgent"}, priorityClassName=high)
    eventually(lambda: cluster.bound() == {"mine": node}, timeout=TIMEOUT)
