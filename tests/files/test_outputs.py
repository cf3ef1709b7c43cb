"""Reports, recordings and printed answers on a disk that is full, and where somebody else has put a link."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from builders import node, pod
from stromboli.cluster import Applied
from stromboli.console.main import run
from stromboli.errors import UserError
from stromboli.files import append, new_private_file, open_for_append, output_file, write_output
from stromboli.insight.recording import read_steps
from stromboli.kube.scheduler.recorder import ErrorRecordings, Recorder
from stromboli.scheduling.containment import CycleInputs
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

DEMO = str(Path(__file__).resolve().parents[2] / "examples" / "demo.yaml")
FULL = "No space left on device"


class FullDisk:
    """`os.write` accepts so many bytes, and then no more until there is space again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
        self.left = left
        self._write = os.write
        monkeypatch.setattr(os, "write", self)

    def __call__(self, handle: int, data: bytes) -> int:
        if not self.left:
            raise OSError(errno.ENOSPC, FULL)
        written = self._write(handle, bytes(data)[: self.left])
        self.left -= written
        return written


def test_a_report_that_does_not_fit_leaves_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    report.write_text("the last one")
    report.chmod(0o640)
    disk = FullDisk(monkeypatch, 1000)
    assert run(["simulate", DEMO, "--report", str(report), "--output", "json"]) == 2
    assert capsys.readouterr().err == f"stromboli: error: {report}: cannot be written: {FULL}\n"
    assert report.read_text() == "the last one"
    assert list(tmp_path.iterdir()) == [report]
    disk.left = 1 << 30
    assert run(["simulate", DEMO, "--report", str(report), "--output", "json"]) == 0
    assert report.read_text().startswith("<!doctype html>")
    assert report.stat().st_mode & 0o777 == 0o640


def test_a_recording_of_a_simulation_that_does_not_fit_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "decisions.jsonl"
    FullDisk(monkeypatch, 50_000)
    assert run(["simulate", DEMO, "--record", str(file), "--output", "json"]) == 2
    assert capsys.readouterr().err == f"stromboli: error: {file}: cannot be written: {FULL}\n"


@pytest.mark.parametrize("arguments", [["simulate", DEMO], ["simulate", DEMO, "-o", "json"], ["--help"]])
def test_an_answer_that_cannot_be_printed_is_one_line(arguments: list[str]) -> None:
    script = "import sys; from stromboli.console.main import run; sys.exit(run(sys.argv[1:]))"
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == f"stromboli: error: the output cannot be written: {FULL}\n"
    assert done.returncode == 2


def test_a_recording_ends_with_its_last_whole_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Given a disk that is full in the middle of a line, the part of it is taken back, the log has one line, and the
    scheduler goes on. A recording that begins when there is space is whole again."""
    file = tmp_path / "decisions.jsonl"
    registry = Registry()
    configuration = registry.default()
    recorder = Recorder(file, "volcano")
    recorder.cycle(configuration, 1.0, [Applied(node("n1"))], [])
    before = file.read_bytes()
    disk = FullDisk(monkeypatch, 100)
    for second in range(3):
        recorder.cycle(configuration, 2.0 + second, [Applied(pod("ns/p"))], [])
    assert file.read_bytes() == before
    assert [record.getMessage() for record in caplog.records] == ["the recording ends, because it cannot be written"]
    assert caplog.records[0].exc_info is None
    disk.left = 1 << 30
    second_one = Recorder(file, "volcano")
    second_one.cycle(configuration, 9.0, [], [])
    second_one.close()
    steps = list(read_steps(file.read_bytes().splitlines(), "test"))
    assert [step.now for step in steps if step.decisions is not None] == [1.0, 9.0]


def test_recordings_of_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can guess where one is written, or read it. One that does not fit is said once and leaves nothing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    registry = Registry()
    scheduler = Scheduler(registry.default(), registry)
    now = 0.0
    recordings = ErrorRecordings(None, "volcano", clock=lambda: now)
    disk = FullDisk(monkeypatch, 100)
    assert recordings.write([Applied(node("n1"))], scheduler, 1.0, CycleInputs()) == ""
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []
    assert [record.getMessage() for record in caplog.records] == ["the cycle with the error cannot be recorded"]
    disk.left = 1 << 30
    names = []
    for _ in range(2):
        now += 100.0
        names.append(recordings.write([Applied(node("n1"))], scheduler, 1.0, CycleInputs()))
    assert sorted(map(str, folder.iterdir())) == sorted(names)
    assert len(list(tmp_path.iterdir())) == 1
    for name in names:
        assert Path(name).stat().st_mode & 0o777 == 0o600
        assert str(os.getpid()) not in Path(name).name.split("-")
    other = ErrorRecordings(None, "volcano")
    assert not Path(other.write([], scheduler, 1.0, CycleInputs())).is_relative_to(folder)


def test_recordings_of_errors_come_once_a_minute_and_not_for_ever(tmp_path: Path) -> None:
    registry = Registry()
    scheduler = Scheduler(registry.default(), registry)
    now = 0.0
    recordings = ErrorRecordings(tmp_path, "volcano", clock=lambda: now)
    written = []
    for _ in range(50):
        written.append(recordings.write([], scheduler, 1.0, CycleInputs()))
        now += 30.0
    assert [bool(name) for name in written] == [True, False] * 20 + [False] * 10
    assert sorted(map(str, tmp_path.iterdir())) == sorted(filter(None, written))


def test_links_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(victim)
    for use in (lambda: write_output(link, b"x"), lambda: append(link, b"x"), lambda: os.close(open_for_append(link))):
        with pytest.raises(UserError, match="it is a symbolic link; name the file that it points to"):
            use()
    with pytest.raises(FileExistsError):
        new_private_file(link, b"x")
    with pytest.raises(FileExistsError):
        new_private_file(victim, b"x")
    assert victim.read_text() == "mine"
    with pytest.raises(UserError, match="Is a directory"):
        write_output(tmp_path, b"x")


def test_a_link_that_appears_after_the_look_is_not_followed_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("mine")
    link.symlink_to(victim)
    monkeypatch.setattr(output_file, "_existing", lambda path: None)
    for use in (lambda: append(link, b"x"), lambda: os.close(open_for_append(link))):
        with pytest.raises(UserError, match="Too many levels of symbolic links"):
            use()
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("option", ["--record", "--report"])
def test_a_fifo_or_a_folder_is_one_line(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
    for name, problem in (("pipe", "is not a regular file"), ("socket", "is not a regular file"), (".", "directory")):
        assert run(["simulate", DEMO, option, str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("stromboli: error: ")
        assert error.count("\n") == 1
        assert problem in error
    with pytest.raises(UserError, match="it is not a regular file"):
        Recorder(tmp_path / "pipe", "volcano")


def test_a_recording_of_another_user_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "decisions.jsonl"
    file.write_text("")
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(UserError, match=r"--record .* belongs to another user"):
        Recorder(file, "volcano")


def test_devices_are_opened_as_they_are(tmp_path: Path) -> None:
    write_output(Path(os.devnull), b"x")
    append(Path(os.devnull), b"x", anew=True)
    with pytest.raises(UserError, match=FULL):
        write_output(Path("/dev/full"), b"x")
    file = tmp_path / "file"
    with file.open("wb") as opened:
        write_output(Path(f"/dev/fd/{opened.fileno()}"), b"through a descriptor")
    assert file.read_bytes() == b"through a descriptor"
    for name in ("/dev/stdout", "/dev/../dev/fd/1", "/proc/self/fd/1"):
        assert output_file._is_device_path(Path(name))
    for name in ("/dev/shm/report.html", "/dev/../tmp/report.html", "/proc/1/root/tmp/report.html"):
        assert not output_file._is_device_path(Path(name))
