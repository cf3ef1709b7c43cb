"""Recordings: the decisions come out byte for byte, and a file that was cut off is still useful."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import START, established, group, node, pod, pods, queue
from stromboli.cluster import Applied, BindFailed, Cluster, ClusterEvent, Deleted, EvictFailed, TaskKey, UngateFailed
from stromboli.console.main import run
from stromboli.insight.recording import (
    RecordingError,
    configuration_line,
    cycle_line,
    encode_decisions,
    events_line,
    read_steps,
    reset_line,
    start_line,
)
from stromboli.insight.replay import Replay
from stromboli.scheduling.configuration import configuration_text
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Recording:
    """A scheduler that runs and is recorded."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.lines = [start_line("1.2.3", "volcano")]
        self.restart()

    def restart(self) -> None:
        self.cluster = Cluster(scheduler_name="volcano")
        self.scheduler = Scheduler(self.registry.default(), self.registry)
        self.lines.append(configuration_line(configuration_text(self.scheduler.configuration)))

    def cycle(self, now: float, *events: ClusterEvent) -> None:
        for event in events:
            self.cluster.apply(event)
        decided = self.scheduler.run(self.cluster, now).decisions
        self.lines.append(cycle_line(now, events, decided))

    def same(self) -> list[bool]:
        return [one.is_same for one in Replay(self.registry).run(read_steps(self.lines, "test"))]


def some_events() -> list[ClusterEvent]:
    objects = [
        node("n1", cpu=4), queue("default"), group("ns/g", min_member=2), *pods("ns/g", 2, group="g", cpu=2),
        group("ns/h", min_member=1), pod("ns/h-0", group="h", cpu=2, memory="1Gi"),
    ]  # fmt: skip
    return [Applied(established(obj, number)) for number, obj in enumerate(objects)]


def recorded() -> Recording:
    recording = Recording()
    recording.cycle(START + 100, *some_events())
    recording.cycle(START + 101.25)
    recording.cycle(
        START + 102,
        BindFailed(TaskKey("ns/g-0"), "n1", "no", START + 101),
        EvictFailed(TaskKey("ns/x")),
        UngateFailed(TaskKey("ns/x")),
    )
    recording.cycle(START + 103, Deleted(established(pod("ns/g-1", group="g", cpu=2))))
    return recording


def test_decisions_are_the_same_byte_for_byte() -> None:
    assert recorded().same() == [True] * 4


def test_a_decision_that_differs_is_found() -> None:
    recording = recorded()
    changed = json.loads(recording.lines[2])
    assert changed["decisions"][0]["node"] == "n1"
    changed["decisions"][0]["node"] = "n2"
    recording.lines[2] = json.dumps(changed).encode()
    assert recording.same() == [False, True, True, True]


def test_a_restart_and_a_reset_begin_with_an_empty_cluster() -> None:
    recording = recorded()
    recording.lines.append(reset_line())
    recording.cluster = Cluster(scheduler_name="volcano")
    for event in some_events():
        recording.cluster.apply(event)
    recording.cluster.snapshot()
    recording.lines.append(events_line(some_events()))
    recording.cycle(START + 200)
    recording.lines.append(start_line("1.2.4", "volcano"))
    recording.restart()
    recording.cycle(START + 300, *some_events())
    assert recording.same() == [True] * 6


def test_a_torn_line_at_the_end_is_skipped() -> None:
    recording = recorded()
    recording.lines[-1] = recording.lines[-1][:40]
    assert recording.same() == [True] * 3


def test_a_torn_line_before_a_new_start_is_skipped() -> None:
    recording = recorded()
    recording.lines[-1] = recording.lines[-1][:40] + b"\n"
    recording.lines.append(start_line("1.2.3", "volcano"))
    recording.restart()
    recording.cycle(START + 300, *some_events())
    assert recording.same() == [True] * 4


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "test: is empty"),
        ([b"apiVersion: v1\n"], "test: is not a recording"),
        ([b'{"now": 1.0}\n'], "test: is not a recording"),
        ([start_line("1", "volcano"), b'{"now"', reset_line()], "test, line 2: is damaged"),
        ([start_line("1", "volcano"), b"x", b"y"], "test, line 2: is damaged"),
        ([b'{"start":{"format":9,"version":"9","schedulerName":"v"}}\n'], "test: has format 9"),
    ],
)  # fmt: skip
def test_other_files_are_refused(lines: list[bytes], problem: str) -> None:
    with pytest.raises(RecordingError) as refused:
        list(read_steps(lines, "test"))
    assert str(refused.value).startswith(problem)


def test_a_configuration_is_the_same_after_it_was_recorded() -> None:
    registry = Registry()
    text = json.dumps(
        {
            "actions": [{"name": "allocate"}, {"name": "reserve", "arguments": {"starvingJobTimeThreshold": "5s"}}],
            "tiers": [{"plugins": [{"name": "drf", "enablePreemptable": False}, {"name": "binpack"}]}],
        }
    )
    for before in (registry.default(), registry.load(text)):
        after = registry.load(configuration_text(before))
        assert [(a.name, dict(a.arguments)) for a in after.actions] == [
            (a.name, dict(a.arguments)) for a in before.actions
        ]
        assert [[(p.name, dict(p.enabled), dict(p.arguments)) for p in tier.plugins] for tier in after.tiers] == [
            [(p.name, dict(p.enabled), dict(p.arguments)) for p in tier.plugins] for tier in before.tiers
        ]


@pytest.mark.parametrize("example", ["demo", "starvation", "preemption", "queue-locks", "maintenance", "retries"])
def test_every_example_can_be_replayed(example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "decisions.jsonl"
    assert run(["simulate", str(EXAMPLES / f"{example}.yaml"), "--record", str(file), "--output", "json"]) == 0
    capsys.readouterr()
    assert run(["replay", str(file), "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["cycles"] == said["same"] > 3


def test_the_exit_status_says_that_it_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = recorded()
    recording.lines[2] = recording.lines[2].replace(b'"node":"n1"', b'"node":"n9"')
    file = tmp_path / "decisions.jsonl"
    file.write_bytes(b"".join(recording.lines))
    assert run(["replay", str(file)]) == 4
    said = capsys.readouterr()
    assert "Cycles: 4, 3 decided the same" in said.out
    assert said.err.startswith("stromboli: error: 1 of 4 cycles decided differently, first cycle 1 (line 3); ")


def test_a_job_is_explained_in_a_cycle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "decisions.jsonl"
    file.write_bytes(b"".join(recorded().lines))
    assert run(["replay", str(file), "--explain", "ns/h", "--cycle", "1", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reasons"][0]["code"] == "InsufficientNode"
    assert found["free"] == {"cpu": "0", "memory": "0"}
    for options, problem in (
        (["--explain", "ns/nobody"], "ns/nobody did not wait in any recorded cycle"),
        (["--explain", "ns/h", "--cycle", "9"], "The recording has 4 cycles, not 9."),
        (["--explain", "ns/nobody", "--cycle", "1"], "There was no job ns/nobody in cycle 1"),
        (["--cycle", "1"], "--cycle needs --explain"),
    ):
        assert run(["replay", str(file), *options]) == 2
        assert problem in capsys.readouterr().err


def test_equal_decisions_have_equal_bytes() -> None:
    def decided() -> bytes:
        recording = Recording()
        for event in some_events():
            recording.cluster.apply(event)
        return encode_decisions(recording.scheduler.run(recording.cluster, START + 1).decisions)

    assert decided() == decided()
