"""Priorities, evictions and shares on a real API server."""

from __future__ import annotations

from typing import Any

from kube.client import eventually
from kube.cluster import TIERS, Cluster, Program, condition, configuration
from kube.crd_install import server_version


def test_the_weight_of_a_namespace_counts_from_the_next_cycle_on(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=4)
    scheduler = cluster.scheduler("--period", "10m")
    ours, theirs = cluster.namespace, cluster.other_namespace()
    # Two of four CPUs each, and more of both waits. Without weights, whoever loses one is next.
    for namespace in (ours, theirs):
        for name in ("runs-0", "runs-1"):
            cluster.single(name, namespace=namespace)
        cluster.all_bound(["runs-0", "runs-1"], namespace)
    for namespace in (ours, theirs):
        for name in ("waits-0", "waits-1"):
            cluster.single(name, namespace=namespace)
        eventually(lambda here=namespace: {*explained(cluster, here)} == {"waits-0", "waits-1"})

    # They: 2/4 / 4 = 1/8. We, having lost one: 1/4 / 1. So they are next.
    seen_in_a_cycle(scheduler, lambda: weigh(cluster, theirs, 4))
    cluster.delete_pod("runs-0")
    eventually(lambda: len(waiters(cluster, theirs)) == 1)
    assert not waiters(cluster, ours)

    # They, having lost one again: 2/4 / 1. We: 1/4 / 1. So we are; with their old weight (1/8) they would be again.
    seen_in_a_cycle(scheduler, lambda: weigh(cluster, theirs, 1))
    cluster.delete_pod("runs-0", namespace=theirs)
    eventually(lambda: len(waiters(cluster, ours)) == 1)
    assert len(waiters(cluster, theirs)) == 1


def seen_in_a_cycle(scheduler: Program, change: Any) -> None:
    before = scheduler.metric("stromboli_cycle_seconds_count")
    change()
    eventually(lambda: scheduler.metric("stromboli_cycle_seconds_count") > before)


def explained(cluster: Cluster, namespace: str) -> list[str]:
    """Those of whom the scheduler has said that they wait."""
    return [name for name, pod in cluster.pods(namespace).items() if is_unschedulable(pod)]


def is_unschedulable(pod: Any) -> bool:
    return bool(condition(pod, "PodScheduled").get("status") == "False")


def waiters(cluster: Cluster, namespace: str) -> list[str]:
    """Those who waited, and run now."""
    return [name for name in cluster.bound(namespace) if name.startswith("waits-")]


def weigh(cluster: Cluster, namespace: str, weight: int) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    spec = {"hard": {"volcano.sh/namespace.weight": str(weight)}}
    if cluster.admin.list(path):
        cluster.admin.patch(f"{path}/weight", {"spec": spec})
    else:
        cluster.admin.create(path, {"metadata": {"name": "weight"}, "spec": spec})


def test_a_more_important_pod_gets_the_node_of_a_lesser_one(cluster: Cluster) -> None:
    node = cluster.hollow_nodes(1, cpu=2)[0]
    scheduler = cluster.scheduler()
    high = cluster.priority_class("high", 1000)
    history = cluster.history()
    cluster.single("low", cpu="2", terminationGracePeriodSeconds=2)
    eventually(lambda: is_ready(cluster, "low"))

    cluster.group("high", 1, priorityClassName=high)
    cluster.pod("high", cpu="2", priorityClassName=high)
    assert cluster.all_bound(["high"]) == {"high": node}
    assert "low" not in cluster.pods()
    assert [event["involvedObject"]["name"] for event in cluster.events("Preempted")] == ["low"]
    assert scheduler.metric("stromboli_evictions_total") == 1
    # It was asked to go, and stayed for its grace; only then was its room given away.
    [bound, *_] = eventually(lambda: history.sightings("high", bound=True))
    low = history.sightings("low")
    assert any(pod["metadata"].get("deletionTimestamp") and pod["status"]["phase"] == "Running" for pod in low)
    assert moment(low[-1]) < moment(bound)


def moment(pod: Any) -> int:
    return int(pod["metadata"]["resourceVersion"])


def test_a_budget_keeps_pods_from_being_chosen(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=2)
    scheduler = cluster.scheduler()
    high = protected_pod_and_rival(cluster)
    eventually(lambda: is_unschedulable(cluster.pods()[high]))
    assert scheduler.metric("stromboli_evictions_refused_total") == 0
    assert set(cluster.bound()) == {"low"}

    allow(cluster, 1)
    cluster.all_bound([high])
    assert "low" not in cluster.pods()


def test_the_server_has_the_last_word_on_a_budget(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=2)
    # A scheduler that does not look at budgets finds out from the server, which does.
    careless = cluster.scheduler(config=configuration().replace(", {name: pdb}", ""))
    assert ", {name: pdb}" in TIERS
    high = protected_pod_and_rival(cluster)
    eventually(lambda: careless.metric("stromboli_evictions_refused_total") >= 2)
    assert set(cluster.bound()) == {"low"}
    assert "deletionTimestamp" not in cluster.pods()["low"]["metadata"]

    allow(cluster, 1)
    cluster.all_bound([high])
    assert "low" not in cluster.pods()


def protected_pod_and_rival(cluster: Cluster) -> str:
    """A pod that must not be disturbed, on the only node, and one that matters more; returns its name."""
    cluster.single("low", cpu="2", labels={"app": "low"})
    eventually(lambda: is_ready(cluster, "low"))
    cluster.admin.create(
        budgets(cluster),
        {"metadata": {"name": "low"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}}},
    )
    allow(cluster, 0)
    high = cluster.priority_class("high", 1000)
    cluster.group("high", 1, priorityClassName=high)
    cluster.pod("high", cpu="2", priorityClassName=high)
    return "high"


def budgets(cluster: Cluster) -> str:
    version = "v1" if server_version(cluster.admin) >= (1, 21) else "v1beta1"
    return f"/apis/policy/{version}/namespaces/{cluster.namespace}/poddisruptionbudgets"


def allow(cluster: Cluster, disruptions: int) -> None:
    """What the disruption controller would write."""
    path = f"{budgets(cluster)}/low"
    status = {
        "observedGeneration": cluster.admin.get(path)["metadata"]["generation"],
        "disruptionsAllowed": disruptions,
        "currentHealthy": 1,
        "desiredHealthy": 1 - disruptions,
        "expectedPods": 1,
    }
    cluster.admin.patch(f"{path}/status", {"status": status})


def is_ready(cluster: Cluster, name: str) -> bool:
    return bool(condition(cluster.pods()[name], "Ready").get("status") == "True")


def test_nodes_set_aside_for_a_starving_job_outlive_the_scheduler(cluster: Cluster) -> None:
    cluster.hollow_nodes(2, cpu=4)
    config = configuration(reserve={"starvingJobTimeThreshold": "2s"})
    scheduler = cluster.scheduler(config=config)
    for index in range(2):
        cluster.single(f"small-{index}", cpu="3")
    small = cluster.all_bound(["small-0", "small-1"])
    cluster.single("big", cpu="4")

    eventually(lambda: phases(cluster) == ["Waiting"])
    [set_aside] = cluster.reservations()
    assert set_aside["status"]["allocatable"] == {"cpu": "4", "pods": "1"}
    eventually(lambda: "Reserved" in reasons(cluster, "big"))
    cluster.single("next", cpu="1")
    where = cluster.all_bound(["next"])
    assert where["next"] != set_aside["status"]["nodeName"], "it took room that is set aside"

    scheduler.kill()
    scheduler = cluster.scheduler(config=config)
    eventually(lambda: scheduler.metric("stromboli_cycle_seconds_count") >= 3)
    assert [one["metadata"]["uid"] for one in cluster.reservations()] == [set_aside["metadata"]["uid"]]
    assert phases(cluster) == ["Waiting"]

    blocking = next(name for name, node in small.items() if node == set_aside["status"]["nodeName"])
    cluster.delete_pod(blocking)
    assert cluster.all_bound(["big"])["big"] == set_aside["status"]["nodeName"]
    eventually(lambda: not cluster.reservations())
    eventually(lambda: "Unreserved" in reasons(cluster, "big"))


def reasons(cluster: Cluster, pod: str) -> set[str]:
    """The reasons of the events about a pod."""
    found = cluster.admin.list(f"/api/v1/namespaces/{cluster.namespace}/events")
    return {one["reason"] for one in found if one["involvedObject"]["name"] == pod}


def phases(cluster: Cluster) -> list[str]:
    return [one.get("status", {}).get("phase", "") for one in cluster.reservations()]


def test_a_backfilled_pod_is_annotated_when_it_is_bound(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=4)
    cluster.scheduler(config=configuration(backfill={"backfillNonBestEffort": True}))
    history = cluster.history()
    cluster.single("service", cpu="1")
    cluster.all_bound(["service"])
    gang = cluster.gang("gang", 2, cpu="2")
    eventually(lambda: is_unschedulable(cluster.pods()[gang[0]]))
    cluster.single("borrower", cpu="2")
    cluster.all_bound(["borrower"])

    mark = "scheduling.stromboli.io/backfill"
    bound = eventually(lambda: history.sightings("borrower", bound=True))
    assert all(pod["metadata"]["annotations"].get(mark) == "true" for pod in bound)
    assert mark not in cluster.pods()["service"]["metadata"]["annotations"]
    assert set(cluster.bound()) == {"service", "borrower"}
