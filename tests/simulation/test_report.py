"""What a run prints: its shape, and that equal input gives equal bytes."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.scenario_runner import SCENARIOS, FirstFit, engine_for, run, run_text
from stromboli.console.main import run as command
from stromboli.simulation.report import build_report, encode_report

FILES = ("one-node", "crowd", "in-turn", "replicas")
DOCUMENTS = [
    document for name in FILES for document in (SCENARIOS / f"{name}.yaml").read_text(encoding="utf-8").split("---\n")
]


def printed(*paths: Path) -> bytes:
    return encode_report(build_report(engine_for(*paths, until=30)))


def test_keys_stand_in_the_order_of_the_contract() -> None:
    report = run("one-node", "crowd", until=10)
    assert list(report) == [
        "end", "events", "pods", "podGroups", "jobs", "queues", "namespaces", "nodes", "reservations",
    ]  # fmt: skip
    assert list(report["events"][0]) == ["t", "type", "object", "node", "reason", "message"]
    assert list(report["pods"]["ns1/g-0"]) == [
        "phase", "node", "queue", "podGroup", "backfill", "submitted", "bound", "finished", "reason", "message",
    ]  # fmt: skip
    assert list(report["podGroups"]["ns1/pg1"]) == [
        "phase", "running", "pending", "conditions", "migrationState",
    ]  # fmt: skip
    assert list(report["queues"]["q1"]) == ["state", "allocated", "deserved", "reservation"]
    assert list(report["namespaces"]["q1/ns1"]) == ["allocated", "weight"]
    assert list(report["nodes"]["n1"]) == ["allocatable", "used", "held", "reservedFor", "lockedBy"]
    for section in ("pods", "podGroups", "queues", "namespaces", "nodes"):
        assert list(report[section]) == sorted(report[section])


def test_amounts_are_what_pods_hold_at_the_end() -> None:
    # g-0 (1500m, 1536Mi) ended at 4; g-1 (1500m, one GPU) runs on; big (64 CPUs) never fits.
    report = run("one-node", "crowd", until=10)
    assert report["queues"]["q1"]["allocated"] == {"cpu": "1500m", "nvidia.com/gpu": "1"}
    assert report["namespaces"] == {
        "default/ns2": {"allocated": {}, "weight": 1},
        "q1/ns1": {"allocated": {"cpu": "1500m", "nvidia.com/gpu": "1"}, "weight": 3},
    }
    assert report["nodes"]["n2"] == {
        "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2", "pods": "10"},
        "used": {"cpu": "1500m", "memory": "0", "nvidia.com/gpu": "1"},
        "held": {"cpu": "0", "memory": "0", "nvidia.com/gpu": "0"},
        "reservedFor": [],
        "lockedBy": None,
    }
    assert (report["podGroups"]["ns1/pg1"]["running"], report["podGroups"]["ns1/pg1"]["pending"]) == (1, 0)
    assert report["pods"]["ns2/big"]["reason"] == "InsufficientNode"


@given(st.permutations(DOCUMENTS), st.integers(0, len(DOCUMENTS)))
def test_the_order_of_documents_and_files_decides_nothing(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], cut: int
) -> None:
    expected = printed(*(SCENARIOS / f"{name}.yaml" for name in FILES))
    directory = tmp_path_factory.mktemp("shuffled")
    parts = [directory / "second.yaml", directory / "first.yaml"]
    parts[0].write_text("---\n".join(documents[:cut]), encoding="utf-8")
    parts[1].write_text("---\n".join(documents[cut:]), encoding="utf-8")
    assert printed(*parts) == expected


def on_the_command_line(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> bytes:
    paths = [str(SCENARIOS / f"{name}.yaml") for name in FILES]
    assert command(["simulate", *paths, *arguments]) == 0
    captured = capfdbinary.readouterr()
    assert captured.err == b""
    return captured.out


def test_the_real_scheduler_is_as_indifferent_to_order(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    expected = on_the_command_line(capfdbinary, "--output", "json", "--until", "30s")
    for seed in range(3):
        documents = DOCUMENTS.copy()
        random.Random(seed).shuffle(documents)
        file = tmp_path / f"{seed}.yaml"
        file.write_text("---\n".join(documents), encoding="utf-8")
        assert command(["simulate", str(file), "--output", "json", "--until", "30s"]) == 0
        assert capfdbinary.readouterr().out == expected


def test_events_alone_are_the_events_of_the_report(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    report: dict[str, Any] = json.loads(on_the_command_line(capfdbinary, "--output", "json"))
    lines = on_the_command_line(capfdbinary, "--output", "events").decode().splitlines()
    assert [json.loads(line) for line in lines] == report["events"]
    assert lines[0].startswith('{"t":0.0,"type":"Submitted",')


def test_events_are_printed_when_they_happen(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each cycle looks at how much was printed before it: what was submitted at its time must be there already.
    seen: list[int] = []

    class Watching(FirstFit):
        def run(self, cluster: Any, now: float) -> Any:
            seen.append(capfdbinary.readouterr().out.count(b"\n"))
            return super().run(cluster, now)

    monkeypatch.setattr("stromboli.scheduling.cycle.Scheduler", lambda *_: Watching())
    paths = [str(SCENARIOS / f"{name}.yaml") for name in ("one-node", "in-turn")]
    assert command(["simulate", *paths, "--output", "events"]) == 0
    # 0: a and b submitted; 1: a bound; 10: a finished; 11: b bound; 12: c submitted; …
    assert seen[:13] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]


def test_the_table_fits_a_hundred_columns_and_tells_who_waits(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    told = on_the_command_line(capfdbinary).decode()
    assert max(map(len, told.splitlines())) <= 100
    assert "\x1b" not in told
    for part in ("Jobs", "ns1/pg1", "Queues", "Nodes", "n1", "Waiting", "ns2/big"):
        assert part in told


def test_a_job_outside_is_told_once_why_and_has_no_pods(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    # 4 CPUs promise 4.8 and `long` has 3 of them: there is no room for another two, so `wide` gets no pods yet.
    scenario = tmp_path / "outside.yaml"
    scenario.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: node-a}\nstatus: {allocatable: {cpu: 4}}\n"
        + "".join(
            f"""---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}, annotations: {{sim.stromboli.io/at: {at}}}}}
spec:
  tasks:
  - name: step
    replicas: {pods}
    template: {{spec: {{containers: [{{name: main, resources: {{requests: {{cpu: 1}}}}}}]}}}}
"""
            for name, at, pods in (("long", "0s", 3), ("wide", "5s", 2))
        ),
        encoding="utf-8",
    )
    assert command(["simulate", str(scenario), "--until", "20s"]) == 0
    waiting = capfdbinary.readouterr().out.decode().partition("\nWaiting\n")[2].splitlines()[1:]
    assert [line.split()[:3] for line in waiting if line.startswith("default/")] == [
        ["default/wide", "0", "NotEnoughResources"]
    ]


# A pod may come before the group or the queue it names. Until then no scheduler can see it, and it should say so.
NAMES_THAT_LEAD_NOWHERE = """
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {allocatable: {cpu: 8}}
---
apiVersion: v1
kind: Pod
metadata: {name: groupless, annotations: {scheduling.k8s.io/group-name: gang}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: queueless, annotations: {scheduling.volcano.sh/queue-name: team}}
spec: {containers: [{name: main}]}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang, annotations: {sim.stromboli.io/at: 5s}}
spec: {minMember: 1}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team, annotations: {sim.stromboli.io/at: 5s}}
"""


@pytest.mark.parametrize(("until", "groupless", "queueless"), [(4, "NoPodGroup", "NoQueue"), (5, "", "")])
def test_a_pod_that_names_what_is_not_there_says_so(
    tmp_path: Path, until: float, groupless: str, queueless: str
) -> None:
    pods = run_text(tmp_path, NAMES_THAT_LEAD_NOWHERE, until=until)["pods"]
    assert pods["default/groupless"]["reason"] == groupless
    assert pods["default/queueless"]["reason"] == queueless
    assert bool(groupless) == ("gang" in pods["default/groupless"]["message"])
    assert bool(queueless) == ("team" in pods["default/queueless"]["message"])
