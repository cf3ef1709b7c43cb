"""Run mutated scenario and configuration files through `stromboli simulate`.

    python benchmarks/fuzz_files.py --files 10000 --seed 1

Every file is an example, a test's scenario, `all_kinds.yaml` or `policy.yaml` with a few mistakes: bytes, lines and
values are changed, removed, repeated or exchanged, in all kinds and fields. Whatever a file contains, the command has
to end in time, within a gigabyte of memory, with status 0, or with status 2 and one line. Anything else is printed with
the number of the file, and the exit status is 1.

Files run in worker processes, one after the other in each, because starting Python takes longer than a short
simulation. A worker that crashes or exceeds its time is replaced. File number n of a seed is always the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

import yaml

PROJECT: Final = Path(__file__).resolve().parent.parent
MEMORY_LIMIT: Final = 1 << 30  # bytes of data that a worker may allocate
UNTIL: Final = "20s"

CONFIGURATION: Final = """
actions:
- name: enqueue
- name: reclaim
- name: allocate
- name: preempt
- name: reserve
  arguments:
    starvingJobTimeThreshold: 5s
    starvationClock: creation
    reservedNodePercent: 100
    maxHolders: 2
    scope: amount
    yieldToHigherPriority: true
    reservationTimeout: 10s
- name: backfill
  arguments: {backfillNonBestEffort: true, mode: wait, useEstimates: true}
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: pdb
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 1.5}
  - name: drf
    arguments: {namespaceOrderScope: withinPriority}
  - name: predicates
    arguments: {predicate.NodePortsEnable: true}
  - name: proportion
  - name: nodeorder
    arguments: {leastrequested.weight: 2, mostrequested.weight: 1}
  - name: binpack
    arguments: {binpack.weight: 3, binpack.resources: nvidia.com/gpu, binpack.resources.nvidia.com/gpu: 2}
metrics: {}
"""

NASTY: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, 10**30, 0.1, -0.5, 1e308, float("nan"), float("inf"), "", " ", "-",
    "*", "0", "-1", "1e9", "500m", "1Gi", "9Ei", "1e99", "1e-99", "0x10", "5s", "-5s", "1h", "9999999h", "inf",
    "a" * 300, "A_b", "é", "\u2028", "\x7f", "name\nname", "root", "default", "2001-01-01", "on", [], {}, [[]],
    [None], {"": ""}, {"a": None}, ["a", 1, {}], "Open", "Closed", "Running", "Failed", "*/*", "nvidia.com/gpu",
    "pods", "node-a",
)  # fmt: skip
TOKENS: Final = (
    "---\n", "...\n", "&a ", "*a", "<<: *a\n", "!!int ", "!!binary ", "!!set ", "? ", ": ", "- ", "[", "]", "{", "}",
    '"', "'", "|\n", ">\n", "%YAML 1.1\n", "\t", "\x00", "\ufeff", "#", "@", "`", "\r", "é", "[" * 300, "- " * 300,
    "&a [*a]",
)  # fmt: skip


NODES: Final = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 2}}
"""
FIELDS: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
    "Queue": (
        ("weight", 5), ("capability", {"cpu": 2}), ("guarantee", {"resource": {"cpu": 1}}), ("deserved", {"cpu": 3}),
        ("parent", "default"), ("priority", 2), ("reclaimable", False), ("dequeueStrategy", "fifo"), ("type", "leaf"),
    ),
    "PodGroup": (("minMember", 0), ("minMember", 3), ("queue", "default"), ("minResources", {"cpu": 2}),
                 ("minTaskMember", {"a": 1})),
    "Job": (("minAvailable", 1), ("maxRetry", 0), ("minSuccess", 1), ("ttlSecondsAfterFinished", 2),
            ("runningEstimate", "5s"), ("policies", [{"event": "PodFailed", "action": "RestartJob"}]),
            ("policies", [{"event": "PodEvicted", "action": "TerminateJob", "timeout": "3s"}]),
            ("plugins", {"env": [], "svc": []}), ("queue", "default")),
    "Pod": (("priority", 7), ("schedulingGates", [{"name": "g"}]), ("nodeSelector", {"a": "b"}), ("hostNetwork", True),
            ("preemptionPolicy", "Never"), ("overhead", {"cpu": "100m"}), ("schedulerName", "other"),
            ("priorityClassName", "system-node-critical"), ("resources", {"requests": {"cpu": 3}})),
    "Node": (("unschedulable", True), ("taints", [{"key": "a", "effect": "NoSchedule"}])),
    "ReplicaSet": (("replicas", 0), ("replicas", 7)),
}  # fmt: skip
ANNOTATIONS: Final = (
    ("sim.stromboli.io/at", "3s"), ("sim.stromboli.io/at", 12), ("sim.stromboli.io/until", "9s"),
    ("sim.stromboli.io/run", "2s"), ("sim.stromboli.io/exit-code", "3"), ("sim.stromboli.io/grace", "4s"),
    ("scheduling.volcano.sh/queue-name", "default"), ("scheduling.k8s.io/group-name", "gang"),
    ("volcano.sh/preemptable", "false"), ("scheduling.stromboli.io/estimate", "4s"),
    ("volcano.sh/hierarchy", "root/a"), ("volcano.sh/hierarchy-weights", "1/2"), ("volcano.sh/task-priority", "x"),
    ("scheduling.volcano.sh/group-min-member", "2"), ("scheduling.stromboli.io/backfill", "true"),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One run of the command."""

    number: int
    kind: str  # of the file that is mutated: scenario, configuration or policy
    files: dict[str, str]  # all files, by kind

    @property
    def text(self) -> str:
        return self.files[self.kind]


@dataclass(frozen=True)
class Outcome:
    status: int | None  # None: the time was over; negative: the process was killed by that signal
    output: str

    @property
    def is_good(self) -> bool:
        if self.status == 2:
            lines = self.output.splitlines()
            return len(lines) >= 1 and lines[-1].startswith("stromboli: error: ") and "this is a bug" not in self.output
        return self.status == 0 and "Traceback" not in self.output


# -- mutations --------------------------------------------------------------------------------------------------


@cache
def seeds() -> tuple[list[str], list[str], list[str]]:
    """The texts to mutate: scenarios, configurations, and policies of the descheduler."""
    here = Path(__file__).parent
    # The file with all kinds has most of all fields, so it is chosen often.
    scenarios, configurations = [(here / "all_kinds.yaml").read_text(encoding="utf-8")] * 10, [CONFIGURATION]
    for folder in ("examples", "tests/simulation/scenarios"):
        for path in sorted((PROJECT / folder).glob("*.yaml")):
            text = path.read_text(encoding="utf-8")
            (configurations if "config" in path.name else scenarios).append(text)
    return scenarios, configurations, [(here / "policy.yaml").read_text(encoding="utf-8")]


def make_case(seed: int, number: int) -> Case:
    chance = random.Random(f"{seed}/{number}")
    scenarios, configurations, policies = seeds()
    kind = chance.choices(["scenario", "configuration", "policy"], [7, 2, 1])[0]
    scenario = chance.choice(scenarios)
    files = {
        "scenario": scenario if "kind: Node" in scenario else f"{scenario}\n---\n{NODES}",
        "configuration": chance.choice(configurations if kind == "configuration" else [*configurations, ""]),
        "policy": chance.choice(policies if kind == "policy" else [*policies, "", ""]),
    }
    mutate = chance.choices([_varied, _mutated_values, _mutated_text], [4, 4, 2])[0]
    files[kind] = mutate(files[kind], chance)
    return Case(number, kind, files)


def _varied(text: str, chance: random.Random) -> str:
    """Values are replaced by others of their kind, so that most of the results can be run."""
    documents = [document for document in yaml.safe_load_all(text) if document]
    for _ in range(chance.randint(1, 6)):
        places = [place for place in _places(documents) if place[1] not in ("apiVersion", "kind")]
        if not places:
            break
        container, position = chance.choice(places)
        value = container[position]
        match value:
            case bool():
                container[position] = not value
            case int() | float():
                container[position] = chance.choice([0, 1, 2, 5, 64, 1000, value + 1, max(0, value - 1)])
            case str() if position not in ("name", "namespace"):
                alike = [other[there] for other, there in places if there == position]
                text_like = ("0s", "1s", "7s", "30s", "1h") if value[-1:] == "s" and value[:1].isdigit() else alike
                container[position] = chance.choice(text_like)
            case str() if chance.random() < 0.3:
                container[position] = chance.choice([other[there] for other, there in places if there == position])
            case dict() | list() if value and chance.random() < 0.3:
                inside = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
                if isinstance(value, list) and chance.random() < 0.5:
                    value.append(value[inside])
                elif inside not in ("metadata", "name", "apiVersion", "kind", "containers", "template", "tasks"):
                    del value[inside]
            case _:
                pass
        if chance.random() < 0.3:
            _add_field(chance.choice(documents), chance)
    return yaml.safe_dump_all(documents, allow_unicode=True, sort_keys=False)


def _add_field(document: Any, chance: random.Random) -> None:
    """Set something that objects of this kind may have."""
    if not isinstance(document, dict):
        return
    known = FIELDS.get(str(document.get("kind")), ())
    spec = document.setdefault("spec", {})
    if known and isinstance(spec, dict):
        name, value = chance.choice(known)
        spec[name] = value
    meta = document.get("metadata")
    if isinstance(meta, dict) and chance.random() < 0.5:
        annotations = meta.setdefault("annotations", {})
        if isinstance(annotations, dict):
            name, value = chance.choice(ANNOTATIONS)
            annotations[name] = value


def _mutated_text(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        lines = text.splitlines(keepends=True) or [""]
        at = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, chance.choice(lines))
            case 2:
                other = chance.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                place = chance.randint(0, len(lines[at]))
                lines[at] = lines[at][:place] + chance.choice(TOKENS) + lines[at][place:]
            case 4:
                lines[at] = " " * chance.randint(0, 8) + lines[at].lstrip(" ")
            case _:
                place = chance.randint(0, max(0, len(lines[at]) - 1))
                lines[at] = lines[at][:place] + chr(chance.randint(32, 126)) + lines[at][place + 1 :]
        text = "".join(lines)
    return text


def _mutated_values(text: str, chance: random.Random) -> str:
    documents = list(yaml.safe_load_all(text))
    for _ in range(chance.randint(1, 3)):
        places = list(_places(documents))
        if not places:
            break
        container, position = chance.choice(places)
        match chance.randrange(8):
            case 0:
                del container[position]
            case 1 if isinstance(container, dict):
                container[chance.choice(["", "spec", "x", 1, None, f"{position}s"])] = container.pop(position)
            case 2:
                other, there = chance.choice(places)
                container[position] = other[there]
            case 3 if isinstance(container, list):
                container.append(container[position])
            case 4 if isinstance(container[position], int) and not isinstance(container[position], bool):
                container[position] += chance.choice([-1, 1, -100, 100])
            case _:
                container[position] = chance.choice(NASTY)
    try:
        return yaml.safe_dump_all(documents, allow_unicode=True, sort_keys=False)
    except (yaml.YAMLError, RecursionError):  # a value has become a part of itself
        return text


def _places(value: Any, above: frozenset[int] = frozenset()) -> Iterator[tuple[Any, Any]]:
    """`above`: the values around this one. A value that has become a part of itself has no places in there."""
    if isinstance(value, dict | list) and id(value) not in above and len(above) <= 30:
        inside = above | {id(value)}
        for position in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, position
            yield from _places(value[position], inside)


# -- runs -------------------------------------------------------------------------------------------------------


def run_case(case: Case, folder: Path) -> Outcome:
    """Run the command in this process."""
    from stromboli.console.main import run

    arguments = ["simulate", str(folder / "scenario.yaml"), "--until", UNTIL]
    for name, text in case.files.items():
        (folder / f"{name}.yaml").write_bytes(text.encode("utf-8", errors="surrogateescape"))
    for name, option in (("configuration", "--config"), ("policy", "--descheduler-config")):
        if case.files[name]:
            arguments += [option, str(folder / f"{name}.yaml")]
    arguments += ["-o", ("table", "json", "events")[case.number % 3]]
    output = folder / "output"
    saved = os.dup(1), os.dup(2)
    with output.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        try:
            status = run(arguments)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            for descriptor in saved:
                os.close(descriptor)
    text = output.read_text(encoding="utf-8", errors="replace")
    return Outcome(status, text if status else text[-200:])


def work() -> None:
    """Run the cases whose seed and number come in, one per line, and write each outcome as a line of JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    answers = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            seed, number = map(int, line.split())
            outcome = run_case(make_case(seed, number), Path(folder))
            print(json.dumps([outcome.status, outcome.output]), file=answers, flush=True)


class _Worker:
    """A process that runs one case at a time, and is replaced when it dies or takes too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.case: Case | None = None
        self.deadline = 0.0
        self._start()

    def _start(self) -> None:
        command = [sys.executable, __file__, "--work"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    @property
    def answers(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def give(self, seed: int, case: Case, now: float) -> None:
        assert self._process.stdin is not None
        self.case, self.deadline = case, now + self._seconds
        self._process.stdin.write(f"{seed} {case.number}\n")
        self._process.stdin.flush()

    def take(self) -> Outcome:
        """The outcome of a case that is done, or whose worker has died."""
        line = self.answers.readline()
        self.case = None
        if line:
            return Outcome(*json.loads(line))
        self.stop()
        outcome = Outcome(self._process.returncode, "the process died")
        self._start()
        return outcome

    def replace(self) -> None:
        self.stop()
        self.case = None
        self._start()

    def stop(self) -> None:
        self._process.kill()
        with self._process:
            self._process.wait()


def fuzz(
    seed: int, numbers: range, *, workers: int, seconds: float, report: Callable[[Case, Outcome], None]
) -> dict[str, int]:
    """Run the cases; how many ended in which way."""
    counts: dict[str, int] = {"ran": 0, "refused": 0, "bad": 0}
    pool = [_Worker(seconds) for _ in range(workers)]
    waiting = iter(numbers)

    def settle(worker: _Worker, outcome: Outcome, case: Case) -> None:
        counts["bad" if not outcome.is_good else "refused" if outcome.status else "ran"] += 1
        if not outcome.is_good:
            report(case, outcome)

    try:
        while True:
            for worker in pool:
                if worker.case is None and (number := next(waiting, None)) is not None:
                    worker.give(seed, make_case(seed, number), time.monotonic())
            busy = [worker for worker in pool if worker.case is not None]
            if not busy:
                return counts
            ready = select.select([worker.answers for worker in busy], [], [], 0.5)[0]
            for worker in busy:
                case = worker.case
                assert case is not None
                if worker.answers in ready:
                    settle(worker, worker.take(), case)
                elif time.monotonic() > worker.deadline:
                    worker.replace()
                    settle(worker, Outcome(None, f"not done after {seconds:g} seconds"), case)
    finally:
        for worker in pool:
            worker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run mutated files through `stromboli simulate`.")
    parser.add_argument("--files", type=int, default=1000, help="number of files")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit for each file")
    parser.add_argument("--keep", type=Path, help="write the files that failed to this directory")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return 0

    def report(case: Case, outcome: Outcome) -> None:
        print(f"file {case.number}: status {outcome.status}: {outcome.output.strip()[-1500:]}", flush=True)
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            for name, text in case.files.items():
                mark = "-mutated" if name == case.kind else ""
                (options.keep / f"{case.number}-{name}{mark}.yaml").write_bytes(text.encode(errors="surrogateescape"))

    numbers = range(options.first, options.first + options.files)
    counts = fuzz(options.seed, numbers, workers=options.workers, seconds=options.seconds, report=report)
    print(f"{counts['ran']} ran, {counts['refused']} were refused, {counts['bad']} failed")
    return 1 if counts["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
