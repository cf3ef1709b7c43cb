"""Owner references are text that anybody may write: they reach no other namespace, and cycles of them end."""

from __future__ import annotations

import pytest

from reservations.reservation_scenes import Document, node, play, pod, run

GROUPS = "scheduling.volcano.sh/v1beta1"
SETS = "apps/v1"


def owned_by(document: Document, kind: str, name: str, *, api: str = GROUPS, uid: str = "") -> Document:
    reference = {"apiVersion": api, "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}
    document["metadata"].setdefault("ownerReferences", []).append(reference)
    return document


def group(name: str, **times: str) -> Document:
    notes = {f"sim.stromboli.io/{what}": when for what, when in times.items()}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    return {"apiVersion": GROUPS, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 1}}


def replica_set(name: str, replicas: int, namespace: str) -> Document:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}],
        },
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": SETS, "kind": "ReplicaSet", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.mark.parametrize("deleted", ["a", "b", "c"])
def test_a_cycle_of_owners_ends(deleted: str) -> None:
    """a is owned by b, b by c, c by a; a pod is owned by itself. One of them is deleted."""
    around = {"a": "b", "b": "c", "c": "a"}
    groups = [
        owned_by(group(name, **({"until": "3s"} if name == deleted else {})), "PodGroup", owner)
        for name, owner in around.items()
    ]
    selfish = owned_by(pod("p", 1, at=1), "Pod", "p", api="v1")
    outcome = play(node("n1", 4), groups, selfish, pod("other", 1, at=2), until=6)
    assert outcome.pod("other")["bound"] == 2
    assert outcome.pod("p")["phase"] == "Running"


def test_a_pod_is_not_of_a_set_in_another_namespace() -> None:
    """The set has 2 replicas. Were the forged pod counted as one of them, the set would have one of its own less, and
    to scale it down would delete the forged pod first."""
    forged = owned_by(pod("forged", 1, at=0), "ReplicaSet", "web", api=SETS)
    forged["metadata"]["namespace"] = "evil"
    forged["metadata"]["labels"] = {"app": "web"}
    outcome = run(node("n1", 4), replica_set("web", 2, "default"), forged, until=4)
    of_set = [name for name, said in outcome.report["pods"].items() if name.startswith("default/web-")]
    assert len(of_set) == 2
    assert outcome.report["pods"]["evil/forged"]["phase"] == "Running"
