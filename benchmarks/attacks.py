"""Attack the listeners of `stromboli up`: the API server, the page, and the port of the descheduler.

    python benchmarks/attacks.py                                   # everything, half an hour
    python benchmarks/attacks.py --stages half-sent,connections
    python benchmarks/attacks.py --requests 2000 --token-requests 500 --minutes 0.2

It starts `stromboli up` with at most 1,024 open files, and sends what no client sends, with raw sockets: half of a
request, thousands of connections, thousands of requests in one piece, blank lines without end, requests that two
readers understand differently, random bytes in the right places, watches without end, bodies that are small and costly.
All the while it asks each listener for health, on a new connection every time. It prints what was answered, how long
health took, and the memory of the process before, at its most, and after. The exit status is 1 if there was a 5xx, if
health was not answered, or if the process ended. Request n of a seed is always the same.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

OPEN_FILES: Final = 1024
POLICY: Final = {
    "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "deschedulingInterval": "0s",
    "profiles": [{"name": "d", "pluginConfig": [{"name": "Defragmentation", "args": {"forPending": True}}],
                  "plugins": {"balance": {"enabled": ["Defragmentation"]}}}],
}  # fmt: skip
HIDDEN: Final = b"GET /hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "G\x00T", "")
VERSIONS: Final = ("HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "HTTP/1.1 x", "", "http/1.1")
HEADERS: Final = (
    "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999", "Content-Length: 5, 6",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding : chunked",
    "Host: evil.example", "Host: a@b", "Host: \xff", "Origin: http://evil.example", "Origin: null",
    "Expect: 100-continue",
    "Upgrade: websocket\r\nConnection: Upgrade", "Connection: close", "Connection: \x7f",
    "Authorization: Bearer \xe9\xff",
    "Authorization: " + "x" * 9000, "Content-Encoding: gzip", "Content-Type: application/yaml",
    "Content-Type: application/apply-patch+yaml", "Content-Type: \x00", "Accept: " + "a/b," * 500, "X: \x00",
    " folded: x",
    "no colon", ": empty", "Sec-Fetch-Site: cross-site", "Cookie: " + "a=b;" * 1000, "Range: bytes=0-", "Trailer: Host",
)  # fmt: skip
WELL_FORMED: Final = (
    "Origin: null", "Content-Encoding: gzip", "Content-Type: application/yaml", "Content-Type: text/html",
    "Content-Type: application/apply-patch+yaml", "Content-Type: application/json-patch+json", "Accept: text/html",
    "Content-Type: application/strategic-merge-patch+json", "Content-Type: application/merge-patch+json",
    "Content-Type: application/vnd.kubernetes.protobuf", "User-Agent: \xff\xfe", "X-Y: z",
    "Accept: */*;as=Table;v=\xff",
)  # fmt: skip
SCRAPS: Final = (
    b"", b"{", b"[]", b"null", b"{}" * 50, b"[" * 3000, b'{"a":' * 300 + b"1" + b"}" * 300, b"\xff\xfe\x00",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"5;a=b\r\nhello\r\n0\r\n\r\n", b"- " * 2000, b"a: &b [*b]",
    b'{"metadata":{"name":"x"}}',
    b'[{"op":"copy","from":"","path":"/a"}]', b'{"spec":{"$setElementOrder/containers":[1]}}',
    b"\x1f\x8b\x08" + b"\x00" * 100,
)  # fmt: skip
API_PATHS: Final = (
    "/api/v1/pods", "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps/x", "/version",
    "/openapi/v2",
    "/apis", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs", "/api/v1/namespaces/default/pods/x/log",
    "/api/v1/namespaces/default/pods/x/eviction", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x",
)  # fmt: skip
PAGE_PATHS: Final = ("/", "/api/why", "/api/actions", "/api/what-if", "/main.js", "/api/why?job=a/b", "/api/other")
PROBE_PATHS: Final = (
    "/metrics",
    "/descheduler/plan",
    "/descheduler/plan?for=a/b&profile=x",
    "/readyz?verbose",
    "/none",
)
TAILS: Final = (
    "", "?labelSelector=a%20in%20(", "?fieldSelector=%ff%fe", "?limit=-1", "?continue=%00", "/..%2f..", "/%00",
    "?watch=%F0%9F",
    "?" + "a=b&" * 400, "/" + "x" * 9000, "#x", "?fieldManager=\u00e9", "//", "?dryRun=All&dryRun=x",
)  # fmt: skip


@dataclass
class Listener:
    name: str
    port: int
    token: str
    paths: tuple[str, ...]
    health: str
    tls: ssl.SSLContext | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)


@dataclass
class Target:
    process: subprocess.Popen[str]
    listeners: list[Listener]

    def memory(self) -> float:
        """Resident, in MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024


@dataclass
class Stage:
    """What happened in one attack."""

    name: str
    statuses: Counter[str] = field(default_factory=Counter)
    health: list[float] = field(default_factory=list)
    unhealthy: int = 0
    memory: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        return self.unhealthy > 0 or any(status.startswith("5") for status in self.statuses)

    def row(self) -> str:
        health = sorted(self.health) or [0.0]
        answers = ", ".join(f"{count} × {status}" for status, count in sorted(self.statuses.items()))
        median, worst = health[len(health) // 2] * 1000, health[-1] * 1000
        before, most, after = self.memory[0], max(self.memory), self.memory[-1]
        return (
            f"| {self.name} | {answers or '-'} | {len(self.health)} of {len(self.health) + self.unhealthy}, "
            f"{median:.0f} ms, {worst:.0f} ms | {before:.0f}, {most:.0f}, {after:.0f} MiB |"
        )


# -- requests ---------------------------------------------------------------------------------------------------------


def malformed(dice: random.Random, listener: Listener, *, with_token: bool) -> bytes:
    """One request with something wrong in it."""
    wild = dice.random() < 0.4  # else it is HTTP, and only makes no sense
    path = dice.choice(listener.paths) + (dice.choice(TAILS) if dice.random() < 0.5 else "")
    lines = [f"{dice.choice(METHODS if wild else METHODS[:7])} {path} {dice.choice(VERSIONS[:2])}"]
    if wild and dice.random() < 0.2:
        lines = [f"GET {path} {dice.choice(VERSIONS)}"]
    if dice.random() < 0.95:
        lines.append(f"Host: 127.0.0.1:{listener.port}")
    if with_token:
        lines.append(f"Authorization: Bearer {listener.token}")
    lines += [dice.choice(HEADERS if wild else WELL_FORMED) for _ in range(dice.choice((0, 1, 1, 2, 4, 30)))]
    body = dice.choice(SCRAPS)
    if not wild or dice.random() < 0.6:
        lines.append(f"Content-Length: {len(body)}")
    ending = "\r\n" if not wild or dice.random() < 0.9 else dice.choice(("\n", "\r", "\r\r\n"))
    data = bytearray(ending.join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body)
    if wild and dice.random() < 0.5:
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


async def ask(listener: Listener, data: bytes, patience: float = 0.3) -> list[str]:
    """The statuses of all answers; `-` if the connection was closed or silent without one."""
    try:
        async with asyncio.timeout(10):
            reader, writer = await listener.connect()
    except (OSError, TimeoutError):
        return ["not connected"]
    found = b""
    try:
        writer.write(data)
        with contextlib.suppress(TimeoutError, OSError):
            while True:
                async with asyncio.timeout(patience if not found else 0.01):
                    piece = await reader.read(1 << 16)
                if not piece:
                    break
                found += piece
    finally:
        writer.transport.abort()
    return [match.decode() for match in re.findall(rb"HTTP/1\.[01] (\d+) ", found)] or ["-"]


# -- attacks ----------------------------------------------------------------------------------------------------------


async def half_sent(target: Target, stage: Stage, count: int) -> None:
    """So many connections to each listener with half of a request, held for three seconds."""
    for listener in target.listeners:
        opened = await _open(listener, count, b"GET / HTTP/1.1\r\nHost: ", stage)
        await asyncio.sleep(3)
        for writer in opened:
            writer.transport.abort()
    await asyncio.sleep(3)


async def connections(target: Target, stage: Stage, count: int) -> None:
    """So many connections to each listener without a byte; every tenth is half of a TLS handshake or of a line."""
    for listener in target.listeners:
        opened = await _open(listener, count, b"\x16\x03\x01\x02", stage, raw=True)
        await asyncio.sleep(1)
        for writer in opened:
            writer.transport.abort()
    await asyncio.sleep(3)


async def pipelined(target: Target, stage: Stage, seconds: float) -> None:
    """64 connections to each listener send requests for health without a pause, and read what comes."""
    end = time.monotonic() + seconds

    async def pipeline(listener: Listener) -> None:
        request = f"GET {listener.health} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * 2000
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(10):
                    reader, writer = await listener.connect()
            except (OSError, TimeoutError):
                stage.statuses["not connected"] += 1
                continue
            stage.statuses["connected"] += 1
            reading = asyncio.create_task(_count_answers(reader, stage))
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(max(end - time.monotonic(), 0)):
                    while not reading.done():
                        writer.write(request)
                        await writer.drain()
            writer.transport.abort()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    await asyncio.gather(*(pipeline(listener) for listener in target.listeners for _ in range(64)))


async def endless(target: Target, stage: Stage, seconds: float) -> None:
    """60 connections to each listener send blank lines without a pause, and connect again when they are closed."""
    end = time.monotonic() + seconds

    async def send(listener: Listener) -> None:
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(10):
                    _, writer = await listener.connect()
            except (OSError, TimeoutError):
                stage.statuses["not connected"] += 1
                continue
            stage.statuses["connected"] += 1
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(max(end - time.monotonic(), 0)):
                    while True:
                        writer.write(b"\r\n" * 30_000)
                        await writer.drain()
                        await asyncio.sleep(0)
            writer.transport.abort()

    await asyncio.gather(*(send(listener) for listener in target.listeners for _ in range(60)))


async def _count_answers(reader: asyncio.StreamReader, stage: Stage) -> None:
    while piece := await reader.read(1 << 16):
        for status in re.findall(rb"HTTP/1\.1 (\d+) ", piece):
            stage.statuses[status.decode()] += 1


async def _open(
    listener: Listener, count: int, sent: bytes, stage: Stage, *, raw: bool = False
) -> list[asyncio.StreamWriter]:
    opened: list[asyncio.StreamWriter] = []
    for start in range(0, count, 50):
        tls = None if raw else listener.tls
        made = await asyncio.gather(
            *(asyncio.open_connection("127.0.0.1", listener.port, ssl=tls) for _ in range(min(50, count - start))),
            return_exceptions=True,
        )
        for one in made:
            if isinstance(one, BaseException):
                stage.statuses["not connected"] += 1
                continue
            stage.statuses["connected"] += 1
            opened.append(one[1])
            if not raw or len(opened) % 10 == 0:
                one[1].write(sent)
    return opened


async def flood(target: Target, stage: Stage, count: int, seed: int, *, with_token: bool) -> None:
    numbers = iter(range(count))

    async def send() -> None:
        for number in numbers:
            dice = random.Random(f"{seed}:{with_token}:{number}")
            listener = target.listeners[number % len(target.listeners)]
            data = malformed(dice, listener, with_token=with_token)
            for status in await ask(listener, data):
                stage.statuses[status] += 1
                if status.startswith("5"):
                    stage.notes.append(f"request {number} to {listener.name}: {status} for {data[:200]!r}")

    await asyncio.gather(*(send() for _ in range(24)))


async def smuggling(target: Target, stage: Stage) -> None:
    """A request behind a request must not be found."""
    tricks = (
        b"Content-Length: 4\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 4",
        b"Content-Length: 0\r\nContent-Length: 41", b"Content-Length: 0, 41", b"Content-Length: +0",
        b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
        b"X: y\r\n Transfer-Encoding: chunked", b"X: y\nContent-Length: 41", b"X: y\rContent-Length: 41",
    )  # fmt: skip
    for listener in target.listeners:
        for trick in tricks:
            for body in (b"0\r\n\r\n" + HIDDEN, HIDDEN, b"1;x=\ny\r\nz\r\n0\r\n\r\n" + HIDDEN):
                host = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n" % listener.paths[0].encode()
                answers = await ask(listener, host + trick + b"\r\n\r\n" + body)
                stage.statuses["one answer or none" if len(answers) == 1 else "smuggled"] += 1
                if len(answers) > 1:
                    stage.unhealthy += 1
                    stage.notes.append(f"{listener.name}: {trick!r} hides a request: {answers}")


async def bombs(target: Target, stage: Stage) -> None:
    """Small and costly, with the token: the longest time that one took is noted."""
    api = target.listeners[0]
    names = [f"n{number}" for number in range(100_000)]
    schema = {"type": "object", "properties": {"p": {"type": "string", "pattern": "^(a+)+$"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {"metadata": {"name": "toys.t.example"}, "spec": {"group": "t.example", "scope": "Cluster",
    "versions": [version],
           "names": {"plural": "toys", "kind": "Toy"}}}  # fmt: skip
    maps = "/api/v1/namespaces/default/configmaps"
    toy = {"apiVersion": "t.example/v1", "kind": "Toy", "metadata": {"name": "x"}, "p": "a" * 5000 + "!"}
    requests: list[tuple[str, str, str, bytes]] = [
        ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json",
        json.dumps(crd).encode()),
        ("POST", "/apis/t.example/v1/toys", "application/json", json.dumps(toy).encode()),
        ("POST", maps, "application/json", b'{"metadata":{"name":"m"}}'),
        ("PATCH", f"{maps}/m", "application/strategic-merge-patch+json", json.dumps({"metadata": {
            "finalizers": names, "$deleteFromPrimitiveList/finalizers": names}}).encode()),
        ("PATCH", f"{maps}/m", "application/json-patch+json", json.dumps(
            [{"op": "add", "path": "/x", "value": {"a": "b" * 100}}]
            + [{"op": "copy", "from": "/x", "path": f"/x/{n}"} for n in range(60)]).encode()),
        ("PATCH", f"{maps}/m", "application/json-patch+json", json.dumps(
            [{"op": "add", "path": "/x", "value": [0] * 600_000}]
            + [{"op": "add", "path": "/x/0", "value": 0}] * 9000).encode()),
        ("GET", f"{maps}?fieldSelector=metadata.name%3Da{'%20' * 15_000}x", "application/json", b""),
        ("GET", f"{maps}?labelSelector=a%20in%20({'b,' * 4900}b)", "application/json", b""),
        ("POST", maps, "application/yaml", b"[" * 200_000),
        ("POST", maps, "application/yaml", b"a: {" + b"a, " * 80_000 + b"}"),
        ("POST", maps, "application/json", b"[" * 3_000_000),
        ("POST", maps, "application/json", b'{"a":' * 500_000 + b"1" + b"}" * 500_000),
    ]  # fmt: skip
    longest = 0.0
    for method, path, media, body in requests:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api.token}\r\n"
        head += f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
        began = time.monotonic()
        for status in await ask(api, head.encode() + body, patience=60):
            stage.statuses[status] += 1
        longest = max(longest, time.monotonic() - began)
    stage.notes.append(f"the longest bomb took {longest:.2f} s")


async def watches(target: Target, stage: Stage, count: int) -> None:
    """So many watches with one token, of which nobody reads a byte."""
    api = target.listeners[0]
    head = "GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    data = f"{head}Authorization: Bearer {api.token}\r\n\r\n".encode()
    opened: list[asyncio.StreamWriter] = []
    for _ in range(count):
        try:
            reader, writer = await api.connect()
            opened.append(writer)
            writer.write(data)
            async with asyncio.timeout(10):
                line = await reader.readline()
            stage.statuses[line.split()[1].decode() if line else "-"] += 1
        except (OSError, TimeoutError, IndexError):
            stage.statuses["-"] += 1
    await asyncio.sleep(2)
    for writer in opened:
        writer.transport.abort()


async def growth(target: Target, stage: Stage, minutes: float, seed: int) -> None:
    """All kinds of requests for some minutes, with and without a token; memory is noted as it goes."""
    end, number = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < end:
        await flood(target, stage, 500, seed + 1000 + number, with_token=number % 2 == 0)
        number += 1
    noted = [f"{stage.memory[at * (len(stage.memory) - 1) // 5]:.0f}" for at in range(6)]
    stage.notes.append(f"memory at six moments: {', '.join(noted)} MiB")


# -- running ----------------------------------------------------------------------------------------------------------


async def observe(target: Target, stage: Stage) -> None:
    """Ask for health, on new connections, and note the memory."""
    while True:
        stage.memory.append(target.memory())
        for listener in target.listeners:
            began = time.monotonic()
            data = f"GET {listener.health} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
            if await ask(listener, data, patience=30) == ["200"]:
                stage.health.append(time.monotonic() - began)
            else:
                stage.unhealthy += 1
                stage.notes.append(f"{listener.name} did not answer for health")
        await asyncio.sleep(0.1)


async def run_stage(target: Target, name: str, attack: Callable[[Stage], Awaitable[None]]) -> Stage:
    stage = Stage(name)
    observer = asyncio.create_task(observe(target, stage))
    await asyncio.sleep(0.3)
    try:
        await attack(stage)
    finally:
        observer.cancel()
        await asyncio.gather(observer, return_exceptions=True)
    stage.memory.append(target.memory())
    print(stage.row(), *stage.notes[:5], sep="\n", flush=True)
    return stage


def start(folder: Path) -> Target:
    policy = folder / "policy.json"
    policy.write_text(json.dumps(POLICY), encoding="utf-8")
    command = [sys.executable, "-m", "stromboli", "up", "--nodes", "2", "--data", str(folder / "data"), "--web-write",
               "--descheduler-config", str(policy), "--descheduler-port", "0"]  # fmt: skip
    limit = (OPEN_FILES, OPEN_FILES)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=(folder / "log").open("w"), text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    while "The descheduler:" not in said:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"stromboli up ended: {(folder / 'log').read_text()}")
        said += line
    config = json.loads((folder / "data" / "kubeconfig").read_text(encoding="utf-8"))
    token = config["users"][0]["user"]["token"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # whom we attack is known
    port = {name: int(re.findall(pattern, said)[0]) for name, pattern in (
        ("api", r"is ready: https://127.0.0.1:(\d+)"), ("page", r"The page: http://127.0.0.1:(\d+)"),
        ("probes", r"--address http://127.0.0.1:(\d+)"))}  # fmt: skip
    secret = Path(re.findall(r"--token-file (\S+)", said)[0]).read_text(encoding="utf-8").strip()
    return Target(process, [
        Listener("api-server", port["api"], token, API_PATHS, "/healthz", context),
        Listener("page", port["page"], token, PAGE_PATHS, "/"),
        Listener("descheduler", port["probes"], secret, PROBE_PATHS, "/healthz"),
    ])  # fmt: skip


async def main(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = start(folder)
        await asyncio.sleep(3)
        attacks: dict[str, Callable[[Stage], Awaitable[None]]] = {
            "half-sent": lambda stage: half_sent(target, stage, arguments.half_sent),
            "connections": lambda stage: connections(target, stage, arguments.connections),
            "pipelined": lambda stage: pipelined(target, stage, arguments.pipelined_seconds),
            "endless": lambda stage: endless(target, stage, arguments.pipelined_seconds),
            "smuggling": lambda stage: smuggling(target, stage),
            "bombs": lambda stage: bombs(target, stage),
            "watches": lambda stage: watches(target, stage, arguments.watches),
            "without-token": lambda stage: flood(target, stage, arguments.requests, arguments.seed, with_token=False),
            "with-token": lambda stage: flood(target, stage, arguments.token_requests, arguments.seed, with_token=True),
            "growth": lambda stage: growth(target, stage, arguments.minutes, arguments.seed),
        }
        chosen = arguments.stages.split(",") if arguments.stages else list(attacks)
        print("| attack | answers | health: answered, median, longest | memory before, most, after |")
        print("|---|---|---|---|")
        stages = []
        try:
            for each in chosen:
                stages.append(await run_stage(target, each, attacks[each]))
                await asyncio.sleep(2)
            ended = target.process.poll() is not None
            log = (folder / "log").read_text(encoding="utf-8")
            print(f"memory at the end: {target.memory():.0f} MiB; {len(log.splitlines())} lines in the log, "
                  f"{log.count('Traceback')} tracebacks, {log.count(target.listeners[0].token)} tokens")  # fmt: skip
        finally:
            target.process.terminate()
            target.process.wait(30)
        return int(ended or "Traceback" in log or any(stage.bad for stage in stages))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stages", default="", help="half-sent, connections, smuggling, …; all by default")
    parser.add_argument("--half-sent", type=int, default=3000)
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--pipelined-seconds", type=float, default=30.0)
    parser.add_argument("--watches", type=int, default=400)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--token-requests", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    raise SystemExit(asyncio.run(main(parser.parse_args())))
