"""Storage classes of all kinds, volumes that exist, attach limits, and claims of pods."""

from __future__ import annotations

from all_features.generator.documents import DRIVER, ZONE, Document, metadata, times
from all_features.generator.draft import Draft

CLASSES = ("quick", "slow", "now", "local")


def add_storage(draft: Draft) -> None:
    dice = draft.dice
    zones = sorted({one["metadata"]["labels"][ZONE] for one in draft.nodes.values()})
    fails = dice.choice(("", "", "1", sorted(draft.nodes)[0], "always"))
    draft.add(
        _class("quick", zones=dice.sample(zones, dice.randint(1, len(zones)))),
        _class("slow", takes=dice.randint(1, 6), fails=fails),
        _class("now", immediate=True, takes=dice.randint(0, 3)),
        _class("local", provisioner="kubernetes.io/no-provisioner"),
    )
    for name in draft.nodes:
        if draft.chance(0.7):
            draft.add(_csi_node(name, dice.choice((None, 1, 2, 4))))
    for number in range(dice.randint(1, 3)):
        draft.add(_volume(f"disk-{number}", dice.choice((5, 10, 20)), dice.choice(sorted(draft.nodes))))


def claims_of(draft: Draft, namespace: str, pod: str, at: float | None) -> list[str]:
    """Claims of a pod, which are created with it."""
    found = []
    for _ in range(draft.dice.choice((1, 1, 1, 2))):
        name, kind = f"{pod}-c{len(found)}", draft.dice.choices(CLASSES, (4, 3, 2, 1))[0]
        mode = "ReadWriteOncePod" if draft.chance(0.1) else "ReadWriteOnce"
        draft.add(_claim(namespace, name, kind, mode, at))
        found.append(name)
        draft.claims += 1
    return found


def shared_claim(draft: Draft, namespace: str, name: str, at: float | None) -> str:
    draft.add(_claim(namespace, name, draft.dice.choice(("quick", "slow")), "ReadWriteMany", at))
    draft.claims += 1
    return name


def _claim(namespace: str, name: str, kind: str, mode: str, at: float | None) -> Document:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": kind}
    meta = metadata(name, namespace, None, **times(at=at))
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def _class(
    name: str, *, takes: float | None = None, fails: str = "", immediate: bool = False, provisioner: str = DRIVER,
    zones: list[str] | None = None,
) -> Document:  # fmt: skip
    notes = {} if takes is None else {"sim.stromboli.io/provision": f"{takes}s"}
    if fails:
        notes["sim.stromboli.io/provision-fails"] = fails
    document: Document = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata(name, "", None, **notes),
        "provisioner": provisioner, "volumeBindingMode": "Immediate" if immediate else "WaitForFirstConsumer",
    }  # fmt: skip
    if zones:
        document["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    return document


def _csi_node(name: str, limit: int | None) -> Document:
    driver: Document = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
    if limit is not None:
        driver["allocatable"] = {"count": limit}
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata(name), "spec": {"drivers": [driver]}
    }  # fmt: skip


def _volume(name: str, size: int, on: str) -> Document:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    spec = {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": f"{size}Gi"}, "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata(name), "spec": spec}
