"""A server that refuses our credentials: said once, and asked again with what the kubeconfig says by then."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path

import pytest

from live.scripted_server import Authority, Received, ScriptedServer, answer
from stromboli.kube.client import Client, Failure
from stromboli.kube.client.auth import login, reloaded_credentials
from stromboli.kube.client.auth.kubeconfig import from_kubeconfig


def write_kubeconfig(path: Path, server: ScriptedServer, token: str) -> None:
    authority = base64.b64encode(server.authority.certificate.read_bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority-data": authority}
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content), encoding="utf-8")


class Accepting:
    def __init__(self, token: str) -> None:
        self.token = token

    async def __call__(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        known = received.headers.get("Authorization") == f"Bearer {self.token}"
        writer.write(answer() if known else answer(b"{}", status="401 Unauthorized"))
        return True


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(login, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(reloaded_credentials, "READ_AGAIN", 0.0)


def test_a_new_token_in_the_kubeconfig_is_used(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    refused = 0

    async def loop(client: Client) -> None:
        """What a reflector, a writer or an election does: try until it succeeds."""
        nonlocal refused
        while True:
            try:
                await client.request("GET", "/api")
                return
            except Failure:
                refused += 1

    async def main() -> None:
        accepting = Accepting("first")
        async with ScriptedServer(authority, accepting) as server:
            write_kubeconfig(kubeconfig, server, "first")
            async with Client(from_kubeconfig(kubeconfig)) as client:
                await client.request("GET", "/api")
                assert client.login_problem is None
                accepting.token = "second"
                clock = asyncio.get_running_loop().time
                began = clock()
                loops = [asyncio.create_task(loop(client)) for _ in range(20)]
                await asyncio.sleep(0.5)
                async with asyncio.timeout(60):
                    while (problem := client.login_problem) is None:
                        await asyncio.sleep(0.01)
                assert "refuses the credentials" in problem
                # 20 that were sent together, and then one after each pause: not as fast as the server answers.
                assert refused <= 20 + (clock() - began) / login.FIRST_PAUSE
                write_kubeconfig(kubeconfig, server, "second")
                await asyncio.wait_for(asyncio.gather(*loops), 60)
                assert client.login_problem is None

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    said = [record.getMessage() for record in caplog.records if "credentials" in record.getMessage()]
    assert len(said) == 2
    assert said[1] == "the API server accepts the credentials again"
    assert "first" not in "".join(said)
    assert "second" not in "".join(said)


def test_a_kubeconfig_that_is_broken_meanwhile_changes_nothing(authority: Authority, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"

    async def main() -> None:
        accepting = Accepting("first")
        async with ScriptedServer(authority, accepting) as server:
            write_kubeconfig(kubeconfig, server, "first")
            async with Client(from_kubeconfig(kubeconfig)) as client:
                accepting.token = "other"
                kubeconfig.write_text("clusters: [", encoding="utf-8")
                with pytest.raises(Failure) as caught:
                    await client.request("GET", "/api")
                assert caught.value.status == 401
                accepting.token = "first"
                await client.request("GET", "/api")

    asyncio.run(main())
