"""A tenant says of its own pods that they use the Reservation of another: nobody believes it.

The Reservation is for pods with the label app=r in namespace `default`. The tenant is the namespace `evil`, which may
write whatever it likes on its own pods, at any time.
"""

from __future__ import annotations

import pytest

from reservations.reservation_scenes import Document, node, owned, play, pod, reservation
from starvation.scenes import patch
from stromboli.simulation.store import Store

MARK = "scheduling.stromboli.io/reservation"
USES = f"r/{Store().uid_of('Reservation', 'r')}"  # UIDs are no secrets: the tenant has read it somewhere


def evil(document: Document) -> Document:
    document["metadata"]["namespace"] = "evil"
    return document


def says(name: str, at: float, **metadata: Document) -> Document:
    document = patch("Pod", name, {"metadata": metadata}, at=at)
    document["target"]["namespace"] = "evil"
    return document


def test_it_frees_no_room_for_the_next_pod_of_the_tenant() -> None:
    """4 CPUs, of which 3 are held, and 1 is the tenant's. Were it believed to be an owner, only 2 would be held, and
    the tenant's next pod would get the CPU that the owner then waits for."""
    first, second = evil(pod("first", 1, at=1)), evil(pod("second", 1, at=4))
    forged = says("first", 3, annotations={MARK: USES})
    outcome = play(node("n1", 4), reservation("r", 3), first, forged, second, owned(pod("mine", 3, at=6)), until=9)
    assert outcome.reservation()["owners"] == ["default/mine"]
    assert outcome.report["pods"]["evil/second"]["phase"] == "Pending"
    assert outcome.pod("mine")["bound"] == 6


def test_it_does_not_end_a_reservation_that_is_used_once() -> None:
    forged = says("first", 3, annotations={MARK: USES})
    tiny = evil(pod("first", 0.1, at=1))
    outcome = play(
        node("n1", 4), reservation("r", 3, allocateOnce=True), tiny, forged, owned(pod("mine", 3, at=6)), until=9
    )
    assert outcome.phases() == [(0, "Pending"), (0, "Available"), (6, "Succeeded")]
    assert outcome.reservation()["owners"] == ["default/mine"]


@pytest.mark.parametrize("when", [0, 3])
def test_copied_labels_and_owners_of_another_namespace_are_not_believed(when: float) -> None:
    """The owner names a ReplicaSet without its namespace: that of the template is meant."""
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set-uid", "controller": True}
    held = reservation("r", 3, owners=[{"controller": {"kind": "ReplicaSet", "name": "web"}}])
    first = evil(pod("first", 2, at=1))
    forged = says("first", when, ownerReferences=[controller]) if when else None
    if not when:
        first["metadata"]["ownerReferences"] = [controller]
    outcome = play(node("n1", 4), held, first, *([forged] if forged else []), until=6)
    assert outcome.reservation()["owners"] == []
    assert outcome.report["pods"]["evil/first"]["phase"] == "Pending"


@pytest.mark.parametrize(
    "change", [{"labels": {"app": "other"}}, {"annotations": {MARK: ""}}, {"annotations": {MARK: "x/y"}}]
)
def test_what_an_owner_changes_later_changes_nothing(change: Document) -> None:
    """It was tested when it was placed. If it could be forgotten, the Reservation would hold 3 beside it."""
    mine = owned(pod("mine", 2, at=1))
    later = patch("Pod", "mine", {"metadata": change}, at=3)
    outcome = play(node("n1", 5), reservation("r", 3), mine, later, pod("other", 2, at=4), until=6)
    assert outcome.reservation()["owners"] == ["default/mine"]
    assert outcome.reservation()["allocated"]["cpu"] == "2"
    assert outcome.pod("other")["bound"] == 4
