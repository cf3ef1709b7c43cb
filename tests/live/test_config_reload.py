"""The configuration file, changed in every way in which files change."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stromboli.errors import UserError
from stromboli.kube.runtime import ConfigurationFile
from stromboli.scheduling.configuration.configuration_file import Configuration
from stromboli.scheduling.registry import Registry


def load(text: str, where: str) -> str:
    if "bad" in text:
        raise UserError(f"{where}: {text.strip()} cannot be used")
    return text.strip()


class Watched:
    """A file and who is told of its changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = ConfigurationFile(path, load, built_in=lambda: "built in", interval=0.002)
        self.changes: list[str] = []
        self.refusals: list[str] = []

    def write(self, content: str | bytes, *, modified: float | None = None) -> None:
        """All at once: what a reader sees of a file being written is a matter of luck."""
        new = self.path.with_suffix(".new")
        new.write_bytes(content.encode() if isinstance(content, str) else content)
        if modified is not None:
            os.utime(new, (modified, modified))
        new.replace(self.path)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.002)

    async def looked_again(self, times: int = 4) -> None:
        """Until the file was read a few times more."""
        reads = 0
        read = self.file._read

        def counted() -> bytes | None:
            nonlocal reads
            reads += 1
            return read()

        self.file._read = counted  # type: ignore[method-assign]
        await self.until(lambda: reads > times)
        self.file._read = read  # type: ignore[method-assign]

    def tell(self, story: Callable[[], Awaitable[None]]) -> None:
        async def play() -> None:
            running = asyncio.create_task(self.file.run(self.changes.append, self.refusals.append))
            try:
                await story()
                assert not running.done()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

        asyncio.run(play())


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    path = tmp_path / "scheduler.yaml"
    path.write_text("one\n")
    return Watched(path)


def test_new_content_is_loaded(watched: Watched) -> None:
    async def story() -> None:
        watched.write("two\n")
        await watched.until(lambda: watched.changes == ["two"])

    assert watched.file.current == "one"
    watched.tell(story)
    assert watched.file.current == "two"
    assert watched.refusals == []


def test_unchanged_content_is_no_change(watched: Watched) -> None:
    async def story() -> None:
        watched.write("one\n", modified=1)
        await watched.looked_again()

    watched.tell(story)
    assert watched.changes == []


def test_a_replaced_file_is_detected(watched: Watched) -> None:
    async def story() -> None:
        watched.write("two\n", modified=1)  # older than the file it replaces
        await watched.until(lambda: watched.changes == ["two"])

    watched.tell(story)


def test_the_update_of_a_config_map_is_detected(tmp_path: Path) -> None:
    """The kubelet's way: the file is a link into `..data`, which is a link to a directory, which is turned."""

    def version(name: str, text: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "scheduler.yaml").write_text(text)
        (tmp_path / "..tmp").symlink_to(name)
        (tmp_path / "..tmp").rename(tmp_path / "..data")

    version("..2030_01", "one\n")
    (tmp_path / "scheduler.yaml").symlink_to("..data/scheduler.yaml")
    watched = Watched(tmp_path / "scheduler.yaml")

    async def story() -> None:
        version("..2030_02", "two\n")
        (tmp_path / "..2030_01" / "scheduler.yaml").unlink()
        (tmp_path / "..2030_01").rmdir()
        await watched.until(lambda: watched.changes == ["two"])

    watched.tell(story)


def test_bad_content_is_refused_once_and_the_old_configuration_stays(watched: Watched) -> None:
    async def story() -> None:
        watched.write("bad\n")
        await watched.until(lambda: len(watched.refusals) == 1)
        await watched.looked_again()
        watched.write("bad again\n")
        await watched.until(lambda: len(watched.refusals) == 2)
        assert watched.file.current == "one"
        watched.write("two\n")
        await watched.until(lambda: watched.changes == ["two"])

    watched.tell(story)
    assert watched.refusals == [
        f"{watched.path}: bad cannot be used",
        f"{watched.path}: bad again cannot be used",
    ]


def test_reverting_bad_content_changes_nothing(watched: Watched) -> None:
    async def story() -> None:
        watched.write("bad\n")
        await watched.until(lambda: len(watched.refusals) == 1)
        watched.write("one\n")
        await watched.looked_again()
        watched.write("bad\n")
        await watched.until(lambda: len(watched.refusals) == 2)

    watched.tell(story)
    assert watched.changes == []
    assert watched.file.current == "one"


def test_binary_content_is_refused(watched: Watched) -> None:
    async def story() -> None:
        watched.write(b"\xff\xfe")
        await watched.until(lambda: bool(watched.refusals))

    watched.tell(story)
    assert watched.refusals == [f"{watched.path}: is not UTF-8 text"]


def test_a_missing_file_is_logged_once(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stromboli.configuration")

    async def story() -> None:
        watched.path.unlink()
        await watched.looked_again()
        assert watched.file.current == "one"
        watched.write("two\n")
        await watched.until(lambda: watched.changes == ["two"])

    watched.tell(story)
    assert watched.refusals == []
    assert [record.getMessage() for record in caplog.records] == [
        "configuration file cannot be read",
        "configuration file can be read again",
        "configuration changed",
    ]


def test_a_half_written_file_is_not_loaded(watched: Watched) -> None:
    """It reads differently every time, so somebody is still writing."""
    parts = iter(["half", "half of it", "half of it, and"])

    async def story() -> None:
        read = watched.file._read
        watched.file._read = lambda: next(parts, "").encode() or read()  # type: ignore[method-assign]
        watched.write("two\n")
        await watched.until(lambda: bool(watched.changes))

    watched.tell(story)
    assert watched.changes == ["two"]


def test_without_a_file_the_built_in_one_is_in_force() -> None:
    file = ConfigurationFile(None, load, built_in=lambda: "built in")
    assert file.current == "built in"

    async def story() -> None:
        running = asyncio.create_task(file.run(lambda _: None, lambda _: None))
        await asyncio.sleep(0)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())


def test_at_the_start_a_bad_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    with pytest.raises(UserError, match=r"scheduler\.yaml: cannot be read: No such file"):
        ConfigurationFile(path, load, built_in=lambda: "")
    path.write_text("bad\n")
    with pytest.raises(UserError, match="bad cannot be used"):
        ConfigurationFile(path, load, built_in=lambda: "")


def test_the_schedulers_own_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("actions: enqueue, allocate\n")
    registry = Registry()
    refusals: list[str] = []
    file: ConfigurationFile[Configuration] = ConfigurationFile(
        path, lambda text, where: registry.load(text, where=where), built_in=registry.default, interval=0.002
    )

    async def story() -> None:
        running = asyncio.create_task(file.run(lambda _: None, refusals.append))
        path.write_text("actions: enqueue, alocate\n")
        async with asyncio.timeout(30):
            while not refusals:
                await asyncio.sleep(0.002)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())
    assert refusals[0].startswith(f"{path}, line 1: ")
    assert "alocate" in refusals[0]
    assert [action.name for action in file.current.actions] == ["enqueue", "allocate"]
