"""Two schedulers and one lease: whatever happens to the leader, in the end each pod of the gang was bound once."""

from __future__ import annotations

from kube.client import eventually
from kube.cluster import Cluster, History, Program

# Two binds a second: time enough for things to happen in the middle of a gang.
SLOWLY = ("--lease-duration", "3s", "--qps", "2", "--burst", "1")
MEMBERS = 8


def leads(scheduler: Program) -> bool:
    return scheduler.metric("stromboli_leader", part="scheduler") == 1


def bound_by(scheduler: Program) -> float:
    return scheduler.metric("stromboli_binds_total", outcome="bound")


def leader_and_standby(cluster: Cluster) -> tuple[Program, Program]:
    leader = cluster.scheduler(*SLOWLY, replicas=True)
    eventually(lambda: leads(leader))
    standby = cluster.scheduler(*SLOWLY, replicas=True)
    eventually(lambda: standby.said("another process is the leader"))
    return leader, standby


def half_bound_gang(cluster: Cluster) -> list[str]:
    gang = cluster.gang("gang", MEMBERS)
    eventually(lambda: len(cluster.bound()) >= 2, every=0.02)
    return gang


def assert_each_bound_once(cluster: Cluster, history: History) -> None:
    eventually(lambda: len([nodes for nodes in history.nodes_of_pods().values() if nodes]) == MEMBERS)
    assert all(len(nodes) == 1 for nodes in history.nodes_of_pods().values())
    cluster.assert_no_node_is_overfull()


def test_a_leader_killed_in_the_middle_of_a_gang(cluster: Cluster) -> None:
    cluster.hollow_nodes(2, cpu=MEMBERS // 2)
    history = cluster.history()
    leader, standby = leader_and_standby(cluster)
    holder = cluster.lease()["holderIdentity"]
    gang = half_bound_gang(cluster)
    leader.kill()
    assert len(cluster.bound()) < MEMBERS, "it was killed too late to leave half a gang"

    cluster.all_bound(gang)
    assert leads(standby)
    assert cluster.lease()["holderIdentity"] != holder
    assert_each_bound_once(cluster, history)
    assert standby.metric("stromboli_binds_total", outcome="failed") == 0


def test_a_leader_that_slept_through_its_lease_binds_nothing_more(cluster: Cluster) -> None:
    cluster.hollow_nodes(2, cpu=MEMBERS // 2)
    history = cluster.history()
    sleeper, standby = leader_and_standby(cluster)
    gang = half_bound_gang(cluster)
    sleeper.pause()
    eventually(lambda: leads(standby))
    assert len(cluster.bound()) < MEMBERS, "it was paused too late to leave half a gang"
    sleeper.resume()  # while there is enough left for both to try

    cluster.all_bound(gang)
    eventually(lambda: sleeper.said("no longer the leader"))
    eventually(lambda: sleeper.metric("stromboli_binds_in_flight") == 0)
    assert bound_by(sleeper) + bound_by(standby) == MEMBERS
    assert_each_bound_once(cluster, history)
    assert not leads(sleeper)
    assert sleeper.metric("stromboli_binds_total", outcome="failed") == MEMBERS - bound_by(sleeper)
    assert standby.metric("stromboli_binds_total", outcome="failed") == 0
