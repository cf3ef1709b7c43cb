"""A pod waits for its volume, and the node that was chosen for it can no longer take it. The place is given up, the
claim is free again unless its volume exists, and the pod is placed anew.

The pod is placed on a1 at 0 and its volume takes 6 s. At 3 the node is lost to it.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import node as node_object
from stromboli.api import NodeSpec, PersistentVolumeClaim, names
from stromboli.api.volumes.claims import reference_to
from stromboli.cluster import Cluster
from stromboli.cluster.events import Applied, BindFailed
from stromboli.scheduling.decisions import Bind, ClaimVolume, Decision, SelectNode, UnclaimVolume, UnselectNode
from volumes.test_held_pods import known, member, obj
from volumes.test_held_pods import run as run_cycle
from volumes.volume_scenes import (
    Document,
    VolumeOutcome,
    claim,
    csi_node,
    gang,
    node,
    patch,
    play,
    pod,
    restart,
    run,
    storage_class,
    volume,
    with_claims,
    zone,
)

CORDON: Document = {"spec": {"unschedulable": True}}
TAINT: Document = {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}}
EXECUTE: Document = {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}}
NOT_READY: Document = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
RELABEL: Document = {"metadata": {"labels": {"disk": None}}}
CHANGES = [CORDON, TAINT, EXECUTE, NOT_READY, RELABEL]
IDS = ["cordoned", "tainted", "tainted NoExecute", "not ready", "relabelled"]

SLOW = [storage_class(takes=6), claim("data")]
WAITS = with_claims(pod("p", selector={"disk": "ssd"}), "data")


def ssd(name: str, cpu: float = 3, **options: Any) -> Document:
    return node(name, cpu, labels={**zone(name[0]), "disk": "ssd"}, **options)


def tolerating(document: Document, key: str) -> Document:
    tolerations = [{"key": key, "operator": "Exists"}]
    return {**document, "spec": {**document["spec"], "tolerations": tolerations}}


def selected(outcome: VolumeOutcome, name: str = "data") -> str:
    found: str = outcome.report["claims"][f"default/{name}"]["node"]
    return found


def steady(*parts: Document | list[Document], until: int = 15) -> VolumeOutcome:
    """The outcome; with restarts the same pods start on the same nodes at the same times."""
    outcome = run(*parts, until=until)
    restarted = run(*parts, [restart(second) for second in range(until + 1)], until=until)
    assert (restarted.nodes, restarted.started) == (outcome.nodes, outcome.started)
    return outcome


# -- the pod ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES, ids=IDS)
def test_the_pod_is_placed_on_another_node(change: Document) -> None:
    outcome = play(ssd("a1"), ssd("b1"), SLOW, WAITS, patch("Node", "a1", change, at=3), until=15)
    assert outcome.gave_back() == [(3, "p")]
    assert (outcome.nodes, outcome.started, selected(outcome)) == ({"p": "b1"}, {"p": 9}, "b1")


def test_the_node_is_deleted() -> None:
    outcome = play(ssd("a1", until=3), ssd("b1"), SLOW, WAITS, until=15)
    assert outcome.gave_back() == [(3, "p")]
    assert (outcome.started, selected(outcome)) == ({"p": 9}, "b1")


def test_the_node_has_become_too_small() -> None:
    smaller = patch("Node", "a1", {"status": {"allocatable": {"cpu": "500m"}}}, at=3)
    outcome = steady(ssd("a1"), ssd("b1"), SLOW, WAITS, smaller, until=15)
    assert outcome.gave_back() == [(3, "p")]
    assert (outcome.started, selected(outcome)) == ({"p": 9}, "b1")


def test_who_is_left_fits_a_smaller_node() -> None:
    # Two pods of 1 CPU wait on a1, which has 1 CPU from 3 on: one stays, the other moves.
    smaller = patch("Node", "a1", {"status": {"allocatable": {"cpu": 1}}}, at=3)
    pods = [with_claims(pod(f"p{n}"), f"d{n}") for n in range(2)]
    documents = [ssd("a1"), ssd("b1", at=2), storage_class(takes=6), claim("d0"), claim("d1"), *pods]
    outcome = play(documents, smaller, until=15)
    assert len(outcome.gave_back()) == 1
    assert sorted(outcome.nodes.values()) == ["a1", "b1"]
    assert sorted(outcome.started.values()) == [6, 9]


@pytest.mark.parametrize(
    ("change", "key"), [(CORDON, "node.kubernetes.io/unschedulable"), (TAINT, "broken")], ids=["cordon", "taint"]
)
def test_a_pod_that_tolerates_it_stays(change: Document, key: str) -> None:
    change_it = patch("Node", "a1", change, at=3)
    outcome = play(ssd("a1"), ssd("b1"), SLOW, tolerating(WAITS, key), change_it, until=15)
    assert outcome.gave_back() == []
    assert (outcome.nodes, outcome.started) == ({"p": "a1"}, {"p": 6})


def test_taints_do_not_count_if_the_plugin_ignores_them() -> None:
    change_it = patch("Node", "a1", TAINT, at=3)
    flags: Document = {"predicate.TaintTolerationEnable": False}
    assert play(ssd("a1"), ssd("b1"), SLOW, WAITS, change_it, until=15, predicates=flags).nodes == {"p": "a1"}


def test_a_gang_gives_up_all_its_places() -> None:
    head, *pods = gang("g", 2, 2)
    documents = [storage_class(takes=6), claim("d0"), claim("d1"), head]
    own = [with_claims(one, f"d{n}") for n, one in enumerate(pods)]
    cordon = patch("Node", "a1", CORDON, at=3)
    outcome = steady([ssd("a1"), ssd("b1"), ssd("c1")], documents, own, cordon, until=20)
    assert outcome.gave_back() == [(3, "g-0"), (3, "g-1")]
    assert sorted(outcome.nodes.values()) == ["b1", "c1"]
    assert outcome.started == {"g-0": 9, "g-1": 9}


# -- its claim --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES, ids=IDS)
def test_the_claim_is_free_while_no_other_node_fits(change: Document) -> None:
    """Nothing is provisioned for a node that the pod cannot use. When a node comes, the volume is made there."""
    documents = [ssd("a1"), *SLOW, WAITS, patch("Node", "a1", change, at=3)]
    outcome = play(documents, until=15)
    assert (outcome.started, selected(outcome), outcome.report["volumes"]) == ({}, "", {})
    outcome = play(documents, ssd("b1", at=10), until=20)
    assert (outcome.nodes, outcome.started, selected(outcome)) == ({"p": "b1"}, {"p": 16}, "b1")


def test_the_node_comes_back() -> None:
    patches = [patch("Node", "a1", CORDON, at=3), patch("Node", "a1", {"spec": {"unschedulable": False}}, at=8)]
    outcome = play(ssd("a1"), SLOW, WAITS, patches, until=20)
    assert (outcome.started, selected(outcome)) == ({"p": 14}, "a1")


def test_a_volume_that_exists_stays_the_claims() -> None:
    """The volume is there at 6, in zone a, in the same second in which a1 is cordoned. a2 reaches it, b1 does not."""
    nodes = [ssd("a1"), ssd("a2", at=8), ssd("b1")]
    outcome = steady(nodes, SLOW, [WAITS], patch("Node", "a1", CORDON, at=6), until=20)
    assert outcome.started == {"p": 8}
    assert (outcome.nodes, selected(outcome)) == ({"p": "a2"}, "a1")


def test_a_pod_made_anew_is_not_tied_to_the_node() -> None:
    """The pod is deleted before the node is cordoned. Its successor has the same claim."""
    first = with_claims(pod("p", until=2), "data")
    later = with_claims(pod("q", at=5), "data")
    outcome = play(ssd("a1"), ssd("b1"), SLOW, first, later, patch("Node", "a1", CORDON, at=3), until=15)
    assert (outcome.nodes, outcome.started, selected(outcome)) == ({"q": "b1"}, {"q": 11}, "b1")


def test_a_shared_claim_goes_to_a_pod_that_still_has_its_place() -> None:
    """p on a1 and q on a2 wait for one volume, which is made for a1. a1 is cordoned: it is made for a2, and p goes
    where it is."""
    nodes = [ssd(name, 1) for name in ("a1", "a2", "a3", "b1")]
    drivers = [csi_node(name) for name in ("a1", "a2", "a3", "b1")]
    pods = [with_claims(pod(name), "data") for name in "pq"]
    shared = [storage_class(takes=6), claim("data", mode="ReadWriteMany")]
    outcome = steady(nodes, drivers, shared, pods, patch("Node", "a1", CORDON, at=3), until=15)
    assert (outcome.nodes, outcome.started) == ({"p": "a3", "q": "a2"}, {"p": 9, "q": 9})
    assert selected(outcome) == "a2"


def test_a_shared_claim_stays_if_one_of_its_pods_can_use_the_node() -> None:
    nodes = [ssd(name, 1) for name in ("a1", "a2", "a3")]
    shared = [storage_class(takes=6), claim("data", mode="ReadWriteMany"), *(csi_node(f"a{n}") for n in (1, 2, 3))]
    pods = [tolerating(with_claims(pod("p"), "data"), "broken"), with_claims(pod("q"), "data")]
    outcome = play(nodes, shared, pods, patch("Node", "a1", TAINT, at=3), until=15)
    assert (outcome.started, selected(outcome)) == ({"p": 6, "q": 6}, "a1")


# -- what is written --------------------------------------------------------------------------------------------------


def about_claims(decisions: list[Decision]) -> list[tuple[str, str]]:
    return [
        (type(one).__name__, one.node if isinstance(one, SelectNode) else "")
        for one in decisions
        if isinstance(one, SelectNode | UnselectNode)
    ]


def selecting(cluster: Cluster, where: str) -> PersistentVolumeClaim:
    """The claim of the pod p, for which this node is selected."""
    found = cluster.volumes.claims["default/p"]
    notes = {names.SELECTED_NODE: where, names.SELECTED_AT: "2000-01-01T00:00:00Z"} if where else {}
    return replace(found, metadata=replace(found.metadata, annotations=notes))


def cordon(cluster: Cluster, name: str) -> None:
    found = replace(node_object(name, cpu=4, memory="64Gi"), spec=NodeSpec(unschedulable=True))
    cluster.apply(Applied(found))


def test_a_new_node_is_written_over_the_old_one_and_only_once() -> None:
    """The watch is late: until it shows the new node, and also if it shows the old one once more, nothing is undone."""
    cluster = known(member("p"), nodes=2)
    assert about_claims(run_cycle(cluster).decisions) == [("SelectNode", "n0")]
    cluster.apply(Applied(selecting(cluster, "n0")))
    cordon(cluster, "n0")
    assert about_claims(run_cycle(cluster, 1001.0).decisions) == [("SelectNode", "n1")]
    assert about_claims(run_cycle(cluster, 1002.0).decisions) == []
    cluster.apply(Applied(selecting(cluster, "n1")))
    assert about_claims(run_cycle(cluster, 1003.0).decisions) == []
    assert {held.node for held in cluster.ledger.held.values()} == {"n1"}


def test_the_selected_node_is_removed_until_the_claim_shows_it() -> None:
    cluster = known(member("p"), nodes=1)
    run_cycle(cluster)
    cluster.apply(Applied(selecting(cluster, "n0")))
    cordon(cluster, "n0")
    cycle = run_cycle(cluster, 1001.0)
    assert about_claims(cycle.decisions) == [("UnselectNode", "")]
    assert cycle.next_due == 1006.0
    assert about_claims(run_cycle(cluster, 1006.0).decisions) == [("UnselectNode", "")], "the first one may have failed"
    cluster.apply(Applied(selecting(cluster, "")))
    assert about_claims(run_cycle(cluster, 1007.0).decisions) == []


def test_if_the_new_node_cannot_be_written_the_old_one_is_not_used() -> None:
    cluster = known(member("p"), nodes=2)
    run_cycle(cluster)
    cluster.apply(Applied(selecting(cluster, "n0")))
    cordon(cluster, "n0")
    run_cycle(cluster, 1001.0)
    cluster.apply(BindFailed(next(iter(cluster.tasks))))
    cycle = run_cycle(cluster, 1002.0)
    assert about_claims(cycle.decisions) == [("SelectNode", "n1")]
    assert not any(isinstance(one, Bind) for one in cycle.decisions)


def test_a_volume_that_was_chosen_there_is_free_again() -> None:
    """Local volumes. The volume on n0 names the claim, which the volume controller has not completed yet."""
    cluster = known(member("p"), nodes=2)
    for document in (
        storage_class(provisioner="kubernetes.io/no-provisioner"),
        volume("v0", nodes=["n0"]),
        volume("v1", "20Gi", nodes=["n1"]),
    ):
        cluster.apply(Applied(obj(document)))
    assert claimed(run_cycle(cluster).decisions) == [("ClaimVolume", "v0")]
    chosen = cluster.volumes.volumes["v0"]
    cluster.apply(Applied(replace(chosen, spec=replace(chosen.spec, claim_ref=reference_to(selecting(cluster, ""))))))
    cordon(cluster, "n0")
    assert claimed(run_cycle(cluster, 1001.0).decisions) == [("UnclaimVolume", "v0"), ("ClaimVolume", "v1")]


def claimed(decisions: list[Decision]) -> list[tuple[str, str]]:
    found = [one for one in decisions if isinstance(one, ClaimVolume | UnclaimVolume)]
    return [(type(one).__name__, one.volume) for one in found]


def test_what_another_scheduler_selected_is_left_alone() -> None:
    cluster = known(member("p"), nodes=2)
    theirs = selecting(cluster, "n0")
    del theirs.metadata.annotations[names.SELECTED_AT]
    cluster.apply(Applied(theirs))
    cordon(cluster, "n0")
    assert about_claims(run_cycle(cluster).decisions) == []
