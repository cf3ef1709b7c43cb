"""The parts of the runner that need no processes: commands, variables, pauses, names, and the log as it is read."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stromboli.api import ObjectMeta, Pod
from stromboli.api.kinds import Condition, PodSpec, PodStatus
from stromboli.kube.runner import ProcessLogs
from stromboli.kube.runner.addresses import Addresses
from stromboli.kube.runner.container import command_of, limits_of, memory_limit
from stromboli.kube.runner.environment import NotYet, Place, environment_of, expand
from stromboli.kube.runner.logs import begin_log, end_log, log_file
from stromboli.kube.runner.names import Service, ServicePort, ServiceSpec, names_of
from stromboli.kube.runner.restarts import Pauses, is_restarted
from stromboli.kube.runner.sandbox_process import CannotRun
from stromboli.kube.runner.service_forwarder import ServiceForwarder, target_port
from stromboli.kube.runner.volumes import PodVolumes
from stromboli.sandbox import program

POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "team", "uid": "u1", "labels": {"app": "web"}},
    "spec": {"nodeName": "node-0", "containers": [{"name": "main"}]},
}
AT = "2026-01-31T12:00:00.000000000Z"


class NoObjects:
    def data(self, kind: str, name: str) -> Mapping[str, bytes] | None:
        return {"bin": b"\xff"} if name == "binary" else None


def test_variables_are_replaced_as_kubernetes_does() -> None:
    assert expand("$(A)-$(B)-$$(A)-$A", {"A": "1"}) == "1-$(B)-$(A)-$A"


def test_containers_that_cannot_be_processes() -> None:
    with pytest.raises(CannotRun, match="has no command"):
        command_of({"name": "main", "image": "x", "args": ["a"]}, {})
    with pytest.raises(CannotRun, match="limits cannot be read"):
        memory_limit({"resources": {"limits": {"memory": "much"}}})
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "binary", "key": "bin"}}}
    with pytest.raises(CannotRun, match="no text"):
        environment_of(POD, {"name": "main", "env": [variable]}, NoObjects(), Place())


def test_a_part_of_a_volume_is_inside_it(tmp_path: Path) -> None:
    pod = {**POD, "spec": {"volumes": [{"name": "v", "emptyDir": {}}], "containers": []}}
    volumes = PodVolumes(pod, tmp_path, {}, host_paths_allowed=False)
    volumes.prepare(NoObjects(), Place())
    mount = {"name": "v", "mountPath": "/v", "subPath": "../.."}
    with pytest.raises(CannotRun, match="leaves its volume"):
        volumes.mounts({"name": "main", "volumeMounts": [mount]}, {})


def test_a_missing_secret_is_waited_for() -> None:
    variable = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    with pytest.raises(NotYet, match="Secret s does not exist; create it"):
        environment_of(POD, {"name": "main", "env": [variable]}, NoObjects(), Place())
    with pytest.raises(NotYet, match="ConfigMap c does not exist"):
        environment_of(POD, {"name": "main", "envFrom": [{"configMapRef": {"name": "c"}}]}, NoObjects(), Place())


def test_a_part_of_a_core_is_a_whole_one() -> None:
    limits = limits_of(POD, {"resources": {"limits": {"cpu": "1500m"}}}, address_space=7, group="")
    assert (limits.cores, limits.address_space) == (2, 7)


def test_pauses_double_up_to_five_minutes_and_are_forgotten_after_ten() -> None:
    pauses = Pauses()
    assert [pauses.next(1.0) for _ in range(8)] == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert [pauses.next(600.0), pauses.next(1.0)] == [0.0, 10.0]
    rules = [
        (policy, code, is_restarted(policy, code)) for policy in ("Always", "OnFailure", "Never") for code in (0, 1)
    ]
    assert [restarted for *_, restarted in rules] == [True, True, False, True, False, False]


def test_addresses_are_the_same_after_a_restart_and_never_shared() -> None:
    addresses, again = Addresses(many=True), Addresses(many=True)
    uids = [str(number) for number in range(5000)]
    given = [addresses.of(uid) for uid in uids]
    assert len(set(given)) == len(uids)
    assert given[:50] == [again.of(uid) for uid in uids[:50]]
    addresses.keep(["1"])
    assert addresses.of("1") == given[1]
    assert Addresses(many=False).of("1") == "127.0.0.1"


def test_names_are_those_of_a_clusters_dns() -> None:
    def pod(name: str, namespace: str, *, ready: bool, **spec: str) -> Pod:
        conditions = [Condition(type="Ready", status=str(ready))]
        metadata = ObjectMeta(name=name, namespace=namespace, labels={"app": "web"})
        return Pod(metadata=metadata, spec=PodSpec(**spec), status=PodStatus(phase="Running", conditions=conditions))

    headless = Service(metadata=ObjectMeta(name="web", namespace="x", uid="s"), spec=ServiceSpec({"app": "web"}))
    other = Service(
        metadata=ObjectMeta(name="api", namespace="y", uid="t"),
        spec=ServiceSpec({"app": "web"}, ports=[ServicePort(port=80)]),
    )
    pods = [
        (pod("a", "x", ready=True, hostname="first", subdomain="web"), "127.0.1.1"),
        (pod("b", "x", ready=False, subdomain="web"), "127.0.1.2"),  # has a name, and takes no connections yet
        (pod("c", "x", ready=True, subdomain="none"), "127.0.1.3"),  # there is no such service
    ]
    names = names_of(pods, [headless, other], {"t": "127.0.9.9"})
    hosts = names.hosts({"metadata": {"namespace": "x"}, "spec": {}}, "127.0.1.1", "first").splitlines()
    assert hosts[2:] == [
        "127.0.1.1 first",
        "127.0.1.1 web",
        "127.0.1.3 web",
        "127.0.1.1 first.web",
        "127.0.1.2 b.web",
        "127.0.1.1 web.x web.x.svc web.x.svc.cluster.local",
        "127.0.1.3 web.x web.x.svc web.x.svc.cluster.local",
        "127.0.1.1 first.web.x first.web.x.svc first.web.x.svc.cluster.local",
        "127.0.1.2 b.web.x b.web.x.svc b.web.x.svc.cluster.local",
        "127.0.9.9 api.y api.y.svc api.y.svc.cluster.local",
    ]
    assert names.variables == {"y": {"API_SERVICE_HOST": "127.0.9.9", "API_SERVICE_PORT": "80"}}
    assert target_port(ServicePort(port=80), pods[0][0]) == 80
    assert target_port(ServicePort(port=80, target_port="none"), pods[0][0]) == 0


def test_a_service_that_changes_leads_elsewhere() -> None:
    """Its listener stays: only the port it listens at decides about that."""

    async def answer(text: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        writer.close()

    async def ask(address: str, port: int) -> bytes:
        reader, writer = await asyncio.open_connection(address, port)
        try:
            return await reader.read()
        finally:
            writer.close()

    async def story() -> None:
        one = await asyncio.start_server(lambda _, writer: answer(b"one", writer), "127.0.0.1")
        two = await asyncio.start_server(lambda _, writer: answer(b"two", writer), "127.0.0.1")
        port = one.sockets[0].getsockname()[1]
        pods = {"a": Pod(metadata=ObjectMeta(name="a"))}
        addresses = Addresses()
        forwarder = ServiceForwarder(
            addresses, lambda service: [(pods["a"], "127.0.0.1")] if service.spec.selector else []
        )

        def service(target: int, **selector: str) -> Service:
            spec = ServiceSpec(selector, [ServicePort(port=port + 1, target_port=target)])
            return Service(metadata=ObjectMeta(name="s", namespace="x", uid="s"), spec=spec)

        await forwarder.follow([service(port, app="a")])
        assert await ask(addresses.of("s"), port + 1) == b"one"
        await forwarder.follow([service(two.sockets[0].getsockname()[1], app="a")])
        assert await ask(addresses.of("s"), port + 1) == b"two"
        forwarder.close()
        one.close()
        two.close()

    asyncio.run(story())


# -- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, b"one\ntwo\nthree\n"),
        ({"tailLines": "2"}, b"two\nthree\n"),
        ({"tailLines": "0"}, b""),
        ({"tailLines": "9"}, b"one\ntwo\nthree\n"),
        ({"limitBytes": "5"}, b"one\nt"),
        ({"follow": "true"}, b"one\ntwo\nthree\n"),
        ({"tailLines": "1", "timestamps": "true"}, f"{AT} three\n".encode()),
        ({"sinceTime": "2026-01-31T12:00:00Z"}, b"one\ntwo\nthree\n"),
        ({"sinceTime": "2026-01-31T12:00:01Z"}, b""),
    ],
)
def test_logs(tmp_path: Path, query: dict[str, str], expected: bytes) -> None:
    _log(tmp_path, _records([b"one", b"two", b"three"]))
    assert _read(tmp_path, query) == expected


def test_there_is_no_log_of_what_waits_to_be_started(tmp_path: Path) -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "CreateContainerConfigError"}}}
    pod = POD | {"status": {"containerStatuses": [waiting]}}

    async def read() -> bytes:
        return b"".join([piece async for piece in ProcessLogs(tmp_path).read(pod, "main", {})])

    with pytest.raises(LookupError, match='container "main" in pod "a" is waiting to start: CreateContainerConfigErr'):
        asyncio.run(read())
    _log(tmp_path, _records([b"one"]))  # it has been started, and its status is not written yet
    assert asyncio.run(read()) == b"one\n"


def test_the_last_lines_of_a_log_of_several_pieces(tmp_path: Path) -> None:
    dice = random.Random(5)
    for _ in range(40):
        lines = [
            b"x" * length for length in dice.choices((0, 1, 700, 16384, 16385, 65536, 150_000), k=dice.randrange(9))
        ]
        _log(tmp_path, _records(lines))
        for count in range(10):
            expected = b"".join(line + b"\n" for line in (lines[-count:] if count else []))
            assert _read(tmp_path, {"tailLines": str(count)}) == expected, [len(line) for line in lines]


def test_a_progress_bar_is_shown_as_it_was_written(tmp_path: Path) -> None:
    _log(tmp_path, _records([b"10%\r20%\r30%", b"end"]))
    assert _read(tmp_path, {}) == b"10%\r20%\r30%\nend\n"
    assert _read(tmp_path, {"sinceTime": "2026-01-31T12:00:00Z", "tailLines": "2"}) == b"10%\r20%\r30%\nend\n"


def test_a_line_that_has_not_ended_is_shown_and_is_one_of_the_last(tmp_path: Path) -> None:
    _log(tmp_path, _records([b"one"]) + f"{AT} stdout P half".encode() + b"\n")
    assert _read(tmp_path, {}) == b"one\nhalf"
    assert _read(tmp_path, {"tailLines": "1"}) == b"half"


def test_a_log_is_read_in_pieces(tmp_path: Path) -> None:
    path = _log(tmp_path, b"")
    record = f"{AT} stdout P ".encode() + b"x" * 16384 + b"\n"
    with path.open("wb") as file:
        for _ in range(2000):  # one line of 32 MiB
            file.write(record)

    async def first_piece() -> int:
        pieces = ProcessLogs(tmp_path).read(POD, "main", {"tailLines": "1"})
        return len(await anext(aiter(pieces)))

    tracemalloc.start()
    try:
        assert asyncio.run(first_piece()) > 0
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="needs holes in files")
def test_a_log_that_is_too_long_loses_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 lines of 100 bytes and about 40 more for each are 560 kB. Of 64 KiB, an eighth more is there at most before
    it is trimmed again, in blocks of 4 KiB, and what was read at once: 64 KiB."""
    monkeypatch.setattr(program, "MOST_LOG", 64 << 10)
    path = _log(tmp_path, b"")
    read, written = os.pipe()
    with path.open("ab") as log:
        output = program.Output("stdout", read, log.fileno())
        for number in range(4000):
            os.write(written, b"%0100d\n" % number)
            if number % 100 == 99:
                output.pump()
    os.close(read)
    os.close(written)
    assert path.stat().st_blocks * 512 < 160 << 10 < path.stat().st_size
    lines = _read(tmp_path, {}).splitlines()
    assert lines == [b"%0100d" % number for number in range(4000 - len(lines), 4000)]
    assert 300 < len(lines) < 1200
    assert _read(tmp_path, {"tailLines": "2"}).splitlines() == lines[-2:]
    assert _read(tmp_path, {"tailLines": "3000"}).splitlines() == lines
    assert _read(tmp_path, {"follow": "true"}).splitlines() == lines


def test_only_the_last_two_runs_are_kept(tmp_path: Path) -> None:
    for run in range(4):
        end_log(begin_log(tmp_path, "u1", "main", run))
    assert [log_file(tmp_path, "u1", "main", run).exists() for run in range(4)] == [False, False, True, True]


def _records(lines: list[bytes]) -> bytes:
    """As the sandbox writes them: in pieces of 16 KiB."""
    text = b""
    for line in lines:
        pieces = [line[start : start + 16384] for start in range(0, len(line), 16384)] or [b""]
        text += b"".join(f"{AT} stdout P ".encode() + piece + b"\n" for piece in pieces[:-1])
        text += f"{AT} stdout F ".encode() + pieces[-1] + b"\n"
    return text


def _log(folder: Path, content: bytes) -> Path:
    """What a container wrote that has ended."""
    file = begin_log(folder, "u1", "main", 0)
    file.write_bytes(content)
    end_log(file)
    return file


def _read(folder: Path, query: dict[str, str]) -> bytes:
    async def read() -> bytes:
        return b"".join([piece async for piece in ProcessLogs(folder).read(POD, "main", query)])

    return asyncio.run(read())
