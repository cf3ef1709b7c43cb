"""The scheduler's process, while one job makes it fail.

The fault is in the action allocate, and hits the tasks of jobs whose name begins with `odd`. Time is virtual.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from builders import group, node, pod, pods, queue
from live.fake_api import FakeApi, until, with_virtual_time
from live.scheduler_harness import Process, make, running
from stromboli.api import Pod, PodGroup
from stromboli.cluster import Applied, Cluster, ClusterEvent, Job
from stromboli.insight.explanation import explain
from stromboli.insight.inspection import State, inspect
from stromboli.insight.recording import read_steps
from stromboli.insight.replay import Replay, ReplayedCycle
from stromboli.kube.runtime import ErrorReporter, LoopLag, ProcessMetrics
from stromboli.kube.scheduler.containment import LiveContainment
from stromboli.kube.scheduler.recorder import ErrorRecordings, Recorder
from stromboli.scheduling.attempt import attempts
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

SECRET = "hunter2"


class Fault:
    is_on = True


@pytest.fixture(autouse=True)
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    usual, found = attempts.requesting, Fault()

    def faulty(session: Any, job: Job) -> deque[Any]:
        if found.is_on and job.name.startswith("odd"):
            raise LookupError("no such shelf")
        return usual(session, job)

    monkeypatch.setattr(attempts, "requesting", faulty)
    return found


def put_gang(api: FakeApi, name: str, cpu: float = 1) -> None:
    api.put(group(f"ns/{name}", min_member=2))
    for number in range(2):
        made = pod(f"ns/{name}-{number}", cpu=cpu, group=name)
        container = made.spec.containers[0]
        container.env, container.args = [{"name": "PASSWORD", "value": SECRET}], [f"--password={SECRET}"]
        made.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"] = SECRET
        api.put(made)


def bound(api: FakeApi, name: str) -> bool:
    return sum(bind[0].startswith(f"ns/{name}-") for bind in api.binds) == 2


def message(api: FakeApi, name: str) -> str:
    found = next(one for one in api.all(Pod) if one.metadata.name == name)
    return next((c.message for c in found.status.conditions if c.type == "PodScheduled"), "")


def logged(caplog: pytest.LogCaptureFixture, words: str) -> list[dict[str, Any]]:
    return [record.fields for record in caplog.records if words in record.getMessage()]  # type: ignore[attr-defined]


def replayed(file: Path) -> list[ReplayedCycle]:
    with file.open("rb") as lines:
        return list(Replay(Registry()).run(read_steps(lines, str(file))))


def process_with(
    api: FakeApi, *, folder: Path | None = None, file: Path | None = None
) -> tuple[Process, ProcessMetrics]:
    process, metrics = make(api), ProcessMetrics(CollectorRegistry(), LoopLag())
    process._cycles._containment = LiveContainment(ErrorReporter("scheduler", metrics))
    if folder is not None:
        process._cycles._record_error = ErrorRecordings(folder, "volcano").write
    if file is not None:
        process._cycles._recording = Recorder(file, "volcano")
    return process, metrics


def sample(metrics: ProcessMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"part": "scheduler", **labels})


def test_all_others_start_and_it_does_when_the_fault_is_gone(
    fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    seen: dict[str, Any] = {}

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=10))
        put_gang(api, "odd")
        put_gang(api, "other")
        process, metrics = process_with(api, folder=tmp_path)
        async with running(process):
            await until(lambda: bound(api, "other"))
            await asyncio.sleep(10)
            put_gang(api, "third")
            await until(lambda: bound(api, "third"))
            assert not bound(api, "odd")
            seen["message"] = message(api, "odd-0")
            (odd,) = [one for one in api.all(PodGroup) if one.metadata.name == "odd"]
            seen["conditions"] = {c.type: c.reason for c in odd.status.conditions}
            seen["errors"] = sample(metrics, "stromboli_contained_errors_total", kind="PodGroup")
            seen["aside"] = sample(metrics, "stromboli_objects_put_aside")
            assert process._cycles.crashes == 0
            fault.is_on = False
            await until(lambda: bound(api, "odd"))

    with_virtual_time(story())
    assert "LookupError" in seen["message"]
    assert "report" in seen["message"]
    assert seen["conditions"]["Unschedulable"] == "InternalError"
    assert seen["errors"] == 4, "in 10 s it is tried at 0, 1, 3 and 7"
    assert seen["aside"] == 1
    (line,) = logged(caplog, "an error while one object was handled")
    assert (line["kind"], line["object"], line["error"], line["text"]) == (
        "PodGroup", "ns/odd", "LookupError", "no such shelf"
    )  # fmt: skip
    assert "in faulty" in line["where"]
    assert "requesting" in line["traceback"]


@pytest.mark.parametrize("is_new", [False, True])
def test_an_object_that_changes_is_tried_again_at_once(fault: Fault, is_new: bool) -> None:
    """Put aside, it is tried after 0, 1, 3, 7, 15, 31 and 63 seconds, unless it changes, or is another one."""

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=10))
        put_gang(api, "odd")
        process, metrics = process_with(api)
        async with running(process):
            await until(lambda: sample(metrics, "stromboli_contained_errors_total", kind="PodGroup") == 6)
            fault.is_on = False
            await asyncio.sleep(3)
            assert not bound(api, "odd")
            if is_new:
                api.remove(PodGroup, "ns/odd")
                await asyncio.sleep(3)
                api.put(group("ns/odd", min_member=2))
            else:
                (odd,) = api.all(PodGroup)
                odd.spec.min_member = 1
                api.put(odd)
            await asyncio.sleep(5)
            assert bound(api, "odd")

    with_virtual_time(story())


def test_the_recording_in_the_log_reproduces_the_error_and_has_no_secrets(
    fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=10))
        put_gang(api, "other")
        put_gang(api, "odd")
        process, _ = process_with(api, folder=tmp_path / "errors")
        async with running(process):
            await until(lambda: bound(api, "other"))

    with_virtual_time(story())
    (line,) = logged(caplog, "an error while one object was handled")
    file = Path(line["recording"])
    assert file.parent == tmp_path / "errors"
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert SECRET.encode() not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    (cycle,) = replayed(file)
    assert cycle.is_same
    (error,) = cycle.cycle.contained
    assert (str(error.subject), error.error) == ("PodGroup ns/odd", "LookupError")
    fault.is_on = False
    (cycle,) = replayed(file)
    assert not cycle.is_same
    assert not cycle.cycle.contained


def test_a_recording_of_everything_replays(fault: Fault, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=4))
        put_gang(api, "odd")
        process, _ = process_with(api, file=file)
        async with running(process):
            await asyncio.sleep(5)
            put_gang(api, "other")
            await until(lambda: bound(api, "other"))
            await asyncio.sleep(8)

    with_virtual_time(story())
    found = replayed(file)
    assert all(one.is_same for one in found)
    assert sum(bool(one.cycle.contained) for one in found) >= 3
    assert b'"putAside"' in file.read_bytes()
    assert SECRET.encode() not in file.read_bytes()


def test_an_object_that_cannot_be_applied_is_ignored_until_it_changes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usual = Cluster.apply

    def apply(self: Cluster, event: ClusterEvent) -> None:
        if isinstance(event, Applied) and isinstance(event.object, Pod) and event.object.metadata.labels.get("bad"):
            raise TypeError("what is this?")
        usual(self, event)

    monkeypatch.setattr(Cluster, "apply", apply)

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=10))
        put_gang(api, "other")
        process, metrics = process_with(api)
        async with running(process):
            await until(lambda: bound(api, "other"))
            api.put(group("ns/g", min_member=1))
            api.put(pod("ns/g-0", cpu=1, group="g", labels={"bad": "yes"}))
            await asyncio.sleep(3)
            put_gang(api, "third")
            await until(lambda: bound(api, "third"))
            assert sample(metrics, "stromboli_objects_put_aside") == 1
            api.put(pod("ns/g-0", cpu=1, group="g"))
            await until(lambda: any(bind[0] == "ns/g-0" for bind in api.binds))
            assert sample(metrics, "stromboli_objects_put_aside") == 0

    with_virtual_time(story())
    assert [line["object"] for line in logged(caplog, "an error while one object was handled")] == ["ns/g-0"]


def test_a_cycle_that_is_cut_is_logged_and_recorded(
    fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each look at the clock takes a second, so every action of a cycle of 10 s has two turns or so."""
    fault.is_on = False
    file = tmp_path / "all.jsonl"

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=100))
        for number in range(12):
            put_gang(api, f"g{number:02}")
        process, _ = process_with(api, file=file)
        process._cycles._containment = LiveContainment(
            process._metrics.contained_errors("scheduler"), budget=10.0, stopwatch=partial(next, map(float, count()))
        )
        async with running(process):
            await until(lambda: len(api.binds) == 24)

    with_virtual_time(story())
    lines = logged(caplog, "a cycle ran out of time")
    assert lines
    assert "allocate" in lines[0]["actions"]
    assert lines[0]["jobs"] > 0
    assert "ns/g" in lines[0]["first"]
    found = replayed(file)
    assert all(one.is_same for one in found)
    assert b'"cut"' in file.read_bytes()
    assert b'"first"' in file.read_bytes()


class TestPeopleWhoAsk:
    def state(self) -> State:
        objects = [
            node("n1", cpu=4), queue("default"), group("ns/odd", min_member=2), *pods("ns/odd", 2, group="odd", cpu=1),
            group("ns/other"), pod("ns/other-0", group="other", cpu=8),
            group("ns/fits"), pod("ns/fits-0", group="fits", cpu=1),
        ]  # fmt: skip
        return State(objects, now=2_000_000_000.0)

    def scheduler(self) -> Scheduler:
        registry = Registry()
        return Scheduler(registry.default(), registry)

    @pytest.mark.parametrize(
        ("job", "code"), [("ns/odd", "InternalError"), ("ns/other", "InsufficientNode"), ("ns/fits", "")]
    )
    def test_why(self, job: str, code: str) -> None:
        told = explain(self.state(), self.scheduler(), job)
        assert told is not None
        assert told.dominant == code
        assert told.starts_next is (code == "")

    def test_the_picture(self) -> None:
        picture = inspect(self.state(), self.scheduler()).picture
        assert {job.name: job.reason for job in picture.jobs if job.waits}["ns/odd"] == "InternalError"
