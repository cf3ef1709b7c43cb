"""Why pods with claims wait: the code, and the numbers in the sentence."""

from __future__ import annotations

from volumes.volume_scenes import (
    DRIVER,
    claim,
    csi_node,
    gang,
    node,
    play,
    pod,
    run,
    storage_class,
    volume,
    with_claims,
    zone,
)

NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONES = [node("a1", labels=zone("a")), node("b1", labels=zone("b"))]


def test_a_claim_in_use_is_the_reason_on_every_node() -> None:
    """Two of three nodes do not reach the volume either, but nothing on nodes helps as long as p uses the claim."""
    nodes = [*ZONES, node("b2", labels=zone("b"))]
    documents = [volume("disk", of="", mode="ReadWriteOncePod", zones=["a"])]
    documents.append(claim("data", of="", volume="disk", mode="ReadWriteOncePod"))
    pods = [with_claims(pod("p"), "data"), with_claims(pod("q", at=1), "data")]
    assert play(nodes, documents, pods).why("q") == (
        "PredicateVolumeInUse",
        "Claim default/data is for one pod at a time (ReadWriteOncePod): default/q waits until default/p is gone.",
    )


def test_the_number_of_volumes_that_a_node_cannot_attach() -> None:
    # The node takes one volume and has none; the pod brings two.
    documents = [node("a1"), csi_node("a1", 1), storage_class(), claim("one"), claim("two")]
    assert play(documents, with_claims(pod("p"), "one", "two")).why("p") == (
        "PredicateVolumeLimits", f"0 of 1 nodes are available: 1 that cannot attach 2 more volumes of {DRIVER}."
    )  # fmt: skip


def test_a_gang_that_is_short_of_volumes_says_so() -> None:
    # Three claims, two volumes: both nodes would take a pod, and none the third one.
    documents = [storage_class(provisioner=NO_PROVISIONER), volume("v0"), volume("v1")]
    group, *members = gang("g", 1, 1, 1)
    own = [with_claims(member, f"data-{n}") for n, member in enumerate(members)]
    outcome = play(ZONES, documents, [claim(f"data-{n}") for n in range(3)], group, own)
    assert outcome.why("g-0") == (
        "GangShort",
        "Only 2 of the 3 pods that must start together fit now. 2 of 2 nodes have room for some of "
        "them. For the next one: 2 without a volume for a claim of the pod, where none can be made.",
    )


def test_the_next_attempt_is_a_whole_second() -> None:
    outcome = run(ZONES, storage_class(fails="always"), claim("data"), with_claims(pod("p"), "data"), until=1)
    assert outcome.why("p")[1].endswith("The next attempt is at 2000-01-01T00:00:03Z.")


def test_the_next_attempt_is_that_on_the_node_that_failed_if_there_is_no_other() -> None:
    # It fails at 1 s. The pause is over after 3 s, and the only node is avoided for six times as long: until 9 s.
    documents = [node("a1"), storage_class(fails="1"), claim("data"), with_claims(pod("p"), "data")]
    for second in range(1, 9):
        assert run(documents, until=second).why("p")[1].endswith("The next attempt is at 2000-01-01T00:00:09Z.")
    assert run(documents, until=9).why("p")[0] == "WaitingForVolumes"


def test_if_other_nodes_are_too_small_the_time_of_the_one_that_failed_is_said() -> None:
    documents = [node("a1"), node("b1", cpu=1), storage_class(fails="1"), claim("data")]
    outcome = run(documents, with_claims(pod("p", cpu=2), "data"), until=4)
    assert outcome.why("p")[1].endswith(
        "It is tried again as soon as another node fits, and on a1 again from 2000-01-01T00:00:09Z on."
    )


def test_the_report_shows_claims_and_volumes() -> None:
    documents = [storage_class(), volume("small", "5Gi", zones=["b"]), claim("old", "5Gi"), claim("new", "20Gi")]
    pods = [with_claims(pod("p", selector=zone("b")), "old"), with_claims(pod("q", selector=zone("b")), "new")]
    report = run(ZONES, documents, pods).report
    made = report["claims"]["default/new"]["volume"]
    assert report["claims"] == {
        "default/new": {
            "phase": "Bound", "storageClass": "fast", "requested": "20Gi", "volume": made, "node": "b1",
        },
        "default/old": {
            "phase": "Bound", "storageClass": "fast", "requested": "5Gi", "volume": "small", "node": "",
        },
    }  # fmt: skip
    assert report["volumes"] == {
        made: {"phase": "Bound", "storageClass": "fast", "capacity": "20Gi", "claim": "default/new"},
        "small": {"phase": "Bound", "storageClass": "fast", "capacity": "5Gi", "claim": "default/old"},
    }
