"""Nobody is evicted, and no node kept, for a pod that cannot have its volumes. If they have to be made, they are made
before anybody leaves.

Two nodes of 3 CPUs in zones a and b, both full. What waits comes at 2 and has the claims d0 and d1.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders import established, group
from builders import node as node_object
from builders import pod as pod_object
from builders import priority_class as class_object
from builders import queue as queue_object
from starvation.scenes import queue
from stromboli.cluster import Cluster
from stromboli.cluster.events import Applied, BindFailed
from stromboli.scheduling.decisions import Evict, SelectNode
from volumes.test_held_pods import obj
from volumes.test_held_pods import run as run_cycle
from volumes.volume_scenes import (
    Document,
    VolumeOutcome,
    capacity,
    claim,
    csi_driver,
    gang,
    node,
    play,
    pod,
    priority_class,
    run,
    storage_class,
    volume,
    with_claims,
    zone,
)

NODES = [node("a1", labels=zone("a")), node("b1", labels=zone("b"))]
HIGH = priority_class("high", 10)
NONE_MADE = storage_class(provisioner="kubernetes.io/no-provisioner")
RESERVE: Document = {"starvingJobTimeThreshold": "3s", "reservedNodePercent": 100}


def claims(**options: str) -> list[Document]:
    return [claim("d0", **options), claim("d1", **options)]  # type: ignore[arg-type]


BOUND = [claim(f"d{n}", of="", volume=f"v{n}") for n in range(2)]
UNSATISFIABLE: dict[str, list[Document]] = {
    "no claim": [],
    "one claim of two": [storage_class(), claim("d0")],
    "no class": claims(of="none"),
    "no provisioner": [NONE_MADE, *claims()],
    "volumes too small": [NONE_MADE, volume("v0", "5Gi"), volume("v1", "5Gi"), *claims()],
    "volumes that no node reaches": [NONE_MADE, volume("v0", zones=["c"]), volume("v1", zones=["c"]), *claims()],
    "one volume for two claims": [NONE_MADE, volume("v0"), *claims()],
    "bound where no node is": [*(volume(f"v{n}", of="", zones=["c"]) for n in range(2)), *BOUND],
    "lost": [*(volume(f"v{n}", of="", until=1) for n in range(2)), *BOUND],
    "deleted": [storage_class(), claim("d0", until=1), claim("d1", until=1)],
    "not bound by others": [storage_class(immediate=True, fails="always"), *claims()],
    "too little capacity": [csi_driver(counts_capacity=True), storage_class(), capacity("c", "1Gi", "a"), *claims()],
    "made where no node is": [storage_class(zones=["c"]), *claims()],
    "a provisioner that fails": [storage_class(fails="always"), *claims()],
    "a provisioner that fails late": [storage_class(takes=3, fails="always"), *claims()],
    "a provisioner that never answers": [storage_class(takes=1000), *claims()],
}  # fmt: skip


def preemptor() -> list[Document]:
    low = [pod(f"low{n}", 3, on=f"{'ab'[n]}1") for n in range(2)]
    return [HIGH, *low, with_claims(pod("p", 3, at=2, priority="high"), "d0", "d1")]


def preempting_gang() -> list[Document]:
    head, *pods = gang("g", 3, 3, at=2, priority="high")
    low = [pod(f"low{n}", 3, on=f"{'ab'[n]}1") for n in range(2)]
    return [HIGH, *low, head, *(with_claims(one, f"d{n}") for n, one in enumerate(pods))]


def claimant() -> list[Document]:
    lent = [pod(f"x{n}", 3, on=f"{'ab'[n]}1", queue="x") for n in range(2)]
    return [queue("x"), queue("y"), *lent, with_claims(pod("p", 3, at=2, queue="y"), "d0", "d1")]


def claiming_gang() -> list[Document]:
    head, *pods = gang("g", 1, 1, at=2, queue="y")
    lent = [pod(f"x{n}", 1, on=f"{'ab'[n % 2]}1", queue="x") for n in range(6)]
    return [queue("x"), queue("y"), *lent, head, *(with_claims(one, f"d{n}") for n, one in enumerate(pods))]


EVICTORS: list[Callable[[], list[Document]]] = [preemptor, preempting_gang, claimant, claiming_gang]


@pytest.mark.parametrize("evictor", EVICTORS, ids=lambda evictor: evictor.__name__)
@pytest.mark.parametrize("problem", UNSATISFIABLE)
def test_nobody_is_evicted_in_vain(problem: str, evictor: Callable[[], list[Document]]) -> None:
    outcome = run(NODES, UNSATISFIABLE[problem], evictor(), until=40, reserve={"reservedNodePercent": 0})
    assert outcome.happened("Evicted") == []
    assert outcome.started == {}


def starving() -> list[Document]:
    small = [pod(f"s{n}", 1, on=f"{'ab'[n % 2]}1") for n in range(4)]
    return [*small, with_claims(pod("p", 3, at=2), "d0", "d1")]


def starving_gang() -> list[Document]:
    head, *pods = gang("g", 3, 3, at=2)
    small = [pod(f"s{n}", 1, on=f"{'ab'[n % 2]}1") for n in range(4)]
    return [*small, head, *(with_claims(one, f"d{n}") for n, one in enumerate(pods))]


# Whether a provisioner works is not known before the first attempt, so nodes are set aside for that.
KNOWN = [problem for problem in UNSATISFIABLE if not problem.startswith("a provisioner")]


@pytest.mark.parametrize("waits", [starving, starving_gang], ids=["pod", "gang"])
@pytest.mark.parametrize("problem", KNOWN)
def test_no_node_is_set_aside_in_vain(problem: str, waits: Callable[[], list[Document]]) -> None:
    outcome = run(NODES, UNSATISFIABLE[problem], waits(), until=40, reserve=RESERVE)
    assert outcome.happened("Reserved") == []


def test_no_node_is_set_aside_after_its_volumes_could_not_be_made() -> None:
    # A place is free at 10, when the volume is tried and fails; small pods take it. For 5 s (the timeout) no node is
    # set aside for p, and twice as long after the next failure.
    small = [pod("s0", 3, on="a1"), pod("s1", 3, on="b1", run=10), *(pod(f"t{n}", 1, at=12) for n in range(3))]
    fails = [storage_class(fails="always"), claim("d0")]
    waits = with_claims(pod("p", 3, at=2), "d0")
    flags: Document = {"predicate.VolumeBindingTimeout": "5s"}
    outcome = run(NODES, fails, small, waits, until=16, reserve=RESERVE, predicates=flags)
    reserved = [at for at, who in outcome.happened("Reserved") if who == "p"]
    assert reserved == [6], "before it was known"
    later = run(NODES, fails, small, waits, until=40, reserve=RESERVE, predicates=flags)
    assert [at for at, who in later.happened("Reserved") if who == "p"][1:2] == [17]


@pytest.mark.parametrize("fails", [False, True])
def test_lent_room_is_not_taken_back_before_the_volumes_are_there(fails: bool) -> None:
    """The gang needs both nodes. b1 is busy until 10, so small pods borrow a1, and would leave at 10."""
    head, *pods = gang("g", 3, 3)
    lent = [HIGH, pod("busy", 3, on="b1", run=10), *(pod(f"s{n}", 1, at=1, backfill="") for n in range(3))]
    own = [storage_class(takes=4, fails="always" if fails else ""), *claims()]
    members = [with_claims(one, f"d{n}") for n, one in enumerate(pods)]
    outcome = run(NODES, own, lent, head, members, until=30, backfill={"backfillNonBestEffort": True})
    if fails:
        assert outcome.happened("Evicted") == []
    else:
        assert {at for at, _ in outcome.happened("Evicted")} == {14}
        assert outcome.started["g-0"] == outcome.started["g-1"] == 15


# -- volumes first ----------------------------------------------------------------------------------------------------


def evicted(outcome: VolumeOutcome) -> list[tuple[float, str]]:
    return outcome.happened("Evicted")


@pytest.mark.parametrize("evictor", EVICTORS, ids=lambda evictor: evictor.__name__)
def test_pods_leave_when_the_volumes_are_there(evictor: Callable[[], list[Document]]) -> None:
    # Both come at 2; volumes take 5 s; who is evicted at 7 is gone at 8.
    outcome = play(NODES, storage_class(takes=5), claims(), evictor(), until=12)
    assert {at for at, _ in evicted(outcome)} == {7}
    assert set(outcome.started.values()) == {8}
    early = play(NODES, storage_class(takes=5), claims(), evictor(), until=4)
    reason, sentence = early.why("p" if "default/p" in early.report["pods"] else "g-0")
    assert reason == "WaitingForVolumes"
    assert sentence.startswith("Waiting for the volumes of default/d0, default/d1, made for ")


def test_existing_volumes_are_not_awaited() -> None:
    outcome = play(NODES, NONE_MADE, volume("v0"), volume("v1"), claims(), preemptor(), until=8)
    assert [at for at, _ in evicted(outcome)] == [2]


def test_where_the_first_volume_fails_nobody_leaves() -> None:
    """The provisioner works in zone b only."""
    outcome = run(NODES, storage_class(takes=1, fails="a1"), claims(), preemptor(), until=20)
    assert [who for _, who in evicted(outcome)] == ["low1"]
    assert outcome.nodes["p"] == "b1"


def test_a_provisioner_that_never_answers_is_given_up() -> None:
    """After 5 s (the argument) another node is tried; every attempt is a bit later than the one before."""
    flags: Document = {"predicate.VolumeBindingTimeout": "5s"}
    outcome = run(NODES, storage_class(takes=1000), claims(), preemptor(), until=9, predicates=flags)
    assert outcome.report["claims"]["default/d0"]["node"] == ""
    assert outcome.why("p")[0] == "PredicateVolumeBinding"
    later = run(NODES, storage_class(takes=1000), claims(), preemptor(), until=12, predicates=flags)
    assert later.report["claims"]["default/d0"]["node"] == "b1"


def test_room_that_becomes_free_meanwhile_is_taken() -> None:
    leaves = pod("low0", 3, on="a1", run=4)
    pods = [HIGH, leaves, pod("low1", 3, on="b1"), with_claims(pod("p", 3, at=2, priority="high"), "d0")]
    outcome = play(NODES, storage_class(takes=5), claim("d0"), pods, until=12)
    assert evicted(outcome) == []
    assert (outcome.nodes["p"], outcome.started) == ("a1", {"p": 7})


# -- what is written --------------------------------------------------------------------------------------------------


def full_node() -> Cluster:
    """p, of a high priority, waits for 4 CPUs of one node, which low uses."""
    waits = pod_object("p", cpu=4, group="gang")
    waits.spec.volumes.append({"name": "v", "persistentVolumeClaim": {"claimName": "d0"}})
    running = pod_object("low", cpu=4, group="low", node="n0")
    groups = [group("gang", queue="default", priority_class="high"), group("low", queue="default", phase="Running")]
    objects = [node_object("n0", cpu=4, memory="64Gi"), queue_object("default"), class_object("high", 10), *groups]
    found = Cluster()
    for position, one in enumerate([*objects, obj(storage_class()), obj(claim("d0")), running, waits]):
        found.apply(Applied(established(one, position)))
    return found


def written(cluster: Cluster, now: float) -> list[str]:
    decisions = run_cycle(cluster, now).decisions
    return [type(one).__name__ for one in decisions if isinstance(one, SelectNode | Evict)]


def test_a_node_is_selected_once_while_the_watch_is_late() -> None:
    cluster = full_node()
    assert [written(cluster, now) for now in (1.0, 2.0, 3.0)] == [["SelectNode"], [], []]


def test_a_node_that_could_not_be_written_is_selected_again() -> None:
    cluster = full_node()
    assert written(cluster, 1.0) == ["SelectNode"]
    cluster.apply(BindFailed(next(key for key in cluster.tasks if key.endswith("/p"))))
    assert written(cluster, 2.0) == ["SelectNode"]
