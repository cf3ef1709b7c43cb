"""Gangs on a real API server: all pods or none, and a readable reason."""

from __future__ import annotations

from kube.client import eventually
from kube.cluster import Cluster, Program, condition
from kube.gang_story import SIZES, gang_story


def cycles(scheduler: Program) -> float:
    return scheduler.metric("stromboli_cycle_seconds_count")


def test_a_gang_that_fits_is_bound_within_two_cycles(cluster: Cluster) -> None:
    nodes = cluster.hollow_nodes(3, cpu=2)
    # With so long a period, nothing but news makes a cycle.
    scheduler = cluster.scheduler("--period", "10m")
    cluster.group("gang", 3)
    for name in ("gang-0", "gang-1"):
        cluster.pod(name, group="gang", cpu="2")
    cluster.single("canary", cpu="0")
    cluster.all_bound(["canary"])  # so the two before it were seen, too
    assert set(cluster.bound()) == {"canary"}

    before = cycles(scheduler)
    cluster.pod("gang-2", group="gang", cpu="2")
    where = cluster.all_bound(["gang-0", "gang-1", "gang-2"])
    assert sorted(where.values()) == nodes
    assert cycles(scheduler) - before <= 2
    assert scheduler.metric("stromboli_binds_total", outcome="failed") == 0


def test_a_gang_that_does_not_fit_says_why_and_starts_when_it_does(cluster: Cluster) -> None:
    cluster.hollow_nodes(2, cpu=2)
    cluster.scheduler()
    gang = cluster.gang("gang", 3, cpu="2")

    def explained() -> None:
        group = condition(cluster.group_of("gang"), "Unschedulable")
        assert group.get("status") == "True"
        assert group["message"]
        pods = cluster.pods()
        for name in gang:
            scheduled = condition(pods[name], "PodScheduled")
            assert (scheduled.get("status"), scheduled.get("reason")) == ("False", "Unschedulable")
            assert scheduled["message"]
        told = {event["involvedObject"]["name"] for event in cluster.events("FailedScheduling")}
        assert told == set(gang)
        assert [event["involvedObject"]["kind"] for event in cluster.events("Unschedulable")] == ["PodGroup"]

    eventually(lambda: explained() is None)
    assert not cluster.bound()

    cluster.hollow_nodes(1, cpu=2)
    where = cluster.all_bound(gang)
    assert len(set(where.values())) == 3

    def over() -> None:
        group = cluster.group_of("gang")
        assert group["status"]["phase"] == "Running"
        assert condition(group, "Unschedulable").get("status") != "True"

    eventually(lambda: over() is None)
    told = {event["involvedObject"]["name"] for event in cluster.events("Scheduled")}
    assert told <= set(gang)


def test_pods_of_other_schedulers_are_left_alone_but_take_their_room(cluster: Cluster) -> None:
    node = cluster.hollow_nodes(1, cpu=4)[0]
    scheduler = cluster.scheduler()
    cluster.pod("unbound", schedulerName="somebody-else", cpu="1")
    cluster.pod("bound", schedulerName="somebody-else", cpu="3", nodeName=node)
    cluster.single("large", cpu="2")
    cluster.single("small", cpu="1")
    cluster.all_bound(["small"])
    assert set(cluster.bound()) == {"bound", "small"}

    cluster.delete_pod("bound")
    cluster.all_bound(["large"])
    assert "unbound" not in cluster.bound()
    assert not condition(cluster.pods()["unbound"], "PodScheduled")
    assert scheduler.metric("stromboli_binds_total", outcome="bound") == 2


def test_a_pod_deleted_while_it_waits_is_forgotten(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=2)
    scheduler = cluster.scheduler()
    cluster.single("runs", cpu="2")
    cluster.all_bound(["runs"])
    cluster.single("gives-up", cpu="2")
    eventually(lambda: condition(cluster.pods()["gives-up"], "PodScheduled"))
    cluster.single("stays", cpu="2")
    eventually(lambda: condition(cluster.pods()["stays"], "PodScheduled"))

    cluster.delete_pod("gives-up")
    cluster.delete_pod("runs")
    cluster.all_bound(["stays"])
    assert set(cluster.pods()) == {"stays"}
    assert scheduler.metric("stromboli_binds_total", outcome="failed") == 0


def test_dangling_names_are_reported(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.pod("lost", group="nowhere")
    cluster.group("stray", 1, queue=f"{cluster.name}-tpyo")
    cluster.pod("stray-0", group="stray")

    def explained() -> None:
        pods = cluster.pods()
        assert "nowhere does not exist" in condition(pods["lost"], "PodScheduled").get("message", "")
        assert "does not exist" in condition(pods["stray-0"], "PodScheduled").get("message", "")
        assert condition(cluster.group_of("stray"), "Unschedulable").get("reason") == "NoQueue"

    eventually(lambda: explained() is None)


def test_components_that_are_killed_while_a_gang_is_half_bound(cluster: Cluster) -> None:
    """`benchmarks/gang_kills.py` does this sixty times."""
    with gang_story(cluster) as story:
        played = story.play(("scheduler", "controllers"), 2)
    assert (played.kills, played.binds) == (2, sum(SIZES))
    assert played.hits, "they were killed too late to leave half a gang"
