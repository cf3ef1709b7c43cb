"""The process of a sandbox by itself: what it leaves behind, with namespaces and without, for root and for others."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from stromboli.kube.runner.sandbox_process import CannotRun, Ended, SandboxProcess, Spec, why_not_isolated
from stromboli.sandbox.file_view import CannotMount, FileView, Mount
from stromboli.sandbox.namespaces import unshare

from .machine import eventually, is_alive

WAYS = pytest.mark.parametrize("isolated", [True, False])
NOBODY = 65534
PR_SET_DUMPABLE = 4


def spec(folder: Path, script: str, *, isolated: bool) -> Spec:
    if isolated and (why := asyncio.run(why_not_isolated())):
        pytest.skip(f"no namespaces here: {why}")
    (folder / "root").mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"]}
    return Spec(["sh", "-c", script], environment, folder / "log", isolated=isolated, staging=folder / "root")


def numbers(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


@WAYS
@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_nothing_that_was_started_goes_on(tmp_path: Path, *, isolated: bool, how: str) -> None:
    """Neither in its session nor in one of its own, nor a daemon that has left its parents. Inside, a process has
    another number than outside, so a pipe says whether one is left that holds its other end."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"exec 9>{fifo}; sleep 1000 & (setsid sleep 1000 &) ; (setsid nohup sleep 1000 >/dev/null 2>&1 &) ; "
    script += "exit 5" if how == "ends" else "exec sleep 1000"

    async def story() -> None:
        holds = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        try:
            process = await SandboxProcess.launch(spec_)
            if how == "is killed":
                await asyncio.sleep(0.3)
                process.kill()
            ended = await process.wait()
            assert ended == (Ended(5) if how == "ends" else Ended(137, 9))
            await eventually(lambda: os.read(holds, 1) == b"")
        finally:
            os.close(holds)

    spec_ = spec(tmp_path, script, isolated=isolated)
    asyncio.run(story())


@WAYS
def test_the_program_dies_when_who_started_it_is_killed(tmp_path: Path, *, isolated: bool) -> None:
    spec_ = spec(tmp_path, f"(setsid sleep 1000 &) ; echo up > {tmp_path}/up; exec sleep 1000", isolated=isolated)
    parent = os.fork()
    if parent == 0:
        try:
            asyncio.run(_launch_and_stay(spec_))
        finally:
            os._exit(1)

    async def story() -> None:
        await eventually(lambda: (tmp_path / "up").exists())
        processes = _below(parent)
        assert len(processes) >= 3  # the sandbox, the program, and what it detached
        os.kill(parent, 9)
        os.waitpid(parent, 0)
        await eventually(lambda: not any(is_alive(one) for one in processes))

    asyncio.run(story())


async def _launch_and_stay(spec_: Spec) -> None:
    await SandboxProcess.launch(spec_)
    await asyncio.sleep(1000)


def _below(parent: int) -> list[int]:
    found, rest = [], [parent]
    while rest:
        children = Path(f"/proc/{rest[0]}/task/{rest.pop(0)}/children")
        for child in children.read_text().split() if children.exists() else ():
            found.append(int(child))
            rest.append(int(child))
    return found


@WAYS
def test_commands_beside_the_program_have_an_end_and_a_time_limit(tmp_path: Path, *, isolated: bool) -> None:
    async def story() -> None:
        process = await SandboxProcess.launch(spec_)
        done = await process.execute(["sh", "-c", "echo said; exit 4"], 30)
        assert (done.code, done.output, done.timed_out) == (4, "said\n", False)
        late = await process.execute(["sleep", "1000"], 0.2)
        assert (late.code, late.timed_out) == (137, True)
        missing = await process.execute(["no-such-program"], 30)
        assert missing.output == "there is no program no-such-program on this machine"
        process.send_signal(15)
        assert await process.wait() == Ended(143, 15)
        assert (await process.execute(["true"], 30)).code == 137

    spec_ = spec(tmp_path, "exec sleep 1000", isolated=isolated)
    asyncio.run(story())


@WAYS
def test_a_program_that_is_missing_is_named(tmp_path: Path, *, isolated: bool) -> None:
    spec_ = spec(tmp_path, "true", isolated=isolated)
    with pytest.raises(CannotRun, match="there is no program no-such on this machine"):
        asyncio.run(SandboxProcess.launch(Spec(["no-such"], spec_.environment, spec_.log, isolated=isolated,
                                               staging=spec_.staging)))  # fmt: skip


@WAYS
def test_output_without_a_line_break_and_after_a_fork_is_in_the_log(tmp_path: Path, *, isolated: bool) -> None:
    async def story() -> None:
        process = await SandboxProcess.launch(spec_)
        await process.wait()

    spec_ = spec(tmp_path, "echo whole; echo wrong >&2; printf half", isolated=isolated)
    asyncio.run(story())
    records = [line.split(" ", 3)[1:] for line in spec_.log.read_text().splitlines()]
    assert sorted(records) == [["stderr", "F", "wrong"], ["stdout", "F", "whole"], ["stdout", "P", "half"]]


@WAYS
def test_a_program_has_ended_though_others_that_it_started_write_on(tmp_path: Path, *, isolated: bool) -> None:
    async def story() -> Ended:
        process = await SandboxProcess.launch(spec_)
        try:
            return await asyncio.wait_for(process.wait(), 20)
        finally:
            process.kill()

    spec_ = spec(tmp_path, "yes & (setsid yes &); sleep 0.2; exit 7", isolated=isolated)
    assert asyncio.run(story()) == Ended(7)


def in_namespaces(do: Callable[[], None], *, user: int) -> str:
    """What went wrong when a process of this user does it in namespaces of its own; nothing if it went well."""
    read, written = os.pipe()
    outer = os.fork()
    if outer == 0:
        try:
            if user != os.geteuid():
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
                ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)  # as any program of that user is
            unshare()
            first = os.fork()
            if first:
                os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
            do()
        except BaseException as error:
            os.write(written, "".join(traceback.format_exception_only(error)).encode()[:4000])
        os._exit(0)
    os.close(written)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(outer, 0)
    return said


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can be another user for a moment")
@pytest.mark.parametrize("user", [0, NOBODY])
def test_files_are_where_they_are_expected_for_root_and_for_others(tmp_path: Path, user: int) -> None:
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    source, staging = tmp_path / "source", tmp_path / "staging"
    source.mkdir(mode=0o755)
    staging.mkdir()
    (source / "file").write_text("content")
    os.chown(staging, user, user)

    def look() -> None:
        mounts = [
            Mount(str(source), "/new/deep"),
            Mount(str(source), "/etc/new", read_only=True),
            Mount(str(source / "file"), "/etc/new-file"),
        ]
        FileView(str(staging)).make(mounts)
        for path in ("/new/deep/file", "/etc/new/file", "/etc/new-file"):
            assert Path(path).read_text() == "content", path
        assert Path("/etc/passwd").exists()
        assert os.geteuid() == user
        try:
            Path("/etc/new/other").touch()
        except OSError:
            return
        raise AssertionError("it could be written to")

    assert in_namespaces(look, user=user) == ""
    assert not Path("/new").exists()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs mounts")
def test_no_folder_is_made_in_folders_of_people(tmp_path: Path) -> None:
    """What a program writes beside it would be lost."""

    def look() -> None:
        with pytest.raises(CannotMount, match=r"is not made for a pod; make it \(mkdir -p"):
            FileView(str(tmp_path)).make([Mount("/etc", f"{tmp_path}/results/new")])

    assert in_namespaces(look, user=0) == ""
