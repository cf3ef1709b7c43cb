"""Clusters whose pods bring claims, written as users write them and run through the command line.

Builders of nodes, pods and gangs come from the scenes about starvation: everything is in namespace `default`, requests
CPUs, and time is in seconds. `play` runs a scene twice, the second time with a restart of everything in every second,
and fails if that changes anything.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from starvation.scenes import Document, Outcome, gang, group, node, patch, pod, priority_class, restart
from stromboli.console.main import cli

__all__ = [
    "Document", "capacity", "claim", "csi_driver", "csi_node", "ephemeral", "gang", "group", "node", "patch", "play",
    "pod", "priority_class", "restart", "run", "storage_class", "volume", "with_claims", "zone",
]  # fmt: skip

ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"


def zone(name: str) -> dict[str, str]:
    return {ZONE: name}


def claim(
    name: str, size: str = "10Gi", *, of: str | None = "fast", mode: str = "ReadWriteOnce", volume: str = "",
    selector: Document | None = None, **times: Any,
) -> Document:  # fmt: skip
    """`of`: its class; `volume`: that it is bound to."""
    spec: Document = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    if of is not None:
        spec["storageClassName"] = of
    if volume:
        spec["volumeName"] = volume
    if selector:
        spec["selector"] = selector
    notes = {f"sim.stromboli.io/{key}": f"{value}s" for key, value in times.items()}
    meta = {"name": name, "annotations": notes}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def volume(
    name: str, size: str = "10Gi", *, of: str = "fast", mode: str = "ReadWriteOnce", zones: Iterable[str] = (),
    nodes: Iterable[str] = (), labels: Mapping[str, str] | None = None, driver: str = "", **times: Any,
) -> Document:  # fmt: skip
    """`zones` and `nodes`: its node affinity; `labels`: among them may be a zone."""
    spec: Document = {"accessModes": [mode], "capacity": {"storage": size}, "storageClassName": of}
    terms = []
    if zones:
        terms.append({"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(zones)}]})
    if nodes:
        terms.append({"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(nodes)}]})
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": name}
    notes = {f"sim.stromboli.io/{key}": f"{value}s" for key, value in times.items()}
    meta = {"name": name, "labels": dict(labels or {}), "annotations": notes}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}


def storage_class(
    name: str = "fast", *, takes: float | None = None, fails: str = "", immediate: bool = False,
    provisioner: str = DRIVER, zones: Iterable[str] = (),
) -> Document:  # fmt: skip
    """`zones`: where it makes volumes."""
    notes = {} if takes is None else {"sim.stromboli.io/provision": f"{takes}s"}
    if fails:
        notes["sim.stromboli.io/provision-fails"] = fails
    document: Document = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name, "annotations": notes},
        "provisioner": provisioner, "volumeBindingMode": "Immediate" if immediate else "WaitForFirstConsumer",
    }  # fmt: skip
    if zones:
        document["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return document


def csi_node(name: str, limit: int | None = None, *, keys: Iterable[str] = (ZONE,)) -> Document:
    driver: Document = {"name": DRIVER, "nodeID": name, "topologyKeys": list(keys)}
    if limit is not None:
        driver["allocatable"] = {"count": limit}
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}
    }  # fmt: skip


def csi_driver(*, counts_capacity: bool) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"storageCapacity": counts_capacity},
    }  # fmt: skip


def capacity(name: str, size: str, in_zone: str, *, of: str = "fast") -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": name},
        "storageClassName": of, "capacity": size, "nodeTopology": {"matchLabels": zone(in_zone)},
    }  # fmt: skip


def with_claims(document: Document, *claims: str) -> Document:
    """The pod with these claims."""
    volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": name}} for n, name in enumerate(claims)]
    return {**document, "spec": {**document["spec"], "volumes": volumes}}


def ephemeral(document: Document, size: str = "10Gi", *, of: str = "fast") -> Document:
    """The pod with a generic ephemeral volume `tmp`."""
    spec = claim("unused", size, of=of)["spec"]
    volumes = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    return {**document, "spec": {**document["spec"], "volumes": volumes}}


def configuration(predicates: Document, reserve: Document | None, backfill: Document | None) -> str:
    actions = ["enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill"]
    arguments = {"reserve": reserve or {}, "backfill": backfill or {}}
    second: list[Document] = [
        {"name": "overcommit"},
        {"name": "drf", "enablePreemptable": False},
        {"name": "predicates", "arguments": predicates},
        {"name": "proportion"},
        {"name": "nodeorder"},
    ]
    document = {
        "actions": [{"name": name, "arguments": arguments.get(name, {})} for name in actions],
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance", "pdb")]},
            {"plugins": second},
        ],
    }
    return json.dumps(document)


@dataclass(frozen=True)
class VolumeOutcome(Outcome):
    def gave_back(self) -> list[tuple[float, str]]:
        """(when, who) gave up a place because volumes did not come."""
        return self.warnings("VolumesNotReady")


def run(
    *parts: Document | Iterable[Document],
    until: float | None = 10,
    predicates: Document | None = None,
    reserve: Document | None = None,
    backfill: Document | None = None,
) -> VolumeOutcome:
    documents = [document for part in parts for document in ([part] if isinstance(part, dict) else part)]
    with tempfile.TemporaryDirectory() as folder:
        scenario, config = Path(folder) / "scenario.yaml", Path(folder) / "scheduler.yaml"
        scenario.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
        config.write_text(configuration(predicates or {}, reserve, backfill), encoding="utf-8")
        arguments = ["simulate", str(scenario), "--config", str(config), "--output", "json"]
        if until is not None:
            arguments += ["--until", f"{until}s"]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return VolumeOutcome(result.stdout)


def play(*parts: Document | Iterable[Document], until: float = 10, **options: Any) -> VolumeOutcome:
    """The outcome, which is the same with restarts."""
    outcome = run(*parts, until=until, **options)
    restarted = run(*parts, [restart(second) for second in range(int(until) + 1)], until=until, **options)
    assert restarted.text == outcome.text, "a restart of everything in every second changes the outcome"
    return outcome
