"""Containers as processes: what they run, with which environment, and which cannot be run."""

from __future__ import annotations

import asyncio
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
    file = log_file(tmp_path, "u1", "main")
    file.parent.mkdir()
    file.write_bytes(b"one\ntwo\nthree\n")
    file.with_suffix(".done").touch()

    async def read() -> bytes:
        return b"".join([piece async for piece in ProcessLogs(tmp_path).read(POD, "main", query)])

    assert asyncio.run(read()) == expected
