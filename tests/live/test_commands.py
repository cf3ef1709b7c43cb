"""`stromboli scheduler`, `controllers` and `run`: help, errors, and servers that do not respond."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from live.fake_api_server import FakeApiServer, always, status
from stromboli.console import main as console

COMMANDS = ["scheduler", "controllers", "run"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples_and_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"  stromboli {command} --kubeconfig" in shown
    for option in ("--context", "--no-leader-elect", "--lease-duration", "--probe-port", "--log-format"):
        assert option in shown
    assert ("--period" in shown) == (command != "controllers")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_names_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(["--help"]) == 0
    assert f"\n  {command} " in capsys.readouterr().out


MISTAKES = {
    "no such option": ["--perod", "1s"],
    "a period that is no time": ["--period", "soon"],
    "a period of nothing": ["--period", "0s"],
    "a lease of nothing": ["--lease-duration", "0s"],
    "a port that is none": ["--probe-port", "70000"],
    "a rate of nothing": ["--qps", "0"],
    "a burst of nothing": ["--burst", "0"],
    "a level that is none": ["--log-level", "loud"],
}


@pytest.mark.parametrize("arguments", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line_and_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STROMBOLI_DEBUG", raising=False)
    assert console.run(["scheduler", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("stromboli: error: ")
    assert shown.err.count("\n") == 1


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {}}],
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path


class Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    async def says(self, words: str, times: int = 1) -> None:
        while sum(words in line for line in self.lines) < times:
            assert self.process.returncode is None, "".join(self.lines)
            await asyncio.sleep(0.02)

    async def ends(self) -> int:
        """Its exit status; whatever that is, no traceback was shown."""
        status = await self.process.wait()
        assert not [line for line in self.lines if "Traceback" in line], "".join(self.lines)
        return status


@asynccontextmanager
async def started(path: Path, *arguments: str) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from stromboli.console.main import main; main()", *arguments,
        "--kubeconfig", str(path), "--probe-port", "0",
        stderr=asyncio.subprocess.PIPE, env=os.environ | {"KUBERNETES_SERVICE_HOST": ""},
    )  # fmt: skip
    child = Child(process)
    reading = asyncio.create_task(child.read())
    try:
        async with asyncio.timeout(120):
            yield child
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


def test_a_kubeconfig_that_is_not_there_is_one_line_and_status_2(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(tmp_path / "none", "scheduler") as child:
            assert await child.ends() == 2
        [line] = child.lines
        assert line.startswith("stromboli: error: ")
        assert "none" in line

    asyncio.run(story())


def test_an_unreachable_server_is_retried_until_a_signal(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            url = server.url
        path = kubeconfig(tmp_path, url)  # nobody listens there any more
        async with started(path, "scheduler", "--no-leader-elect", "--period", "100ms") as child:
            await child.says("the API server does not answer yet", times=2)
            child.process.send_signal(signal.SIGTERM)
            assert await child.ends() == 0, "".join(child.lines)

    asyncio.run(story())


@pytest.mark.parametrize(("command", "kinds"), [("scheduler", "queues|reservations"), ("controllers", "jobs|commands")])
def test_missing_definitions_are_named_with_what_to_apply(tmp_path: Path, command: str, kinds: str) -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            missing = f"/({kinds})$"
            server.instead("GET", missing, always(lambda: status(404, "NotFound")), times=1_000_000)
            path = kubeconfig(tmp_path, server.url)
            async with started(path, command, "--no-leader-elect") as child:
                await child.says("the resource definitions are not installed; run: kubectl apply -k deploy/crds")
                child.process.send_signal(signal.SIGINT)
                assert await child.ends() == 0, "".join(child.lines)

    asyncio.run(story())


def test_one_lease_for_a_component_however_it_is_started(tmp_path: Path) -> None:
    """`run` has both leases; a scheduler that is started beside it is a standby, until `run` stops."""

    async def story() -> None:
        async with FakeApiServer() as server:
            path = kubeconfig(tmp_path, server.url)

            def holder(component: str) -> str:
                lease = server.stored("leases", f"stromboli-system/stromboli-{component}") or {}
                return str(lease.get("spec", {}).get("holderIdentity", ""))

            async with started(path, "run") as both:
                await both.says("became the leader", times=2)
                assert holder("scheduler") == holder("controllers") != ""
                async with started(path, "scheduler") as alone:
                    await alone.says("another process is the leader")
                    both.process.send_signal(signal.SIGTERM)
                    assert await both.ends() == 0, "".join(both.lines)
                    await alone.says("became the leader")
                    assert (bool(holder("scheduler")), holder("controllers")) == (True, "")

    asyncio.run(story())


def test_a_scheduler_of_another_name_has_a_lease_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            path = kubeconfig(tmp_path, server.url)
            async with started(path, "scheduler", "--scheduler-name", "mine") as child:
                await child.says("became the leader")
                assert server.stored("leases", "stromboli-system/stromboli-scheduler-mine")

    asyncio.run(story())


def test_a_stopped_leader_releases_its_lease(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            path = kubeconfig(tmp_path, server.url)
            async with started(path, "scheduler", "--lease-namespace", "kube-system") as child:
                await child.says("synced with the cluster")
                await child.says("became the leader")
                child.process.send_signal(signal.SIGTERM)
                assert await child.ends() == 0, "".join(child.lines)
                lease = server.stored("leases", "kube-system/stromboli-scheduler")
                assert lease is not None
                assert not lease["spec"].get("holderIdentity")

    asyncio.run(story())
