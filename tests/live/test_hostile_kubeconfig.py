"""A kubeconfig that somebody else wrote: one line, little memory, no waiting, and no secret in the message."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from pathlib import Path

import pytest

from stromboli.console.main import run
from stromboli.errors import UserError
from stromboli.kube.client import Failure, from_kubeconfig

HEAD = """
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {%s}}]
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BOMB, id="aliases"),
        pytest.param("a: &a [*a]", id="a value in itself"),
        pytest.param("a: " + "[" * 100_000, id="brackets"),
        pytest.param("\n".join("  " * depth + "a:" for depth in range(2_000)), id="depth"),
        pytest.param("a: !!python/object/apply:os.system [touch owned]", id="a tag of Python"),
        pytest.param("a: !!set {a, b}", id="another tag"),
        pytest.param("a: !!binary s3cret", id="binary"),
        pytest.param("a: " + "9" * 5_000, id="a long number"),
        pytest.param("users: {s3cret: [", id="not YAML"),
        pytest.param("users: s3cret", id="a wrong type"),
        pytest.param("a: 1\n---\nb: 2", id="two documents"),
        pytest.param("a: \x00", id="a control character"),
    ],
)
def test_a_document_made_to_harm_is_one_line(
    text: str, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(kubeconfig.parent)
    kubeconfig.write_text(text)
    tracemalloc.start()
    try:
        status = run(["status", "--kubeconfig", str(kubeconfig)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    error = capsys.readouterr().err
    assert (status, error.count("\n")) == (2, 1), error
    assert "s3cret" not in error
    assert "bug" not in error
    assert most < 100 << 20
    assert not Path("owned").exists()


def test_what_is_not_text_is_one_line(kubeconfig: Path) -> None:
    kubeconfig.write_bytes(b"\xff\xfe\x00s3cret")
    with pytest.raises(UserError, match="is not YAML; is it a kubeconfig") as caught:
        from_kubeconfig(kubeconfig)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["/dev/zero", "FIFO", "folder", "huge", "missing"])
@pytest.mark.parametrize("field", ["certificate-authority", "client-certificate", "tokenFile"])
def test_a_path_in_it_may_lead_anywhere(field: str, kind: str, kubeconfig: Path) -> None:
    named = kubeconfig.parent / "named"
    if kind == "FIFO":
        os.mkfifo(named)
    elif kind == "folder":
        named.mkdir()
    elif kind == "huge":
        with named.open("wb") as file:
            file.truncate(1 << 40)
    path = kind if kind.startswith("/") else str(named)
    inside = f', {field}: "{path}"' if field == "certificate-authority" else ""
    user = "" if inside else f'{field}: "{path}"'
    kubeconfig.write_text(HEAD % (inside, user))
    with pytest.raises((UserError, Failure)) as caught:
        asyncio.run(from_kubeconfig(kubeconfig).credentials.identify())
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "server", ["https://h:99999", "https://[::1", "https://h:0", "https://h:x", "file:///etc/passwd", "https://", ""]
)
def test_a_server_that_is_no_address_is_one_line(server: str, kubeconfig: Path) -> None:
    kubeconfig.write_text((HEAD % ("", "")).replace("https://10.0.0.1:6443", server))
    with pytest.raises(UserError, match="the server of cluster c must be an http:// or https:// URL"):
        from_kubeconfig(kubeconfig)


def test_names_from_elsewhere_do_not_move_the_cursor(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig.write_text('current-context: "\\e[2Jx"\ncontexts: [{name: "\\e]0;owned\\a", context: {}}]\n')
    assert run(["status", "--kubeconfig", str(kubeconfig)]) == 2
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert error.count("\n") == 1


def test_reading_runs_no_program(kubeconfig: Path) -> None:
    """A plugin runs when a request is sent with its user, and not when the file is read."""
    marker = kubeconfig.parent / "ran"
    plugin = f'exec: {{apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, args: ["-c", "touch {marker}"]}}'
    kubeconfig.write_text(HEAD % ("", plugin))
    config = from_kubeconfig(kubeconfig)
    assert not marker.exists()
    with pytest.raises(Failure, match="printed no ExecCredential"):
        asyncio.run(config.credentials.identify())
    assert marker.exists()
