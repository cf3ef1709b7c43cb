"""The page of `stromboli run`: its token, and the address that is printed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from stromboli.console.main import run
from stromboli.embedded.embedded_cluster import EmbeddedCluster
from stromboli.errors import UserError
from stromboli.kube.client import Client, load_client_config
from stromboli.kube.commands.page import page_of_process
from stromboli.kube.page_server import PageComponent
from stromboli.kube.runtime import LoopLag, ProcessContext, ProcessMetrics, ProcessOptions


def serve(folder: Path, token_file: Path | None, given: str) -> int:
    """The status of a request with the token that is given."""

    async def main() -> int:
        server = EmbeddedCluster(folder, persistent=False)
        async with server, Client(load_client_config(server.kubeconfig, None)) as client:
            metrics = ProcessMetrics(CollectorRegistry(), LoopLag())
            context = ProcessContext(client, metrics, ProcessOptions(), "test")
            page = page_of_process(context, None, token_file, "127.0.0.1", 0, False)
            assert isinstance(page, PageComponent)
            stop = asyncio.Event()
            running = asyncio.create_task(page.run(stop))
            while page.not_ready_reason() is not None:
                await asyncio.sleep(0.01)
            headers = {"Authorization": f"Bearer {given}"}
            session = aiohttp.ClientSession(page.url, headers=headers)
            async with session, session.get("/api/stream") as response:
                status = response.status
            stop.set()
            await running
            return status

    return asyncio.run(main())


def test_a_token_from_a_file_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token_file = tmp_path / "page-token"
    token_file.write_text("a-token-for-the-page\n")
    assert serve(tmp_path / "data", token_file, "a-token-for-the-page") == 200
    printed = capsys.readouterr().out
    assert printed.startswith("The page: http://127.0.0.1:")
    assert "a-token-for-the-page" not in printed


def test_without_a_file_a_token_is_made_up_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(tmp_path / "data", None, "a-token-for-the-page") == 401
    assert len(capsys.readouterr().out.strip().partition("#token=")[2]) > 30


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    token_file = tmp_path / "page-token"
    token_file.write_text("short\n")
    with pytest.raises(UserError, match="at least 16 characters"):
        serve(tmp_path / "data", token_file, "short")


def test_the_options_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "up"):
        assert run([command, "--help"]) == 0
        assert "--web-write" in capsys.readouterr().out
