"""Containers as processes: what they run, with which environment, and which cannot be run."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube.runner import ProcessLogs
from stromboli.kube.runner.container import CannotRun, command_of, environment_of, expand, launched
from stromboli.kube.runner.logs import log_file

POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "team", "uid": "u1", "labels": {"app": "web"}},
    "spec": {"nodeName": "node-0"},
}


def test_variables_are_replaced_as_kubernetes_does() -> None:
    assert expand("$(A)-$(B)-$$(A)-$A", {"A": "1"}) == "1-$(B)-$(A)-$A"


def test_the_environment_of_a_container() -> None:
    def field(path: str) -> dict[str, Any]:
        return {"fieldRef": {"fieldPath": path}}

    env = [
        {"name": "FIRST", "value": "1"},
        {"name": "SECOND", "value": "$(FIRST)2"},
        {"name": "POD", "valueFrom": field("metadata.name")},
        {"name": "APP", "valueFrom": field("metadata.labels['app']")},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    environment = environment_of(POD, {"name": "main", "env": env})
    assert (environment["SECOND"], environment["POD"], environment["APP"]) == ("12", "a", "web")
    assert environment["HOSTNAME"] == "a"
    assert "SECRET" not in environment


def test_containers_that_cannot_be_processes() -> None:
    with pytest.raises(CannotRun, match="has no command"):
        command_of({"name": "main", "image": "x", "args": ["a"]}, {})
    with pytest.raises(CannotRun, match="there is no program"):
        launched({}, ["no-such-program-anywhere"], {"PATH": "/bin:/usr/bin"})
    with pytest.raises(CannotRun, match="limits cannot be read"):
        launched({"resources": {"limits": {"memory": "much"}}}, ["sh"], {"PATH": "/bin:/usr/bin"})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, b"one\ntwo\nthree\n"),
        ({"tailLines": "2"}, b"two\nthree\n"),
        ({"tailLines": "0"}, b""),
        ({"tailLines": "9"}, b"one\ntwo\nthree\n"),
        ({"limitBytes": "5"}, b"one\nt"),
        ({"follow": "true"}, b"one\ntwo\nthree\n"),
    ],
)
def test_logs(tmp_path: Path, query: dict[str, str], expected: bytes) -> None:
    _log(tmp_path, b"one\ntwo\nthree\n")
    assert _read(tmp_path, query) == expected


def test_the_last_lines_of_a_log_of_several_pieces(tmp_path: Path) -> None:
    dice = random.Random(5)
    for _ in range(40):
        lengths = dice.choices((0, 1, 700, 65535, 65536, 65537, 150_000), k=dice.randrange(9))
        lines = [b"x" * length + b"\n" for length in lengths]
        if lines and dice.random() < 0.5:
            lines[-1] = lines[-1].removesuffix(b"\n") or b"end"
        _log(tmp_path, b"".join(lines))
        for count in range(10):
            expected = b"".join(lines[-count:] if count else [])
            assert _read(tmp_path, {"tailLines": str(count)}) == expected, [len(line) for line in lines]


def test_the_last_line_of_a_log_without_line_breaks_is_not_kept_in_memory(tmp_path: Path) -> None:
    with _log(tmp_path, b"").open("r+b") as file:
        file.truncate(32 << 20)

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


def _log(folder: Path, content: bytes) -> Path:
    """What a container wrote that has ended."""
    file = log_file(folder, "u1", "main")
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    file.with_suffix(".done").touch()
    return file


def _read(folder: Path, query: dict[str, str]) -> bytes:
    async def read() -> bytes:
        return b"".join([piece async for piece in ProcessLogs(folder).read(POD, "main", query)])

    return asyncio.run(read())
