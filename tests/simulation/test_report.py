"""What a run prints: its shape, and that equal input gives equal bytes."""

import io
import json
import random
import re
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.scenario_runner import SCENARIOS, FirstFit, engine_for, load, run, run_text
from stromboli.api.quantity import readable_amount
from stromboli.console.main import run as command
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.progress_line import ProgressLine, ReadDocuments, simulated
from stromboli.simulation.report import build_report, encode_report
from stromboli.simulation.scenario.yaml_documents import Document, read_documents
from stromboli.simulation.virtual_time import microseconds

FILES = ("one-node", "crowd", "in-turn", "replicas")
DOCUMENTS = [
    document for name in FILES for document in (SCENARIOS / f"{name}.yaml").read_text(encoding="utf-8").split("---\n")
]


def printed(*paths: Path) -> bytes:
    return encode_report(build_report(engine_for(*paths, until=30)))


def test_keys_stand_in_the_order_of_the_contract() -> None:
    report = run("one-node", "crowd", until=10)
    assert list(report) == [
        "end", "events", "pods", "podGroups", "jobs", "queues", "namespaces", "nodes", "summary", "reservations",
        "claims", "volumes",
    ]  # fmt: skip
    assert list(report["events"][0]) == ["t", "type", "object", "node", "reason", "message"]
    assert list(report["pods"]["ns1/g-0"]) == [
        "phase", "node", "queue", "podGroup", "backfill", "submitted", "bound", "finished", "reason", "message",
    ]  # fmt: skip
    assert list(report["podGroups"]["ns1/pg1"]) == [
        "phase", "running", "pending", "conditions", "migrationState",
        "submitted", "admitted", "started", "ended", "waited", "pods", "domain",
    ]  # fmt: skip
    assert list(report["queues"]["q1"]) == ["state", "allocated", "deserved", "reservation", "conditions"]
    assert list(report["namespaces"]["q1/ns1"]) == ["allocated", "weight"]
    assert list(report["nodes"]["n1"]) == [
        "allocatable", "used", "held", "reserved", "reservedFor", "promised", "promisedTo", "lockedBy",
    ]  # fmt: skip
    for section in ("pods", "podGroups", "queues", "namespaces", "nodes"):
        assert list(report[section]) == sorted(report[section])


# On a node of 4 CPUs, `long` (3 CPUs) runs from 1 s to 11 s and `pair` (two pods of 2 CPUs) waits for it.
TWO_JOBS = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi}}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: long}
spec:
  tasks:
  - name: step
    replicas: 1
    template:
      metadata: {annotations: {sim.stromboli.io/run: 10s}}
      spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: pair, annotations: {sim.stromboli.io/at: 2s}}
spec:
  tasks:
  - name: step
    replicas: 2
    template:
      metadata: {annotations: {sim.stromboli.io/run: 8s}}
      spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}
"""


def real_report(tmp_path: Path, text: str, capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> Any:
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    assert command(["simulate", str(tmp_path / "s.yaml"), "-o", "json", *arguments]) == 0
    return json.loads(capfdbinary.readouterr().out)


def test_times_of_jobs_and_groups(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    report = real_report(tmp_path, TWO_JOBS, capfdbinary)
    assert report["jobs"] == {
        "default/long": {"phase": "Completed", "submitted": 0.0, "admitted": 0.0, "started": 1.0, "ended": 11.0,
                         "waited": 1.0, "pods": {"Succeeded": 1}},
        "default/pair": {"phase": "Completed", "submitted": 2.0, "admitted": 11.0, "started": 12.0, "ended": 20.0,
                         "waited": 10.0, "pods": {"Succeeded": 2}},
    }  # fmt: skip


def test_a_job_that_waits_until_the_end(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    report = real_report(tmp_path, TWO_JOBS, capfdbinary, "--until", "6s")
    assert report["jobs"]["default/pair"] == {
        "phase": "Pending", "submitted": 2.0, "admitted": None, "started": None, "ended": None, "waited": 4.0,
        "pods": {},
    }  # fmt: skip
    [group] = [group for name, group in report["podGroups"].items() if name.startswith("default/pair-")]
    assert (group["submitted"], group["started"], group["waited"], group["pods"]) == (2.0, None, 4.0, {})


# A node of 2 CPUs, on which both pods of the group run from 0 s to 20 s.
RUNNING_GROUP = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 2}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pair, annotations: {ANNOTATIONS}}
spec: {minMember: 2}
"""
RUNNING_POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, annotations: {scheduling.k8s.io/group-name: pair, sim.stromboli.io/run: 20s}}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


@pytest.mark.parametrize("names", [("a", "b"), ("y", "z"), ("a", "z")])
@pytest.mark.parametrize("created", [0, 5])
def test_pods_that_run_before_their_group_exists_have_started_it(
    names: tuple[str, str], created: int, tmp_path: Path
) -> None:
    # At one moment objects are created by name, so pods may come before their group.
    text = RUNNING_GROUP.replace("ANNOTATIONS", f"sim.stromboli.io/at: {created}s")
    report = run_text(tmp_path, text + "".join(RUNNING_POD.replace("NAME", name) for name in names))
    group = report["podGroups"]["default/pair"]
    assert (group["submitted"], group["started"], group["ended"], group["waited"]) == (created, created, 20, 0)
    assert report["summary"]["wait"]["max"] == 0


def test_a_group_that_is_created_again_is_started_by_the_pods_that_run(tmp_path: Path) -> None:
    first = RUNNING_GROUP.replace("ANNOTATIONS", "sim.stromboli.io/until: 5s")
    again = "---\n" + RUNNING_GROUP.replace("ANNOTATIONS", "sim.stromboli.io/at: 8s").partition("---\n")[2]
    pods = "".join(RUNNING_POD.replace("NAME", name) for name in ("y", "z"))
    report = run_text(tmp_path, first + again + pods)
    group = report["podGroups"]["default/pair"]
    assert (group["submitted"], group["started"], group["ended"], group["waited"]) == (8, 8, 20, 0)


def test_the_summary(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    # Waits of 1 s and 10 s. CPU: 3 × 10 s + 4 × 8 s of 4 × 20 s is 62/80.
    summary = real_report(tmp_path, TWO_JOBS, capfdbinary)["summary"]
    part = {
        "wait": {"mean": 5.5, "p50": 1.0, "p95": 10.0, "max": 10.0},
        "utilisation": {"cpu": 0.775, "memory": 0.0},
        "evictions": 0,
        "workLost": 0.0,
        "starved": 0,
    }
    assert summary == {**part, "queues": {"default": part}}
    assert list(summary) == ["wait", "utilisation", "evictions", "workLost", "starved", "queues"]


def test_work_lost_is_what_an_evicted_pod_had_done() -> None:
    # g-1 uses 1500m from 0 s on and is evicted at 3 s.
    scheduler = FirstFit(evictions={3: ["ns1/g-1"]})
    report = run("one-node", "crowd", until=5, scheduler=scheduler)
    assert report["pods"]["ns1/g-1"]["bound"] == 0.0
    assert (report["summary"]["evictions"], report["summary"]["workLost"]) == (1, 4.5)
    assert report["summary"]["queues"]["q1"]["workLost"] == 4.5


def test_a_run_without_jobs_has_no_waits(tmp_path: Path) -> None:
    summary = run_text(tmp_path, "{apiVersion: v1, kind: Node, metadata: {name: n1}}")["summary"]
    assert summary["wait"] == {"mean": None, "p50": None, "p95": None, "max": None}
    assert summary["queues"] == {}


def test_what_is_reserved_shows_on_the_node(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "c.yaml").write_text(
        "actions: [{name: enqueue}, {name: allocate}, {name: reserve, arguments: {starvingJobTimeThreshold: 2s}}]\n"
        "tiers: [{plugins: [{name: gang}, {name: predicates}]}]\n",
        encoding="utf-8",
    )
    text = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: old},
 spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 2}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}}
"""
    report = real_report(tmp_path, text, capfdbinary, "--config", str(tmp_path / "c.yaml"), "--until", "5s")
    assert report["nodes"]["n1"]["reserved"] == {"cpu": "3"}
    assert report["summary"]["starved"] == 1


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
        "reserved": {},
        "reservedFor": [],
        "promised": {},
        "promisedTo": [],
        "lockedBy": None,
    }
    assert (report["podGroups"]["ns1/pg1"]["running"], report["podGroups"]["ns1/pg1"]["pending"]) == (1, 0)
    assert report["pods"]["ns2/big"]["reason"] == "InsufficientNode"


# The pod ends at 3 s. Its node is deleted at 28 s, and a queue is created at 30 s.
LATE_CHANGES = """
apiVersion: v1
kind: Node
metadata: {name: n1, annotations: {sim.stromboli.io/until: 28s}}
status: {allocatable: {cpu: 1}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: late, annotations: {sim.stromboli.io/at: 30s}}
---
apiVersion: v1
kind: Pod
metadata: {name: p1, annotations: {sim.stromboli.io/run: 3s}}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


def test_a_run_ends_with_the_last_change_that_the_report_shows(tmp_path: Path) -> None:
    report = run_text(tmp_path, LATE_CHANGES)
    assert (report["nodes"], "late" in report["queues"]) == ({}, True)
    assert report["end"] == 30
    assert "n1" in run_text(tmp_path, LATE_CHANGES, until=27)["nodes"]


@given(st.permutations(DOCUMENTS), st.integers(0, len(DOCUMENTS)))
def test_the_order_of_documents_and_files_decides_nothing(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], cut: int
) -> None:
    directory = tmp_path_factory.mktemp("shuffled")
    parts = [directory / "second.yaml", directory / "first.yaml"]
    parts[0].write_text("---\n".join(documents[:cut]), encoding="utf-8")
    parts[1].write_text("---\n".join(documents[cut:]), encoding="utf-8")
    assert printed(*parts) == printed_in_order()


@cache
def printed_in_order() -> bytes:
    return printed(*(SCENARIOS / f"{name}.yaml" for name in FILES))


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
    # 0: a and b submitted; 1: a bound; 10: a finished; 11: b bound; 12: c submitted; 15: b finished; …
    assert seen[:6] == [2, 1, 1, 1, 1, 1]


def test_the_table_fits_a_hundred_columns_and_tells_who_waits(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    told = on_the_command_line(capfdbinary).decode()
    assert max(map(len, told.splitlines())) <= 100
    assert "\x1b" not in told
    for part in ("Jobs", "ns1/pg1", "Queues", "Nodes", "n1", "Waiting", "ns2/big"):
        assert part in told


@pytest.mark.parametrize("columns", ["30", "60", "200"])
def test_no_column_vanishes(
    columns: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    told = on_the_command_line(capfdbinary).decode()
    headers = next(line for line in told.splitlines() if line.startswith("Job ")).split()
    expected = ["Job", "Queue", "Pods", "Submitted", "Started", "Ended", "Waited", "Timeline", "Outcome"]
    assert [header for header in expected if header in headers or header == "Timeline"] == expected
    assert ("Timeline" in headers) == (columns == "200")


def test_output_that_cannot_hold_more_than_ascii(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(sys, "stdout", open(sys.stdout.fileno(), "w", encoding="ascii", closefd=False))  # noqa: SIM115
    told = on_the_command_line(capfdbinary).decode("ascii")
    assert "#####" in told


def test_the_longest_waits_of_many_jobs(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    # Fifty pods take turns on one CPU for a second each, so the last one waits longest.
    file = tmp_path / "many.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 1}}}\n"
        + "".join(
            "---\n{apiVersion: v1, kind: Pod, "
            f"metadata: {{name: p-{n:02}, annotations: {{sim.stromboli.io/run: 1s}}}}, "
            "spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}\n"
            for n in range(50)
        ),
        encoding="utf-8",
    )
    assert command(["simulate", str(file)]) == 0
    told = capfdbinary.readouterr().out.decode()
    assert "Jobs that waited longest (40 of 50; --output json shows all of them)" in told
    rows = [line.split()[0] for line in told.splitlines() if line.startswith("default/p-")]
    assert rows == [f"default/p-{n:02}" for n in range(49, 9, -1)]


def test_a_generated_group_has_the_name_of_its_owner(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "s.yaml").write_text(TWO_JOBS, encoding="utf-8")
    assert command(["simulate", str(tmp_path / "s.yaml")]) == 0
    told = capfdbinary.readouterr().out.decode()
    assert not re.search(r"-[0-9a-f]{12}\b", told)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1.5"), ("cpu", 4000, "4"), ("cpu", 0, "0"), ("memory", 8 << 30, "8Gi"),
        ("memory", 1536 << 20, "1.5Gi"), ("memory", 1_234_567_890, "1.15Gi"), ("memory", 0, "0"),
        ("nvidia.com/gpu", 1_234_567, "1234567"), ("memory", 1023 << 30, "1023Gi"),
    ],
)  # fmt: skip
def test_amounts_for_people(resource: str, amount: int, text: str) -> None:
    assert readable_amount(resource, amount) == text


class _Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self._written = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._written:
            self._written.notify_all()
            return super().write(text)

    def wait_for(self, text: str) -> None:
        with self._written:
            assert self._written.wait_for(lambda: text in self.getvalue(), timeout=60), self.getvalue()[-200:]


def test_a_long_run_shows_its_progress_on_a_terminal() -> None:
    terminal = _Terminal()
    engine = Engine(
        load(SCENARIOS / "one-node.yaml", SCENARIOS / "crowd.yaml"), Journal(), new_scheduler=FirstFit,
        period=microseconds(1), until=microseconds(4),
    )  # fmt: skip
    documents = ReadDocuments()
    with ProgressLine(terminal, delay=0, interval=0.001) as progress:
        documents.count("jobs.yaml")
        documents.count("jobs.yaml")
        progress.show(documents.text)
        terminal.wait_for("reading jobs.yaml: 2 documents")
        progress.show(lambda: simulated(engine))
        terminal.wait_for("0s simulated, 0 events, 0 pods waiting")
        engine.run()
        terminal.wait_for("4s simulated, ")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_no_progress_in_a_file() -> None:
    stream = io.StringIO()
    with ProgressLine(stream, delay=0, interval=0) as progress:
        progress.show(lambda: "reading")
    assert stream.getvalue() == ""


def test_progress_is_shown_while_a_scenario_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading goes on only when the line has been seen."""
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)

    def slow(path: str) -> Iterator[Document]:
        yield from read_documents(path)
        terminal.wait_for("one-node.yaml: 1 documents")

    monkeypatch.setattr("stromboli.simulation.scenario.scenario_files.read_documents", slow)
    assert command(["simulate", str(SCENARIOS / "one-node.yaml"), "--until", "1s"]) == 0


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
        ["default/wide", "0", "InsufficientNode"]
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


def test_two_restarts_at_one_moment_are_in_any_order(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    # One of them keeps the scheduler away for three seconds, the other does not.
    restart = "{apiVersion: sim.stromboli.io/v1, kind: Restart, at: 3s, component: scheduler%s}"
    node = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 1}}}"
    meta = "metadata: {name: p, annotations: {sim.stromboli.io/at: 4s}}"
    pod = f"{{apiVersion: v1, kind: Pod, {meta}, spec: {{containers: [{{name: m}}]}}}}"
    outputs = []
    for restarts in ([restart % "", restart % ", for: 3s"], [restart % ", for: 3s", restart % ""]):
        file = tmp_path / "restarts.yaml"
        file.write_text("\n---\n".join([node, pod, *restarts]), encoding="utf-8")
        assert command(["simulate", str(file), "--output", "json", "--until", "10s"]) == 0
        outputs.append(capfdbinary.readouterr().out)
    assert outputs[0] == outputs[1]
