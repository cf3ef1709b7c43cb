"""Workloads of all kinds in random stories: pods are evicted, nodes come and go, templates and sizes change.

Whatever happens, a controller that restarts in the middle does what the old one would have done, and when it is quiet
again and there is room, every workload has its pods.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.test_workloads import job, node, patch, restarts, simulate, template, workload

Document = dict[str, Any]
KINDS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
QUIET = 60  # seconds; nothing happens after that
END = "400s"

things = st.lists(
    st.one_of(
        st.tuples(st.just("image"), st.sampled_from(KINDS), st.integers(1, QUIET), st.integers(2, 4)),
        st.tuples(st.just("size"), st.sampled_from(KINDS), st.integers(1, QUIET), st.integers(0, 5)),
        st.tuples(st.just("urgent"), st.just(""), st.integers(1, QUIET - 20), st.integers(1, 8)),
        st.tuples(st.just("node"), st.just(""), st.integers(1, QUIET - 20), st.integers(1, 15)),
        st.tuples(st.just("taint"), st.just(""), st.integers(1, QUIET), st.integers(0, 1)),
    ),
    max_size=8,
)


def documents(story: list[tuple[str, str, int, int]], grace: int, parallel: bool) -> list[Document]:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 100))
    ]
    found = [*classes, node("n1", 20), node("n2", 20)]
    for kind in KINDS:
        made = workload(kind, kind.lower(), **({} if kind == "DaemonSet" else {"replicas": 3}))
        if kind == "StatefulSet" and parallel:
            made["spec"]["podManagementPolicy"] = "Parallel"
        made["spec"]["template"] = low(kind, "x:1", grace)
        found.append(made)
    batch = job("batch", completions=6, parallelism=2, completionMode="Indexed", backoffLimit=100)
    batch["spec"]["template"] = {**low("batch", "x:1", grace), "metadata": batch["spec"]["template"]["metadata"]}
    batch["spec"]["template"]["metadata"]["annotations"] = {"sim.stromboli.io/run": "12s"}
    batch["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    found.append(batch)
    for number, (what, kind, at, value) in enumerate(story):
        match what:
            case "image":
                change = {"spec": {"template": low(kind, f"x:{value}", grace)}}
                found.append(patch(f"{at}s", kind, change, kind.lower()))
            case "size" if kind != "DaemonSet":
                found.append(patch(f"{at}s", kind, {"spec": {"replicas": value}}, kind.lower()))
            case "urgent":
                found.append(urgent(f"urgent-{number}", at, value))
            case "node":
                come = node(f"extra-{number}", 4)
                come["metadata"]["annotations"] = {
                    "sim.stromboli.io/at": f"{at}s", "sim.stromboli.io/until": f"{at + value}s"
                }  # fmt: skip
                found.append(come)
            case "taint":
                taints = [{"key": "closed", "effect": "NoExecute"}] if value else []
                found.append(patch(f"{at}s", "Node", {"spec": {"taints": taints}}, "n2"))
    found.append(patch(f"{QUIET + 1}s", "Node", {"spec": {"taints": []}}, "n2"))
    return found


def low(app: str, image: str, grace: int) -> Document:
    made = template(app.lower(), image=image, timing={"grace": f"{grace}s"})
    made["spec"]["priorityClassName"] = "low"
    return made


def urgent(name: str, at: int, cpu: int) -> Document:
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "annotations": {"sim.stromboli.io/at": f"{at}s", "sim.stromboli.io/run": "10s"}
        },
        "spec": {
            "priorityClassName": "high", "containers": [{"name": "c", "resources": {"requests": {"cpu": 12 + cpu}}}]
        },
    }  # fmt: skip


def wanted(story: list[tuple[str, str, int, int]], kind: str) -> int:
    """The size that somebody gave it last. Of two at one time the one whose text comes later counts."""
    changes = [(at, json.dumps({"spec": {"replicas": value}}), value) for what, one, at, value in story
               if (what, one) == ("size", kind)]  # fmt: skip
    return max(changes)[2] if changes else 3


@settings(max_examples=12, deadline=None)
@given(things, st.sampled_from([0, 3]), st.booleans())
def test_every_workload_has_its_pods_in_the_end(
    story: list[tuple[str, str, int, int]], grace: int, parallel: bool
) -> None:
    found = documents(story, grace, parallel)
    with tempfile.TemporaryDirectory() as folder:
        report = simulate(Path(folder), *found, until=END)
        again = simulate(Path(folder), *found, *restarts(QUIET + 20), until=END)
    assert again["events"] == report["events"]
    running: dict[str, int] = {}
    for name, one in report["pods"].items():
        if one["phase"] == "Running":
            app = name.partition("/")[2].partition("-")[0]
            running[app] = running.get(app, 0) + 1
    sizes = {kind.lower(): wanted(story, kind) for kind in KINDS if kind != "DaemonSet"}
    assert running == {app: size for app, size in sizes.items() if size} | {"daemonset": 2}
    succeeded = [name for name, one in report["pods"].items() if "batch-" in name and one["phase"] == "Succeeded"]
    assert len(succeeded) == 6
