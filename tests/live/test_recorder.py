"""The scheduler on a cluster records what it is given and decides, and survives a file that cannot be written."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from builders import group, node, pod
from live.fake_api import FakeApi, Fate, refused, until, with_virtual_time
from live.scheduler_harness import Process, make, running
from stromboli.errors import UserError
from stromboli.insight.recording import read_steps
from stromboli.insight.replay import Replay, ReplayedCycle
from stromboli.kube.scheduler.recorder import Recorder
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.registry import Registry


def replayed(file: Path) -> list[ReplayedCycle]:
    with file.open("rb") as lines:
        return list(Replay(Registry()).run(read_steps(lines, str(file))))


def recorded(api: FakeApi, file: Path) -> Process:
    process = make(api)
    process._cycles._recording = Recorder(file, "volcano")
    return process


def test_a_recording_reproduces_every_decision(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=4))
        process = recorded(api, file)
        async with running(process):
            await until(lambda: process.not_ready_reason() is None)
            api.put(group("ns/g", min_member=2))
            for index in range(2):
                api.put(pod(f"ns/g-{index}", cpu=2, group="g"))
            api.put(group("ns/h", min_member=1))
            api.put(pod("ns/h-0", cpu=3, group="h"))
            await until(lambda: len(api.binds) == 2)
            await asyncio.sleep(3.0)

    with_virtual_time(story())
    found = replayed(file)
    assert all(one.is_same for one in found)
    assert sum(isinstance(decision, Bind) for one in found for decision in one.cycle.decisions) == 2
    assert found[-1].waiting == {"ns/h"}


def test_a_second_process_appends_and_ends_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=4))
        process = recorded(api, file)
        async with running(process):
            await until(lambda: process.cycles > 2)

    with_virtual_time(story())
    first = len(replayed(file))
    os.truncate(file, file.stat().st_size - 10)  # killed while it wrote
    with_virtual_time(story())
    found = replayed(file)
    assert len(found) > first
    assert all(one.is_same for one in found)
    Recorder(file, "volcano").close()
    assert b"\n\n" not in file.read_bytes(), "a whole line is not ended twice"


def test_a_refused_bind_is_an_input(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=4))
        api.put(group("ns/g", min_member=1))
        api.put(pod("ns/g-0", cpu=2, group="g"))
        times = iter(range(100))
        api.fate = lambda verb, key: refused(403, "Forbidden") if verb == "bind" and next(times) < 2 else Fate()
        process = recorded(api, file)
        async with running(process):
            await until(lambda: len(api.binds) == 1)

    with_virtual_time(story())
    assert all(one.is_same for one in replayed(file))
    assert b'"bindFailed"' in file.read_bytes()


def test_a_full_disk_ends_the_recording_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "decisions.jsonl", "volcano")

    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("stromboli.kube.scheduler.recorder.os.write", full)
        recorder.reset()
    recorder.reset()
    assert (tmp_path / "decisions.jsonl").read_bytes().count(b"\n") == 1


def test_a_file_that_cannot_be_opened_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--record .*: Is a directory"):
        Recorder(tmp_path, "volcano")
