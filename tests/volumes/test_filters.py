"""Where a pod with claims may run, and why not elsewhere."""

from __future__ import annotations

import pytest

from volumes.volume_scenes import (
    DRIVER,
    Document,
    capacity,
    claim,
    csi_driver,
    csi_node,
    gang,
    node,
    play,
    pod,
    priority_class,
    storage_class,
    volume,
    with_claims,
    zone,
)

ZONES = [node("a1", labels=zone("a")), node("b1", labels=zone("b"))]


def test_a_claim_that_does_not_exist() -> None:
    outcome = play(ZONES, with_claims(pod("p"), "data"))
    assert outcome.why("p") == (
        "ClaimMissing", "Claim default/data does not exist; create it, or correct the name in the pod."
    )  # fmt: skip


def test_the_pod_starts_when_its_claim_is_created() -> None:
    # The claim comes at 3. Its node is selected at once, the volume takes no time, and the next cycle binds.
    outcome = play(ZONES, storage_class(), with_claims(pod("p"), "data"), claim("data", at=3))
    assert outcome.started == {"p": 4}


def test_an_immediate_claim_that_nobody_binds() -> None:
    """The class makes volumes at once, but its provisioner always fails."""
    outcome = play(
        ZONES, storage_class(immediate=True, fails="always"), claim("data"), with_claims(pod("p"), "data"), until=5
    )
    code, sentence = outcome.why("p")
    assert code == "ClaimUnbound"
    assert sentence.startswith("Claim default/data of storage class fast is not bound to a volume")


def test_an_immediate_claim_is_bound_before_its_pod() -> None:
    # Made in 4 s, in the only zone that the class allows; then the pod follows.
    outcome = play(
        ZONES, storage_class(immediate=True, takes=4, zones=["b"]), claim("data"), with_claims(pod("p"), "data")
    )
    assert (outcome.started, outcome.nodes) == ({"p": 4}, {"p": "b1"})


def test_a_class_that_does_not_exist() -> None:
    outcome = play(ZONES, claim("data", of="slow"), with_claims(pod("p"), "data"))
    assert outcome.why("p") == (
        "ClaimUnbound",
        "Claim default/data is not bound, and its storage class slow does not exist; create the class.",
    )


def test_a_claim_whose_volume_is_gone() -> None:
    documents = [volume("disk", of="", until=2), claim("data", of="", volume="disk")]
    outcome = play(ZONES, documents, with_claims(pod("p", at=3), "data"))
    assert outcome.why("p") == (
        "ClaimUnbound",
        "Claim default/data has lost its volume: disk does not exist any more. Create the claim again.",
    )


@pytest.mark.parametrize("where", [{"zones": ["b"]}, {"nodes": ["b1"]}, {"labels": zone("b")}])
def test_a_bound_volume_is_reached_from_its_place_only(where: Document) -> None:
    # b1 has 3 CPUs, of which `busy` takes 2 until 5: p waits for 2 CPUs there, though a1 is empty.
    documents = [volume("disk", of="", **where), claim("data", of="", volume="disk")]
    outcome = play(ZONES, documents, pod("busy", 2, on="b1", run=5), with_claims(pod("p", 2, at=1), "data"))
    assert (outcome.started, outcome.nodes["p"]) == ({"p": 5}, "b1")


def test_a_volume_that_no_node_reaches() -> None:
    documents = [volume("disk", of="", zones=["c"]), claim("data", of="", volume="disk")]
    outcome = play(ZONES, documents, with_claims(pod("p"), "data"))
    assert outcome.why("p") == (
        "PredicateVolumeAffinity", "0 of 2 nodes are available: 2 that cannot reach a volume of the pod."
    )  # fmt: skip


def test_a_volume_in_several_zones() -> None:
    documents = [volume("disk", of="", labels=zone("b__c")), claim("data", of="", volume="disk")]
    assert play(ZONES, documents, with_claims(pod("p"), "data")).nodes == {"p": "b1"}


def test_zones_need_not_be_looked_at() -> None:
    documents = [volume("disk", of="", labels=zone("c")), claim("data", of="", volume="disk")]
    flags: Document = {"predicate.VolumeZoneEnable": False}
    assert play(ZONES, documents, with_claims(pod("p"), "data"), predicates=flags).started == {"p": 0}


def test_zones_of_existing_volumes_need_not_be_looked_at() -> None:
    """An open claim gets a volume whose labels name a zone without nodes."""
    documents = [storage_class(provisioner="kubernetes.io/no-provisioner"), volume("disk", labels=zone("c"))]
    pods = [claim("data"), with_claims(pod("p"), "data")]
    assert play(ZONES, documents, pods).why("p")[0] == "PredicateVolumeBinding"
    flags: Document = {"predicate.VolumeZoneEnable": False}
    assert play(ZONES, documents, pods, predicates=flags).started == {"p": 1}


def test_a_volume_with_the_old_zone_label() -> None:
    """Nodes have had the new label since Kubernetes 1.17, and old volumes keep the old one."""
    old = {"failure-domain.beta.kubernetes.io/zone": "b"}
    documents = [volume("disk", of="", labels=old), claim("data", of="", volume="disk")]
    nodes = [*ZONES, node("x1", labels={"topology.kubernetes.io/region": "r"})]
    assert play(nodes, documents, with_claims(pod("p"), "data")).nodes == {"p": "b1"}
    documents = [storage_class(provisioner="kubernetes.io/no-provisioner"), volume("disk", labels=old), claim("data")]
    assert play(nodes, documents, with_claims(pod("p"), "data")).nodes == {"p": "b1"}


def test_a_class_makes_volumes_in_its_zones_only() -> None:
    documents = [storage_class(zones=["b"]), claim("data")]
    outcome = play(ZONES, documents, with_claims(pod("p"), "data"))
    assert (outcome.started, outcome.nodes) == ({"p": 1}, {"p": "b1"})
    outcome = play(ZONES, storage_class(zones=["c"]), claim("data"), with_claims(pod("p"), "data"))
    assert outcome.why("p") == (
        "PredicateVolumeBinding",
        "0 of 2 nodes are available: 2 without a volume for a claim of the pod, where none can be made.",
    )


def test_storage_capacity() -> None:
    # 10Gi fit in zone b (20Gi) but not in zone a (5Gi).
    documents = [
        csi_driver(counts_capacity=True), storage_class(), capacity("in-a", "5Gi", "a"), capacity("in-b", "20Gi", "b"),
        claim("data", "10Gi"), claim("large", "30Gi"),
    ]  # fmt: skip
    outcome = play(ZONES, documents, with_claims(pod("p"), "data"), with_claims(pod("q"), "large"))
    assert outcome.nodes == {"p": "b1"}
    assert outcome.why("q")[0] == "PredicateVolumeBinding"


def test_attach_limits_of_a_driver() -> None:
    # Each node takes 2 volumes of the driver: 4 pods start, the fifth waits until one of them ends at 8.
    nodes = [node("a1", 9), node("b1", 9), csi_node("a1", 2), csi_node("b1", 2)]
    claims = [claim(f"data-{n}") for n in range(5)]
    pods = [with_claims(pod(f"p{n}", run=7 if n == 0 else 100), f"data-{n}") for n in range(5)]
    outcome = play(nodes, storage_class(), claims, pods, until=6)
    assert outcome.started == {"p0": 1, "p1": 1, "p2": 1, "p3": 1}
    assert outcome.why("p4") == (
        "PredicateVolumeLimits", "0 of 2 nodes are available: 2 that cannot attach 1 more volume of csi.example.com."
    )  # fmt: skip
    assert play(nodes, storage_class(), claims, pods, until=12).started["p4"] == 9
    without = play(nodes, storage_class(), claims, pods, predicates={"predicate.NodeVolumeLimitsEnable": False})
    assert len(without.started) == 5


def test_volumes_that_do_not_fit_are_not_attached() -> None:
    """The class makes volumes of one driver; an existing volume of another, whose limit is used up, is too small."""
    nodes = [node("a1", 9), csi_node("a1", 0)]
    documents = [storage_class(provisioner="csi.other.com"), volume("small", "1Gi", driver=DRIVER), claim("data")]
    assert play(nodes, documents, with_claims(pod("p"), "data")).started == {"p": 1}


def test_a_gang_is_placed_within_the_limits() -> None:
    # 2 + 1 volumes can be attached: a gang of three uses all of it, one of four cannot start.
    nodes = [node("a1", 9), node("b1", 9), csi_node("a1", 2), csi_node("b1", 1)]
    claims = [claim(f"data-{n}") for n in range(4)]
    three = [gang("g", 1, 1, 1)[0], *(with_claims(p, f"data-{n}") for n, p in enumerate(gang("g", 1, 1, 1)[1:]))]
    assert set(play(nodes, storage_class(), claims, three).nodes.values()) == {"a1", "b1"}
    group, *members = gang("g", 1, 1, 1, 1)
    outcome = play(nodes, storage_class(), claims, group, [with_claims(p, f"data-{n}") for n, p in enumerate(members)])
    assert outcome.started == {}
    assert outcome.why("g-0")[0] == "GangShort"


def test_a_volume_that_pods_of_a_node_share_is_attached_once() -> None:
    nodes = [node("a1", 9, labels=zone("a")), csi_node("a1", 1)]
    documents = [volume("disk", of="", driver=DRIVER), claim("data", of="", volume="disk")]
    outcome = play(nodes, documents, [with_claims(pod(f"p{n}"), "data") for n in range(3)])
    assert set(outcome.started) == {"p0", "p1", "p2"}


def test_a_claim_for_one_pod_only() -> None:
    # p holds it until 5; q may have it then.
    documents = [volume("disk", of="", mode="ReadWriteOncePod")]
    documents.append(claim("data", of="", volume="disk", mode="ReadWriteOncePod"))
    pods = [with_claims(pod("p", run=5), "data"), with_claims(pod("q", at=1), "data")]
    outcome = play(ZONES, documents, pods, until=4)
    assert outcome.why("q")[0] == "PredicateVolumeInUse"
    assert play(ZONES, documents, pods).started == {"p": 0, "q": 5}


def test_a_gang_cannot_share_a_claim_for_one_pod() -> None:
    documents = [volume("disk", of="", mode="ReadWriteOncePod")]
    documents.append(claim("data", of="", volume="disk", mode="ReadWriteOncePod"))
    group, *members = gang("g", 1, 1)
    outcome = play(ZONES, documents, group, [with_claims(member, "data") for member in members])
    assert outcome.started == {}


def test_preemption_for_a_claim_in_use() -> None:
    """Evicting the pod that uses it helps, and only on its node."""
    documents = [priority_class("high", 10), volume("disk", of="", mode="ReadWriteOncePod")]
    documents.append(claim("data", of="", volume="disk", mode="ReadWriteOncePod"))
    low = [with_claims(pod("low", on="a1"), "data"), pod("other", on="b1")]
    outcome = play(ZONES, documents, low, with_claims(pod("p", at=1, priority="high"), "data"))
    assert outcome.happened("Evicted") == [(1, "low")]
    assert outcome.nodes["p"] == "a1"


def test_preemption_leaves_nodes_alone_where_the_volume_is_not() -> None:
    # Both nodes are full of low pods. The volume is in zone b, so only b1's pod is evicted; with a volume in zone c,
    # nobody's is.
    low = [pod("low-a", 3, on="a1"), pod("low-b", 3, on="b1")]
    high = with_claims(pod("p", 3, at=1, priority="high"), "data")
    documents = [priority_class("high", 10), claim("data", of="", volume="disk")]
    outcome = play(ZONES, documents, volume("disk", of="", zones=["b"]), low, high)
    assert outcome.happened("Evicted") == [(1, "low-b")]
    outcome = play(ZONES, documents, volume("disk", of="", zones=["c"]), low, high)
    assert outcome.happened("Evicted") == []
    for missing in (claim("other"), claim("data", of="slow")):
        outcome = play(ZONES, priority_class("high", 10), missing, low, high)
        assert outcome.happened("Evicted") == []


def test_resource_claims_are_not_supported() -> None:
    document = pod("p")
    document["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    outcome = play(ZONES, document, pod("q"))
    assert outcome.started == {"q": 0}
    assert outcome.why("p")[0] == "ResourceClaimsUnsupported"


def test_binding_can_be_switched_off() -> None:
    """Then claims are ignored, as by a scheduler that knows nothing of volumes."""
    flags: Document = {"predicate.VolumeBindingEnable": False}
    assert play(ZONES, with_claims(pod("p"), "data"), predicates=flags).started == {"p": 0}
