"""The life of a lock on a real API server: turned on, kept, moved and turned off by editing the queue."""

from __future__ import annotations

from typing import Any

from kube.client import eventually
from kube.cluster import NODES, QUEUES, Cluster, condition

TIMEOUT = 60.0


def test_the_life_of_a_lock(cluster: Cluster) -> None:
    nodes = cluster.hollow_nodes(4, cpu=4)
    cluster.scheduler()
    cluster.start("controllers", "--no-leader-elect", "--probe-port", "0", "--log-format", "json",
                  "--relock-period", "1s")  # fmt: skip
    owner = cluster.queue("owner", guarantee={"policy": "Best-Effort", "resource": {"cpu": "4"}})
    other = cluster.queue("other")

    def reservation() -> Any:
        return cluster.admin.get(f"{QUEUES}/{owner}").get("status", {}).get("reservation", {})

    def locked() -> list[str]:
        found: list[str] = reservation().get("nodes", [])
        return found

    # On: one node is locked, and the API server keeps all that the status says.
    eventually(lambda: len(locked()) == 1, timeout=TIMEOUT)
    first = locked()[0]
    assert first in nodes
    assert reservation()["resource"]["cpu"] == "4"
    assert reservation()["guarantee"] == {"policy": "Best-Effort", "resource": {"cpu": "4"}}
    status = cluster.admin.get(f"{QUEUES}/{owner}")["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "ReservationAccepted": "True",
        "ReservationSatisfied": "True",
    }

    # Three pods of another queue fit beside it, the fourth waits and is told why. The owner's pod lands there.
    for number in range(4):
        cluster.single(f"other-{number}", queue=other, cpu="4")
    eventually(lambda: len(cluster.bound()) == 3, timeout=TIMEOUT)
    assert first not in cluster.bound().values()
    [waiting] = {f"other-{number}" for number in range(4)} - set(cluster.bound())
    eventually(lambda: owner in condition(cluster.pods()[waiting], "PodScheduled").get("message", ""), timeout=TIMEOUT)
    cluster.single("mine", queue=owner, cpu="4")
    eventually(lambda: cluster.bound().get("mine") == first, timeout=TIMEOUT)

    # Off: the last pod of the other queue starts when the owner's is gone.
    cluster.admin.patch(f"{QUEUES}/{owner}", {"spec": {"guarantee": None}})
    eventually(lambda: locked() == [], timeout=TIMEOUT)
    cluster.delete_pod("mine", grace=0)
    eventually(lambda: cluster.bound().get(waiting) == first, timeout=TIMEOUT)
    assert cluster.admin.get(f"{NODES}/{first}")
