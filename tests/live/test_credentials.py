"""Credentials and their renewal: token files and exec plugins."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kube.certificates import Authority
from live.fake_api_server import FakeApiServer, pod, status
from stromboli.errors import UserError
from stromboli.kube.client import PODS, Client, Failure
from stromboli.kube.client.auth import Credentials, StaticCredentials, TokenFile
from stromboli.kube.client.auth import exec_plugin as exec_module
from stromboli.kube.client.auth.credentials import TOKEN_FILE_SECONDS, bearer
from stromboli.kube.client.auth.exec_plugin import ExecConfig, ExecPlugin, ExecVariable
from stromboli.kube.client.auth.tls import Trust


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def token_of(credentials: Credentials) -> str:
    return asyncio.run(credentials.identify()).headers["Authorization"].removeprefix("Bearer ")


def asking(credentials: Credentials, valid: str, *, times: int = 1) -> FakeApiServer:
    """A server that lets in whoever shows one token, asked by a client with the credentials."""

    async def guard(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {valid}":
            return status(401, "Unauthorized")
        return web.json_response({"major": "1", "minor": "20"})

    async def run() -> FakeApiServer:
        async with FakeApiServer() as server, Client(server.config(credentials)) as client:
            server.instead("GET", "/version", guard, times=1000)
            await asyncio.gather(*(client.server_version() for _ in range(times)))
            return server

    return asyncio.run(run())


def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("one\n")
    credentials = TokenFile(file, clock=clock)
    assert token_of(credentials) == "one"
    file.write_text("two\n")
    clock.now += TOKEN_FILE_SECONDS - 1
    assert token_of(credentials) == "one"
    clock.now += 1
    assert token_of(credentials) == "two"


def test_the_last_token_is_used_while_the_file_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("one\n")
    credentials = TokenFile(file, clock=clock)
    assert token_of(credentials) == "one"
    file.unlink()
    clock.now += TOKEN_FILE_SECONDS
    assert token_of(credentials) == token_of(credentials) == "one"
    assert caplog.text.count("cannot be read") == 1
    file.write_text("two\n")
    clock.now += TOKEN_FILE_SECONDS
    assert token_of(credentials) == "two"


def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = TokenFile(file)
    token_of(credentials)
    file.write_text("two")
    server = asking(credentials, "two")
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer one", "Bearer two"]


def test_the_refusal_of_an_old_token_does_not_discard_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = TokenFile(file)

    async def story() -> None:
        old = await credentials.identify()
        assert credentials.refused(old)
        new = await credentials.identify()
        assert credentials.refused(old)
        assert await credentials.identify() is new

    asyncio.run(story())


def test_a_token_that_stays_refused_fails_after_one_retry(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret")
    with pytest.raises(Failure) as caught:
        asking(TokenFile(file), "another")
    assert caught.value.status == 401
    assert "s3cret" not in str(caught.value)


def test_static_credentials_are_not_retried() -> None:
    seen: list[str] = []

    async def run() -> None:
        async with FakeApiServer() as server, Client(server.config(StaticCredentials(bearer("s3cret")))) as client:

            async def refuse(request: web.Request) -> web.StreamResponse:
                seen.append(request.path)
                return status(401, "Unauthorized")

            server.instead("GET", "/version", refuse, times=10)
            with pytest.raises(Failure):
                await client.server_version()

    asyncio.run(run())
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read"), ("\n", "is empty"), ("a\nb", "several lines")]
)
def test_a_file_without_a_token_is_a_failure_and_nothing_is_sent(
    content: str | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Failure, match=message) as caught:
        asking(TokenFile(file), "any")
    assert caught.value.status == 0


def test_a_watch_logs_in_like_any_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    async def run() -> None:
        credentials = TokenFile(file)
        await credentials.identify()
        file.write_text("two")
        async with FakeApiServer() as server, Client(server.config(credentials)) as client:

            async def guard(request: web.Request) -> web.StreamResponse:
                assert request.headers["Authorization"] == "Bearer one"
                return status(401, "Unauthorized")

            server.instead("GET", "/pods", guard)
            server.put(pod("a"))
            events = client.watch(PODS, "100")
            assert (await anext(events)).object.metadata.name == "a"
            await events.aclose()
            assert server.watches()[1].headers["Authorization"] == "Bearer two"

    asyncio.run(run())


# Programs that log in for us

PROGRAM = """
import json, os, sys
with open(sys.argv[1], "a") as log:
    log.write(json.dumps({
        "info": os.environ["KUBERNETES_EXEC_INFO"],
        "env": os.environ.get("REGION"),
        "args": sys.argv[2:],
        "stdin": sys.stdin.read(),
    }) + "\\n")
number = len(open(sys.argv[1]).readlines())
print(open(sys.argv[1] + ".answer").read().replace("NUMBER", str(number)))
sys.exit(int(os.environ.get("EXIT", "0")))
"""

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


class Program:
    """A small plugin that writes down how it was run, and answers what the test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "plugin.py"
        self.script.write_text(PROGRAM)
        self.log = folder / "log"
        self.answer(token="token-NUMBER")

    def answer(self, version: str = V1, **answer: Any) -> None:
        self.answer_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": answer}))

    def answer_text(self, text: str) -> None:
        (self.folder / "log.answer").write_text(text)

    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def config(self, **options: Any) -> ExecConfig:
        args = ["-I", str(self.script), str(self.log), "x; echo $HOME"]
        return ExecConfig(**({"api_version": V1, "command": sys.executable, "args": args} | options))

    def plugin(self, clock: Callable[[], float] | None = None, **options: Any) -> ExecPlugin:
        cluster = {"server": "https://10.0.0.1", "certificate-authority-data": b"PEM", "config": {"audience": "x"}}
        if clock is None:
            return ExecPlugin(self.config(**options), self.folder, Trust(), cluster)
        return ExecPlugin(self.config(**options), self.folder, Trust(), cluster, clock=clock)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_plugin_is_run_once_with_its_environment(program: Program) -> None:
    plugin = program.plugin(env=[ExecVariable("REGION", "eu")], interactive_mode="IfAvailable")
    assert token_of(plugin) == token_of(plugin) == "token-1"
    (run,) = program.runs()
    assert run["args"] == ["x; echo $HOME"], "no shell has had a say"
    assert (run["env"], run["stdin"]) == ("eu", "")
    assert json.loads(run["info"]) == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}


def test_a_plugin_gets_cluster_info_on_request(program: Program) -> None:
    program.answer(V1BETA1, token="t")
    assert token_of(program.plugin(api_version=V1BETA1, provide_cluster_info=True)) == "t"
    info = json.loads(program.runs()[0]["info"])
    assert info["apiVersion"] == V1BETA1
    assert info["spec"]["cluster"] == {
        "server": "https://10.0.0.1",
        "certificate-authority-data": "UEVN",
        "config": {"audience": "x"},
    }


def test_a_token_is_renewed_shortly_before_it_expires(program: Program) -> None:
    clock = Clock()
    clock.now = 1_893_456_000.0  # 2030-01-01T00:00:00Z
    program.answer(token="token-NUMBER", expirationTimestamp="2030-01-01T01:00:00Z")
    plugin = program.plugin(clock)
    assert token_of(plugin) == "token-1"
    clock.now += 3600 - exec_module.EARLY_SECONDS - 1
    assert token_of(plugin) == "token-1"
    clock.now += 1
    assert token_of(plugin) == "token-2"


def test_of_many_refused_requests_only_one_renews_the_credential(program: Program) -> None:
    plugin = program.plugin()
    token_of(plugin)
    server = asking(plugin, "token-2", times=20)
    assert len(program.runs()) == 2
    assert len(server.seen) <= 40


def test_a_plugin_may_provide_a_client_certificate(program: Program, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, alice = authority.server(), authority.client("alice")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    tls.load_cert_chain(own.certificate, own.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    program.answer(clientCertificateData=alice.certificate.read_text(), clientKeyData=alice.key.read_text())
    trust = Trust(authority.certificate.read_bytes())
    plugin = ExecPlugin(program.config(), program.folder, trust, {})

    async def run() -> tuple[int, int]:
        async with FakeApiServer(tls=tls) as server, Client(server.config(plugin, trust=trust.context())) as client:
            return await client.server_version()

    assert asyncio.run(run()) == (1, 20)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("s3cret", "printed no ExecCredential"),
        ('{"kind": "ExecCredential", "apiVersion": "v2", "status": {"token": "s3cret"}}', f"no ExecCredential of {V1}"),
        (f'{{"kind": "ExecCredential", "apiVersion": "{V1}"}}', "neither a token nor"),
        (
            f'{{"kind": "ExecCredential", "apiVersion": "{V1}", "status": {{"clientKeyData": "s3cret"}}}}',
            "neither a token nor",
        ),
        (
            f'{{"kind": "ExecCredential", "apiVersion": "{V1}",'
            ' "status": {"clientKeyData": "s3cret", "clientCertificateData": "s3cret"}}',
            "not PEM or does not match",
        ),
        (
            f'{{"kind": "ExecCredential", "apiVersion": "{V1}", "status": {{"token": "s3cret\\ns3cret"}}}}',
            "cannot be used in a header",
        ),
        (
            f'{{"kind": "ExecCredential", "apiVersion": "{V1}",'
            ' "status": {"token": "s3cret", "expirationTimestamp": "tomorrow"}}',
            "not a timestamp",
        ),
    ],
)
def test_invalid_plugin_output_is_a_failure_without_secrets(answer: str, message: str, program: Program) -> None:
    program.answer_text(answer)
    with pytest.raises(Failure, match=message) as caught:
        token_of(program.plugin())
    assert "s3cret" not in str(caught.value)
    program.answer(token="good")
    assert token_of(program.plugin()) == "good"


def test_a_plugin_that_fails_is_a_failure(program: Program) -> None:
    with pytest.raises(Failure, match="ended with status 3; run it by hand"):
        token_of(program.plugin(env=[ExecVariable("EXIT", "3")]))


def test_a_plugin_that_never_ends_is_killed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_module, "PLUGIN_SECONDS", 0.1)
    program.script.write_text("import signal\nsignal.pause()")
    with pytest.raises(Failure, match="did not finish"):
        token_of(program.plugin())


def test_what_a_plugin_started_is_killed_with_it(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a plugin whose child keeps its output open, nobody waits for the child, and it does not stay."""
    monkeypatch.setattr(exec_module, "PLUGIN_SECONDS", 5.0)
    program.script.write_text(
        "import os, signal, sys, time\n"
        "child = os.fork()\n"
        "if not child:\n    signal.pause()\n"
        "open(sys.argv[1], 'w').write(str(child))\n"
        "print('x')\nsys.stdout.flush()\n"
        "signal.pause()\n"
    )
    monkeypatch.setattr(exec_module, "LARGEST_OUTPUT", 1)
    with pytest.raises(Failure, match="printed more than 1 bytes"):
        token_of(program.plugin())
    child = int(program.log.read_text())
    for _ in range(1000):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX":
            return
        time.sleep(0.01)
    raise AssertionError("the child still runs")


def test_a_plugin_that_prints_without_end_is_ended(program: Program) -> None:
    program.script.write_text("import sys\nwhile True: sys.stdout.write('x' * 65536)")
    with pytest.raises(Failure, match=f"printed more than {exec_module.LARGEST_OUTPUT} bytes"):
        token_of(program.plugin())


def test_a_plugin_that_prints_nested_lists_is_a_failure(program: Program) -> None:
    program.answer_text('{"status": ' + "[" * 100_000)
    with pytest.raises(Failure, match="printed no ExecCredential"):
        token_of(program.plugin())


def test_a_plugin_is_not_searched_where_we_are_started(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kubectl: an entry of PATH that is not absolute does not count."""
    planted = program.folder / "aws"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.chdir(program.folder)
    for path in (".", "", f".{os.pathsep}/nowhere"):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(UserError, match="aws is not installed"):
            program.plugin(command="aws")
    monkeypatch.setenv("PATH", str(program.folder))
    program.plugin(command="aws")


def test_a_cancelled_request_kills_its_plugin(program: Program) -> None:
    program.script.write_text("import os, signal, sys\nopen(sys.argv[1], 'w').write(str(os.getpid()))\nsignal.pause()")

    async def story() -> None:
        waiting = asyncio.create_task(program.plugin().identify())
        await until(lambda: program.log.exists() and program.log.read_text() != "")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.01)

    asyncio.run(story())
    assert not Path(f"/proc/{program.log.read_text()}").exists()


def test_a_failure_to_log_in_is_a_failure_of_the_request(program: Program) -> None:
    program.answer_text("")
    with pytest.raises(Failure, match="credential plugin") as caught:
        asking(program.plugin(), "any")
    assert (caught.value.status, caught.value.reason) == (0, "Credentials")
    assert len(program.runs()) == 1, "a program is not run again and again for one request"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interactive_mode": "Always"}, "requires a terminal"),
        ({"api_version": ""}, "uses no API version; upgrade it"),
        ({"command": "no-such-program"}, "no-such-program is not installed: get it from the shop"),
        ({"command": "./no-such-program"}, "is not installed"),
    ],
)
def test_a_bad_plugin_configuration_is_refused_at_once(options: dict[str, Any], message: str, program: Program) -> None:
    with pytest.raises(UserError, match=message):
        program.plugin(install_hint="get it\nfrom the shop", **options)


def test_a_plugin_path_is_relative_to_the_kubeconfig(program: Program) -> None:
    (program.folder / "bin").mkdir()
    launcher = program.folder / "bin" / "login"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -I "$@"\n')
    launcher.chmod(0o755)
    plugin = program.plugin(command="bin/login", args=[str(program.script), str(program.log)])
    assert token_of(plugin) == "token-1"
