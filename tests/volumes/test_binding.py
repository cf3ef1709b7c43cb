"""From choosing a volume to binding the pod, step by step.

A cycle selects the node, the provisioner makes the volume, and the first cycle after that binds the pod. With 0 s to
make a volume, a pod starts one cycle (1 s) after it was placed.
"""

from __future__ import annotations

import pytest

from volumes.volume_scenes import (
    Document,
    claim,
    csi_node,
    ephemeral,
    gang,
    node,
    patch,
    play,
    pod,
    priority_class,
    restart,
    run,
    storage_class,
    volume,
    with_claims,
    zone,
)

ZONES = [node("a1", labels=zone("a")), node("b1", labels=zone("b"))]


def members(name: str, *cpus: float, claims: bool = True, **options: object) -> list[Document]:
    """A gang whose pods have a claim each, `<pod>-data`, and the claims."""
    head, *pods = gang(name, *cpus, **options)  # type: ignore[arg-type]
    if not claims:
        return [head, *pods]
    names = [document["metadata"]["name"] for document in pods]
    own = [with_claims(document, f"{name}-data") for document, name in zip(pods, names, strict=True)]
    return [head, *own, *(claim(f"{name}-data") for name in names)]


# -- a volume is made -------------------------------------------------------------------------------------------------


def test_a_volume_is_made_where_the_pod_is_placed() -> None:
    outcome = play(ZONES, storage_class(takes=4), claim("data"), with_claims(pod("p"), "data"))
    assert outcome.started == {"p": 4}


def test_a_waiting_pod_says_what_it_waits_for() -> None:
    outcome = play(ZONES, storage_class(takes=40), claim("data"), with_claims(pod("p", selector=zone("b")), "data"))
    assert outcome.why("p") == (
        "WaitingForVolumes",
        "Waiting for the volumes of default/data; b1 is kept for the pod meanwhile.",
    )
    assert outcome.report["podGroups"] != {}
    (group,) = outcome.report["podGroups"].values()
    assert group["phase"] == "Inqueue"


def test_a_pod_beyond_the_minimum_says_it_as_long_as_it_waits() -> None:
    head, first, second = gang("g", 1, 1, least=1)
    runs = [ZONES, storage_class(takes=40), head, first, with_claims(second, "data"), claim("data"), pod("later", at=6)]
    outcome = play(*runs, until=10)
    assert outcome.started == {"g-0": 0, "later": 6}
    assert outcome.why("g-1")[0] == "WaitingForVolumes"


def test_room_is_held_while_a_volume_is_made() -> None:
    # p has 2 of the 3 CPUs of the node from 0 on, though it starts only at 6. So q (2 CPUs) does not fit meanwhile.
    one = node("a1")
    pods = [with_claims(pod("p", 2, run=2), "data"), pod("q", 2, at=1)]
    outcome = play(one, storage_class(takes=6), claim("data"), pods)
    assert outcome.started == {"p": 6, "q": 8}


def test_the_claim_is_deleted_while_the_volume_is_made() -> None:
    # The place is given back at 3, so that q starts.
    outcome = run(
        node("a1"), storage_class(takes=60), claim("data", until=3), with_claims(pod("p", 2), "data"), pod("q", 2, at=1)
    )
    assert outcome.started == {"q": 3}
    assert outcome.gave_back() == [(3, "p")]
    assert outcome.why("p")[0] == "ClaimMissing"


def test_the_pod_is_deleted_while_the_volume_is_made() -> None:
    outcome = play(
        node("a1"), storage_class(takes=60), claim("data"), with_claims(pod("p", 2, until=3), "data"), pod("q", 2, at=1)
    )
    assert outcome.started == {"q": 3}


def test_the_node_is_deleted_while_the_volume_is_made() -> None:
    # b1 is gone at 3. The volume is made in zone b all the same, so the pod waits for a node there.
    nodes = [node("a1", labels=zone("a")), node("b1", labels=zone("b"), until=3), node("b2", labels=zone("b"), at=7)]
    document = with_claims(pod("p", selector=zone("b")), "data")
    outcome = run(nodes, storage_class(takes=5), claim("data"), document, until=12)
    assert outcome.gave_back() == [(3, "p")]
    assert outcome.nodes == {"p": "b2"}


# -- failures ---------------------------------------------------------------------------------------------------------


def test_the_provisioner_gives_up_and_another_node_is_tried() -> None:
    # On the first node it fails after 2 s; the next attempt is elsewhere, after a pause of 1 to 1.5 s.
    first = run(ZONES, storage_class(takes=2), claim("data"), with_claims(pod("p"), "data")).nodes["p"]
    outcome = run(ZONES, storage_class(takes=2, fails=first), claim("data"), with_claims(pod("p"), "data"))
    assert outcome.gave_back() == [(2, "p")]
    assert outcome.nodes["p"] not in ("", first)
    assert 5 <= outcome.started["p"] <= 6


def test_every_node_is_tried_before_one_is_tried_again() -> None:
    """Pauses grow to a minute. A node that failed is not open again before the last one had its turn."""
    nodes = [node(f"n{number}") for number in range(6)]
    fails = storage_class(takes=1, fails="n0,n1,n2,n3,n4")
    outcome = run(nodes, fails, claim("data"), with_claims(pod("p"), "data"), until=300)
    tried = [who for _, who in outcome.gave_back()]
    assert (len(tried), outcome.nodes) == (5, {"p": "n5"})


def test_nodes_that_failed_are_tried_again_if_no_other_has_room() -> None:
    # The attempts on n0, n0 and n1 fail. n2 has no room, so n0 and n1 are tried in turns.
    nodes = [node("n0"), node("n1"), node("n2", 1)]
    outcome = run(nodes, storage_class(fails="3"), claim("data"), with_claims(pod("p", 2), "data"), until=120)
    assert len(outcome.gave_back()) == 3
    assert outcome.nodes["p"] in ("n0", "n1")


def test_the_reason_while_nothing_works() -> None:
    outcome = run(ZONES, storage_class(fails="always"), claim("data"), with_claims(pod("p"), "data"), until=30)
    code, sentence = outcome.why("p")
    assert code in ("PredicateVolumeBinding", "WaitingForVolumes")
    assert outcome.started == {}
    assert len(outcome.gave_back()) >= 3
    if code == "PredicateVolumeBinding":
        assert "the provisioner gave up on claim default/data" in sentence


def test_a_timeout_gives_the_place_back() -> None:
    # After 5 s without a volume (the argument) p gives back 2 of the 3 CPUs, and q starts. When the pause is over, the
    # node is full; the claim has no selected node any more.
    flags: Document = {"predicate.VolumeBindingTimeout": "5s"}
    outcome = run(
        node("a1"), storage_class(takes=3600), claim("data"), with_claims(pod("p", 2), "data"), pod("q", 2, at=1),
        predicates=flags, until=60,
    )  # fmt: skip
    assert outcome.started == {"q": 6}
    assert outcome.gave_back() == [(6, "p")]


def test_a_restart_does_not_extend_the_timeout() -> None:
    flags: Document = {"predicate.VolumeBindingTimeout": "5s"}
    scene = [node("a1"), storage_class(takes=3600), claim("data"), with_claims(pod("p", 2), "data"), pod("q", 2, at=1)]
    assert run(scene, restart(3), predicates=flags, until=8).started == {"q": 6}


# -- existing volumes -------------------------------------------------------------------------------------------------


def test_the_smallest_volume_that_fits() -> None:
    # 10Gi are claimed: 8Gi is too small, 12Gi is smaller than 20Gi.
    volumes = [volume("large", "20Gi", zones=["a"]), volume("right", "12Gi", zones=["b"]), volume("small", "8Gi")]
    none_made = storage_class(provisioner="kubernetes.io/no-provisioner")
    outcome = play([node("a1", 1, labels=zone("a")), node("b1", labels=zone("b"))], none_made, volumes, claim("data"),
                   with_claims(pod("p", 2), "data"))  # fmt: skip
    assert (outcome.started, outcome.nodes) == ({"p": 1}, {"p": "b1"})


def test_two_claims_do_not_get_one_volume() -> None:
    none_made = storage_class(provisioner="kubernetes.io/no-provisioner")
    claims = [claim("data-0"), claim("data-1")]
    pods = [with_claims(pod(f"p{n}"), f"data-{n}") for n in range(2)]
    outcome = play(ZONES, none_made, volume("disk", zones=["b"]), claims, pods)
    assert outcome.nodes == {"p0": "b1"}
    assert outcome.why("p1")[0] == "PredicateVolumeBinding"
    outcome = play(ZONES, none_made, volume("disk", zones=["b"]), volume("other", zones=["a"]), claims, pods)
    assert sorted(outcome.nodes.values()) == ["a1", "b1"]


def test_two_claims_of_one_pod_need_two_volumes() -> None:
    # Zone a has one volume and zone b two: only b1 serves both claims.
    none_made = storage_class(provisioner="kubernetes.io/no-provisioner")
    volumes = [volume("v1", zones=["a"]), volume("v2", zones=["b"]), volume("v3", zones=["b"])]
    outcome = play(ZONES, none_made, volumes, claim("x"), claim("y"), with_claims(pod("p"), "x", "y"))
    assert outcome.nodes == {"p": "b1"}


def test_a_gang_that_lost_a_pod_keeps_no_place_after_a_restart() -> None:
    """Two pods wait for their volumes, and one is deleted while the scheduler is away. The other cannot start alone, so
    its room and its claim are free."""
    first, second = (with_claims(one, name) for one, name in zip(gang("g", 3, 3)[1:], ("d0", "d1"), strict=True))
    first["metadata"]["annotations"]["sim.stromboli.io/until"] = "4s"
    documents = [gang("g", 3, 3)[0], first, second, claim("d0"), claim("d1"), storage_class(takes=30)]
    outcome = run(ZONES, documents, restart(4), [pod("p", 3, at=5), pod("q", 3, at=5)], until=10)
    assert outcome.why("g-1")[0] == "NotEnoughPods"
    assert outcome.started == {"p": 5, "q": 5}


def test_a_claim_does_not_take_the_only_volume_of_another() -> None:
    """Both claims would be content with the small volume, but only it can be shared by many, as one of them asks."""
    small, large = volume("small", mode="ReadWriteMany"), volume("large", "20Gi")
    small["spec"]["accessModes"] = ["ReadWriteOnce", "ReadWriteMany"]
    claims = [claim("any"), claim("many", mode="ReadWriteMany")]
    documents = [storage_class(provisioner="kubernetes.io/no-provisioner"), small, large, *claims]
    outcome = play(ZONES, documents, with_claims(pod("p"), "any", "many"))
    assert outcome.started == {"p": 1}
    assert outcome.report["claims"]["default/any"]["volume"] == "large"


def test_a_gang_takes_all_volumes_or_none() -> None:
    none_made = storage_class(provisioner="kubernetes.io/no-provisioner")
    outcome = play(ZONES, none_made, volume("v0"), volume("v1"), members("g", 1, 1))
    assert outcome.started == {"g-0": 1, "g-1": 1}
    outcome = play(ZONES, none_made, volume("v0"), members("g", 1, 1), with_claims(pod("p", at=2), "own"), claim("own"))
    assert outcome.started == {"p": 3}, "the gang did not keep the only volume"


def test_local_volumes() -> None:
    """Each on one node: the gang goes where they are."""
    none_made = storage_class(provisioner="kubernetes.io/no-provisioner")
    volumes = [volume("v0", nodes=["a1"]), volume("v1", nodes=["b1"])]
    outcome = play(ZONES, none_made, volumes, members("g", 1, 1))
    assert sorted(outcome.nodes.values()) == ["a1", "b1"]


# -- gangs ------------------------------------------------------------------------------------------------------------


def test_no_pod_of_a_gang_is_bound_before_all_claims_are() -> None:
    # g-0 has a claim of a class that takes 7 s, g-1 one that takes 2 s, g-2 has none.
    head, first, second, third = gang("g", 1, 1, 1)
    claims = [claim("slow", of="slow"), claim("quick")]
    pods = [with_claims(first, "slow"), with_claims(second, "quick"), third]
    outcome = play(ZONES, storage_class(takes=2), storage_class("slow", takes=7), claims, head, pods)
    assert outcome.started == {"g-0": 7, "g-1": 7, "g-2": 7}
    early = play(ZONES, storage_class(takes=2), storage_class("slow", takes=7), claims, head, pods, until=4)
    assert early.why("g-2") == (
        "WaitingForVolumes",
        "Waiting for the volumes of pods that must start together with this one; "
        f"{_kept(early, 'g-2')} is kept meanwhile.",
    )


def _kept(outcome: object, name: str) -> str:
    message: str = outcome.why(name)[1]  # type: ignore[attr-defined]
    return message.split("; ")[1].split(" is kept")[0]


def test_a_gang_with_one_claim_that_fails_binds_nothing() -> None:
    head, first, second = gang("g", 1, 1)
    claims = [claim("bad", of="bad"), claim("good")]
    classes = [storage_class(), storage_class("bad", takes=2, fails="always")]
    outcome = run(ZONES, classes, claims, head, with_claims(first, "bad"), with_claims(second, "good"), until=20)
    assert outcome.started == {}
    assert {who for _, who in outcome.gave_back()} == {"g-0", "g-1"}


def test_a_gang_that_failed_once_starts_together() -> None:
    head, first, second = gang("g", 1, 1)
    claims = [claim("late", of="late"), claim("good")]
    classes = [storage_class(), storage_class("late", fails="1")]
    outcome = run(ZONES, classes, claims, head, with_claims(first, "late"), with_claims(second, "good"), until=20)
    assert len(set(outcome.started.values())) == 1
    assert set(outcome.started) == {"g-0", "g-1"}


def test_pods_that_join_a_gang_wait_for_their_own_volumes_only() -> None:
    # Two of three are enough. The third is placed after them and its volume takes 8 s: it does not delay the others.
    head, first, second, third = gang("g", 1, 1, 1, least=2)
    claims = [claim("d0"), claim("d1"), claim("d2", of="slow")]
    pods = [with_claims(first, "d0"), with_claims(second, "d1"), with_claims(third, "d2")]
    outcome = play(ZONES, storage_class(takes=2), storage_class("slow", takes=8), claims, head, pods, until=12)
    assert outcome.started == {"g-0": 2, "g-1": 2, "g-2": 8}


def test_a_gang_that_shares_a_claim_starts_in_one_zone() -> None:
    """The driver says that its volumes are reached from their zone. Two nodes of 2 CPUs in zone a, and one in b."""
    nodes = [node("a1", 2, labels=zone("a")), node("a2", 2, labels=zone("a")), node("b1", 2, labels=zone("b"))]
    drivers = [csi_node(name) for name in ("a1", "a2", "b1")]
    head, *pods = gang("g", 2, 2)
    shared = claim("data", mode="ReadWriteMany")
    outcome = play(nodes, drivers, storage_class(), shared, head, [with_claims(one, "data") for one in pods], until=15)
    assert sorted(outcome.nodes.values()) == ["a1", "a2"]


def test_a_gang_that_shares_a_claim_goes_where_all_of_it_fits() -> None:
    """Zone a comes first by name and has two nodes for three pods; zone b has three. The launcher is smaller."""
    names = ["a1", "a2", "b1", "b2", "b3"]
    nodes = [node(name, 2, labels=zone(name[0])) for name in names]
    shared = [storage_class(), claim("data", mode="ReadWriteMany"), *(csi_node(name) for name in names)]
    for cpus in ([2, 2, 2], [1, 2, 2, 1]):
        head, *pods = gang("g", *cpus)
        outcome = play(nodes, shared, head, [with_claims(one, "data") for one in pods])
        assert set(outcome.nodes.values()) == {"b1", "b2", "b3"}


def test_the_volume_of_a_shared_claim_is_made_for_the_first_pod() -> None:
    """Three pods on three nodes, placed in the same cycle, each for itself. Nobody says where the volume will be."""
    nodes = [node("a1", 1, labels=zone("a")), node("a2", 1, labels=zone("a")), node("b1", 1, labels=zone("b"))]
    pods = [with_claims(pod(name), "data") for name in ("p", "q", "r")]
    outcome = run(nodes, storage_class(takes=3), claim("data", mode="ReadWriteMany"), pods)
    assert outcome.report["claims"]["default/data"]["node"] == "a1"
    assert outcome.nodes == {"p": "a1", "q": "a2"}
    assert outcome.gave_back() == [(3, "r")]


def test_a_shared_claim_whose_zone_is_known_only_afterwards() -> None:
    """No driver says anything. If the first choice is wrong, the gang gives its places back once, and starts where the
    volume is."""
    nodes = [node(f"{name}{n}", 1, labels=zone(name)) for name in "ab" for n in (1, 2)]
    head, *pods = gang("g", 1, 1)
    shared = claim("data", mode="ReadWriteMany")
    outcome = run(nodes, storage_class(), shared, head, [with_claims(one, "data") for one in pods], until=15)
    assert {place[0] for place in outcome.nodes.values()} in ({"a"}, {"b"})
    assert set(outcome.started) == {"g-0", "g-1"}


# -- with other features ----------------------------------------------------------------------------------------------


def test_a_preemptor_gets_its_volume_before_its_victims_leave() -> None:
    # p comes at 1. Its volume takes 2 s; then low is evicted, and takes 3 s to end.
    low = pod("low", 3, on="a1", grace=3)
    high = with_claims(pod("p", 3, at=1, priority="high"), "data")
    outcome = play(node("a1"), priority_class("high", 10), storage_class(takes=2), claim("data"), low, high)
    assert outcome.happened("Evicted") == [(3, "low")]
    assert outcome.started == {"p": 6}


def test_a_starved_gang_gets_its_volumes_on_its_reserved_nodes() -> None:
    # Two nodes of 3 CPUs are used by small pods; the gang wants both nodes whole and starves after 3 s. Once all small
    # pods are gone (at 10), its volumes take 2 s.
    small = [pod(f"s{n}", 1, on=f"{'ab'[n % 2]}1", run=10) for n in range(4)]
    outcome = play(
        ZONES, storage_class(takes=2), small, members("g", 3, 3, at=1), until=15,
        reserve={"starvingJobTimeThreshold": "3s", "reservedNodePercent": 100},
    )  # fmt: skip
    assert outcome.started == {"g-0": 12, "g-1": 12}


def test_no_node_is_reserved_where_the_volume_is_not() -> None:
    small = [pod(f"s{n}", 1, on=f"{'ab'[n % 2]}1", run=30) for n in range(4)]
    documents = [volume("disk", of="", zones=["b"]), claim("data", of="", volume="disk")]
    outcome = play(
        ZONES, documents, small, with_claims(pod("p", 3, at=1), "data"), until=15,
        reserve={"starvingJobTimeThreshold": "3s", "reservedNodePercent": 100},
    )  # fmt: skip
    assert outcome.reserved == {"b1": ["p"]}


def test_backfill_runs_beside_a_gang_whose_volumes_are_made() -> None:
    # The gang holds 2 of 3 CPUs on each node from 0 until its volumes are there at 6; small pods use the third.
    small = [pod(f"s{n}", 1, at=1, run=3) for n in range(2)]
    outcome = play(ZONES, storage_class(takes=6), members("g", 2, 2), small, backfill={})
    assert outcome.started == {"g-0": 6, "g-1": 6, "s0": 1, "s1": 1}


def test_a_pod_on_lent_room_gives_it_back_with_its_volume() -> None:
    """A job that waits for volumes on lent room is like any other: its room counts as used."""
    outcome = run(ZONES, storage_class(takes=3, fails="1"), members("g", 3, 3, 3, least=3), pod("q", 1, at=2), until=10)
    assert outcome.started == {"q": 2}


# -- claims that come with a pod or a job -----------------------------------------------------------------------------


def test_generic_ephemeral_volumes() -> None:
    outcome = play(ZONES, storage_class(takes=3), ephemeral(pod("p", run=2)))
    assert outcome.started == {"p": 3}


def test_an_ephemeral_volume_does_not_take_the_claim_of_somebody_else() -> None:
    outcome = play(ZONES, storage_class(), claim("p-tmp"), ephemeral(pod("p")))
    assert outcome.why("p") == (
        "ClaimMissing",
        "Claim default/p-tmp was not created for pod default/p, whose ephemeral volume has that name; delete or rename "
        "it.",
    )


@pytest.mark.parametrize("created", [True, False])
def test_claims_of_a_job(created: bool) -> None:
    spec = claim("unused", mode="ReadWriteMany")["spec"]
    source: Document = {"volumeClaim": spec} if created else {"volumeClaimName": "corpus"}
    job: Document = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {
            "minAvailable": 2, "volumes": [{"mountPath": "/data", **source}],
            "tasks": [{"name": "w", "replicas": 2, "template": pod("unused", 1, run=3)}],
        },
    }  # fmt: skip
    del job["spec"]["tasks"][0]["template"]["metadata"]["name"]
    existing = [] if created else [claim("corpus", mode="ReadWriteMany")]
    drivers = [csi_node("a1"), csi_node("b1")]
    outcome = play(ZONES, drivers, storage_class(takes=4), existing, job)
    # Placed at 0 or 1, when the group is admitted and the pods exist; the volume takes 4 s.
    assert len(set(outcome.started.values())) == 1
    assert set(outcome.started) == {"j-w-0", "j-w-1"}
    assert len(set(outcome.nodes.values())) == 1, "both are in the zone of the one volume"


def test_a_claim_without_a_class_gets_the_built_in_one() -> None:
    assert play(ZONES, claim("data", of=None), with_claims(pod("p"), "data")).started == {"p": 1}


def test_a_class_can_be_slowed_down_later() -> None:
    slower = patch("StorageClass", "fast", {"metadata": {"annotations": {"sim.stromboli.io/provision": "6s"}}}, at=1)
    outcome = play(ZONES, storage_class(), claim("data"), with_claims(pod("p", at=2), "data"), slower)
    assert outcome.started == {"p": 8}
