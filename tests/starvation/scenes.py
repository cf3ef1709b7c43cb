"""Small clusters in which somebody starves, told as users write them, and run through the command line.

Builders return documents of a scenario file. Everything is in namespace `default`, asks for CPUs unless a test says
otherwise, and goes by its bare name. A `Scene` is documents with a configuration, an `Outcome` what comes of them. Time
is in seconds, and cycles are one second apart.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stromboli.console.main import cli

Document = dict[str, Any]

GROUP = "scheduling.k8s.io/group-name"
ESTIMATE = "scheduling.stromboli.io/estimate"
BACKFILL = "scheduling.stromboli.io/backfill"


# -- documents ------------------------------------------------------------------------------------------------------


def node(name: str, cpu: float = 3, *, labels: dict[str, str] | None = None, **more: Any) -> Document:
    """`more`: other resources by name, and `at` and `until`."""
    times = {key: more.pop(key) for key in ("at", "until") if key in more}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}, "annotations": _times(times)},
        "status": {"allocatable": {"cpu": cpu, **more}},
    }  # fmt: skip


def pod(
    name: str, cpu: float = 1, *, group: str = "", on: str = "", priority: str = "", queue: str = "",
    selector: dict[str, str] | None = None, estimate: float | None = None, preemptable: bool = True, backfill: str = "",
    memory: str = "", **times: Any,
) -> Document:  # fmt: skip
    """`on`: it runs there already; `times`: at, until, run and grace."""
    notes = _times(times)
    if group:
        notes[GROUP] = group
    if queue:
        notes["scheduling.volcano.sh/queue-name"] = queue
    if estimate is not None:
        notes[ESTIMATE] = f"{estimate}s"
    if not preemptable:
        notes["volcano.sh/preemptable"] = "false"
    if backfill:
        notes[BACKFILL] = backfill
    requests: Document = ({"cpu": cpu} if cpu else {}) | ({"memory": memory} if memory else {})
    spec: Document = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "resources": {"requests": requests} if requests else {}}],
    }
    if on:
        spec["nodeName"] = on
    if priority:
        spec["priorityClassName"] = priority
    if selector:
        spec["nodeSelector"] = selector
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes}, "spec": spec}


def group(
    name: str, least: int, *, queue: str = "", priority: str = "", notes: dict[str, str] | None = None, **times: Any
) -> Document:
    spec: Document = {"minMember": least}
    if queue:
        spec["queue"] = queue
    if priority:
        spec["priorityClassName"] = priority
    meta = {"name": name, "annotations": {**_times(times), **(notes or {})}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def gang(
    name: str, *cpus: float, least: int | None = None, queue: str = "", priority: str = "",
    notes: dict[str, str] | None = None, **pod_options: Any,
) -> list[Document]:  # fmt: skip
    """A PodGroup and its pods `<name>-0` and so on, all of which start together unless `least` says how many must."""
    # A group that were deleted with its pods would take other questions with it.
    times = {key: value for key, value in pod_options.items() if key == "at"}
    head = group(
        name, len(cpus) if least is None else least, queue=queue, priority=priority, notes=notes, **times
    )  # fmt: skip
    members = [
        pod(f"{name}-{number}", cpu, group=name, queue=queue, priority=priority, **pod_options)
        for number, cpu in enumerate(cpus)
    ]
    return [head, *members]


def queue(name: str, weight: int = 1, **spec: Any) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
        "spec": {"weight": weight, **spec},
    }  # fmt: skip


def priority_class(name: str, value: int, **fields: Any) -> Document:
    meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**meta, "value": value, **fields}


def patch(kind: str, name: str, change: Document, *, at: float) -> Document:
    where = {"kind": kind, "name": name}
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Patch", "at": f"{at}s", "target": where, "patch": change}


def restart(at: float, component: str = "all") -> Document:
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Restart", "at": f"{at}s", "component": component}


def stream(name: str, *, every: float, run: float, start: float = 0, end: float, **options: Any) -> list[Document]:
    """Small pods without end (or until nobody looks any more). Long after they ran, somebody tidies up."""
    times = [start + number * every for number in range(int((end - start) / every) + 1)]
    return [
        pod(f"{name}-{number:04}", at=at, run=run, until=at + run + 30, **options) for number, at in enumerate(times)
    ]


def _times(times: dict[str, Any]) -> dict[str, str]:
    return {f"sim.stromboli.io/{name}": f"{value}s" for name, value in times.items()}


# -- running --------------------------------------------------------------------------------------------------------


def configuration(reserve: Document | None, backfill: Document | None, *, leave_out: Iterable[str] = ()) -> str:
    """The built-in one with these arguments; `reserve` None: without that action."""
    names = ["enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill"]
    left_out = {*leave_out, *([] if reserve is not None else ["reserve"])}
    arguments = {"reserve": reserve or {}, "backfill": backfill or {}}
    document = {
        "actions": [{"name": name, "arguments": arguments.get(name, {})} for name in names if name not in left_out],
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance", "pdb")]},
            {
                "plugins": [
                    {"name": "overcommit"},
                    {"name": "drf", "enablePreemptable": False},
                    *({"name": name} for name in ("predicates", "proportion", "nodeorder")),
                ]
            },
        ],
    }
    return json.dumps(document)  # JSON is YAML


@dataclass(frozen=True)
class Scene:
    documents: list[Document]
    reserve: Document | None = field(default_factory=dict)
    backfill: Document | None = None
    until: float = 10
    leave_out: tuple[str, ...] = ()

    def run(self, *more: Document) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            scenario, config = Path(folder) / "scenario.yaml", Path(folder) / "scheduler.yaml"
            text = "\n---\n".join(json.dumps(document) for document in [*self.documents, *more])
            scenario.write_text(text, encoding="utf-8")
            config.write_text(configuration(self.reserve, self.backfill, leave_out=self.leave_out), encoding="utf-8")
            arguments = ["simulate", str(scenario), "--config", str(config), "--until", f"{self.until}s"]
            result = CliRunner().invoke(cli, [*arguments, "--output", "json"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return Outcome(result.stdout)

    def but(self, **changes: Any) -> Scene:
        return replace(self, **changes)

    def at(self, time: float) -> Outcome:
        """As it stands at that time."""
        return self.but(until=time).run()


def scene(
    *parts: Document | Iterable[Document], reserve: Document | None = None, backfill: Document | None = None,
    until: float = 10, leave_out: tuple[str, ...] = (),
) -> Scene:  # fmt: skip
    documents = [document for part in parts for document in ([part] if isinstance(part, dict) else part)]
    return Scene(documents, reserve, backfill, until, leave_out)


@dataclass(frozen=True)
class Outcome:
    text: str

    @cached_property
    def report(self) -> Document:
        told: Document = json.loads(self.text)
        return told

    @property
    def started(self) -> dict[str, float]:
        """When each pod was bound; not those that were put on a node by hand."""
        return {short(e["object"]): e["t"] for e in self.report["events"] if e["type"] == "Bound"}

    @property
    def nodes(self) -> dict[str, str]:
        return {short(name): pod["node"] for name, pod in self.report["pods"].items() if pod["node"]}

    def happened(self, kind: str) -> list[tuple[float, str]]:
        """(when, to whom) of the events of a type."""
        return [(event["t"], short(event["object"])) for event in self.report["events"] if event["type"] == kind]

    def messages(self, kind: str) -> list[str]:
        return [event["message"] for event in self.report["events"] if event["type"] == kind]

    def warnings(self, reason: str) -> list[tuple[float, str]]:
        return [
            (event["t"], short(event["object"]))
            for event in self.report["events"]
            if event["type"] == "Warning" and event["reason"] == reason
        ]

    @property
    def running(self) -> set[str]:
        return {short(name) for name, pod in self.report["pods"].items() if pod["phase"] == "Running"}

    @property
    def pending(self) -> set[str]:
        return {short(name) for name, pod in self.report["pods"].items() if pod["phase"] == "Pending"}

    @property
    def reserved(self) -> dict[str, list[str]]:
        """For whom nodes are set aside at the end."""
        told = self.report["nodes"].items()
        return {name: [short(job) for job in node["reservedFor"]] for name, node in told if node["reservedFor"]}

    def pod(self, name: str) -> Document:
        told: Document = self.report["pods"][f"default/{name}"]
        return told

    def why(self, name: str) -> tuple[str, str]:
        return self.pod(name)["reason"], self.pod(name)["message"]


def short(name: str) -> str:
    """Without the namespace, and without what is put before the name of a group made for one pod."""
    bare = name.removeprefix("default/")
    made_for = _MADE_FOR_A_POD.fullmatch(bare)
    return made_for[1] if made_for else bare


_MADE_FOR_A_POD = re.compile(r"podgroup-(.+)-\d+-[0-9a-f]{12}")
