"""Secrets, the folders they are in, and files that others may have prepared."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from stromboli import files
from stromboli.console.main import run
from stromboli.console.up.command import _announce
from stromboli.embedded.embedded_cluster import EmbeddedCluster
from stromboli.embedded.http import load_token, server_identity
from stromboli.embedded.store import SqliteBackend
from stromboli.errors import UserError
from stromboli.files import check_place, private_folder, read_secret, write_secret
from stromboli.files import folder as folder_module

OTHER_USER = 12_345


@pytest.fixture(autouse=True)
def no_umask() -> object:
    """Modes must not depend on the user's umask: with this one everything that is not asked for is open."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class Modes:
    """The mode that every file had when it was made, and at each change of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[int] = []
        self.changed: list[str] = []
        opened = os.open

        def open_(path: object, flags: int, mode: int = 0o777, **more: object) -> int:
            if flags & os.O_CREAT:
                self.made.append(mode)
            return opened(path, flags, mode, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "open", open_)
        monkeypatch.setattr(os, "chmod", lambda path, *_, **__: self.changed.append(str(path)))


def test_a_secret_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = Modes(monkeypatch)
    write_secret(tmp_path / "token", "secret")
    assert modes.made == [0o600]
    assert modes.changed == []
    assert mode(tmp_path / "token") == 0o600
    assert read_secret(tmp_path / "token") == "secret"


class Announced:
    url = "https://127.0.0.1:1"

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig


def test_the_kubeconfig_of_up_is_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Announced(tmp_path / "kubeconfig")
    write_secret(server.kubeconfig, "{}")
    modes = Modes(monkeypatch)
    _announce(server, tmp_path / "new" / "copy", [], [])  # type: ignore[arg-type]
    assert (modes.made, modes.changed) == ([0o600], [])
    assert mode(tmp_path / "new" / "copy") == 0o600
    assert str(tmp_path / "new" / "copy") in capsys.readouterr().out
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(UserError, match="link is a symbolic link, which is not followed for secrets"):
        _announce(server, tmp_path / "link", [], [])  # type: ignore[arg-type]
    assert victim.read_text() == "mine"


def test_a_secret_never_takes_the_place_of_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UserError, match="is not a regular file; name another one"):
            write_secret(place, "secret")
    with pytest.raises(UserError):
        write_secret(Path("/dev/full"), "secret")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_secret_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_secret(tmp_path / "token", "old")

    def full(handle: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"token: cannot be written: No space left on device$"):
        write_secret(tmp_path / "token", "new")
    assert [file.name for file in tmp_path.iterdir()] == ["token"]
    assert read_secret(tmp_path / "token") == "old"


def test_temporary_names_cannot_be_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given that somebody knows our process id, the names beside two secrets have nothing in common but the file's."""
    used: list[str] = []
    replace = os.replace

    def noted(source: str, target: Path) -> None:
        used.append(Path(source).name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)
    for _ in range(20):
        write_secret(tmp_path / "token", "x")
        files.write_output(tmp_path / "report", b"x")
    assert len(set(used)) == 40
    assert not any(str(os.getpid()) in name for name in used)


@pytest.mark.parametrize("bits", [0o002, 0o020])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stromboli.files.folder._is_own_group", lambda found: False)
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    folder.chmod(0o700 | bits)
    for use, *given in (
        (private_folder, folder), (private_folder, folder / "below"),
        (write_secret, folder / "kubeconfig", "x"), (write_secret, folder / "a" / "kubeconfig", "x"),
    ):  # fmt: skip
        with pytest.raises(UserError) as refused:
            use(*given)
        assert str(refused.value) == (
            f"{folder} can be written by others (mode {0o700 | bits:04o}), who could replace what is in it; "
            f"run `chmod go-w {folder}`, or use another folder"
        )
    assert not (folder / "kubeconfig").exists()
    folder.chmod(0o700)
    private_folder(folder)


def test_sticky_folders_may_hold_secrets_but_no_data(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    check_place(folder)
    write_secret(folder / "kubeconfig", "x")
    private_folder(folder / "mine")
    assert mode(folder / "mine") == 0o700
    with pytest.raises(UserError, match="can be written by others"):
        private_folder(folder)


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_folder_below_that_of_another_user_is_refused(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of a folder can rename what is in it, also with the sticky bit."""
    theirs = tmp_path / "theirs"
    (theirs / "mine").mkdir(parents=True)
    (theirs / "mine").chmod(0o700)
    theirs.chmod(mode)
    real = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        found = real(path, **options)
        return os.stat_result((*found[:4], OTHER_USER, *found[5:])) if path == theirs else found

    monkeypatch.setattr(Path, "stat", stat)
    message = (
        f"{theirs} belongs to another user .uid {OTHER_USER}., who could replace what is in it; use another folder"
    )
    for use in (lambda: private_folder(theirs / "mine"), lambda: write_secret(theirs / "mine" / "token", "x")):
        with pytest.raises(UserError, match=message):
            use()
    assert not (theirs / "mine" / "token").exists()


def test_folders_without_an_owner_in_a_user_namespace_are_the_administrators(monkeypatch: pytest.MonkeyPatch) -> None:
    for inside in (False, True):
        monkeypatch.setattr(folder_module, "_is_in_user_namespace", lambda inside=inside: inside)
        assert folder_module._is_trusted(65_534) is inside
        assert folder_module._is_trusted(0)
        assert not folder_module._is_trusted(OTHER_USER)


def test_a_group_of_one_is_the_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        pw_name = gr_name = "ann"
        pw_gid = gr_gid = 7
        gr_mem: tuple[str, ...] = ()

    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o770)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: Entry)
    monkeypatch.setattr("grp.getgrgid", lambda gid: Entry)
    private_folder(folder)
    Entry.gr_mem = ("ann", "bob")
    with pytest.raises(UserError, match="can be written by others"):
        private_folder(folder)


def test_a_data_folder_of_another_user_or_behind_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    private_folder(folder)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(UserError, match=f"is a symbolic link; name the folder that it points to: {folder}"):
        private_folder(tmp_path / "link")
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    with pytest.raises(UserError, match=r"data belongs to another user \(uid \d+\); use a folder of your own"):
        private_folder(folder)


@pytest.mark.parametrize("name", ["objects.sqlite", "objects.sqlite-wal", "objects.sqlite-shm"])
def test_files_of_a_data_folder_are_checked(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "objects.sqlite"
    file = tmp_path / name
    SqliteBackend(path).close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"")
    file.unlink(missing_ok=True)
    file.symlink_to(elsewhere)
    with pytest.raises(UserError, match=f"{name} is a symbolic link"):
        SqliteBackend(path)
    file.unlink()
    file.write_bytes(b"")
    file.chmod(0o644)
    with pytest.raises(UserError, match=rf"{name} is open to others \(mode 0644\); run `chmod 600"):
        SqliteBackend(path)
    file.chmod(0o600)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: OTHER_USER)
        with pytest.raises(UserError, match="belongs to another user"):
            SqliteBackend(path)
    assert elsewhere.read_bytes() == b""


def test_secrets_of_a_data_folder_are_checked_when_they_are_read(tmp_path: Path) -> None:
    token = load_token(tmp_path)
    assert load_token(tmp_path) == token
    (tmp_path / "token").chmod(0o640)
    with pytest.raises(UserError, match=r"token is open to others \(mode 0640\)"):
        load_token(tmp_path)
    (tmp_path / "token").unlink()
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(UserError, match="token: is not a regular file"):
        load_token(tmp_path)
    (tmp_path / "token").unlink()
    write_secret(tmp_path / "token", "")
    with pytest.raises(UserError, match="does not hold a token"):
        load_token(tmp_path)
    server_identity(tmp_path, ("localhost",))
    (tmp_path / "authority-key.pem").chmod(0o604)
    with pytest.raises(UserError, match=r"authority-key\.pem is open to others"):
        server_identity(tmp_path, ("localhost",))
    (tmp_path / "authority-key.pem").unlink()
    write_secret(tmp_path / "authority-key.pem", "no key")
    with pytest.raises(UserError, match="is damaged; remove both"):
        server_identity(tmp_path, ("localhost",))


def test_up_refuses_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o777)
    assert run(["up", "--data", str(folder), "--no-web", "--for", "1s"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"run `chmod go-w {folder}`" in error
    assert list(folder.iterdir()) == []


async def started(folder: Path) -> None:
    async with EmbeddedCluster(folder, persistent=True):
        pass


def test_everything_in_a_data_folder_is_the_owners(tmp_path: Path) -> None:
    import asyncio

    asyncio.run(started(tmp_path / "data"))
    found = {file.name: mode(file) for file in (tmp_path / "data").iterdir()}
    assert set(found.values()) == {0o600}
    assert {"token", "kubeconfig", "authority-key.pem", "server.pem", "objects.sqlite"} <= set(found)
    assert mode(tmp_path / "data") == 0o700
    json.loads((tmp_path / "data" / "kubeconfig").read_text())
