"""Files that somebody else made: too large, without an end, or made to harm. One line, and little memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stromboli.console.main import run
from stromboli.errors import UserError
from stromboli.files import read_credential, read_input, read_lines
from stromboli.files.input_file import LARGEST_MANIFEST, LARGEST_SETTING

GIGABYTE = 1 << 30
COMMANDS = {
    "simulate": ["simulate"],
    "config": ["simulate", "--until", "1s", os.devnull, "--config"],
    "policy": ["simulate", "--until", "1s", os.devnull, "--descheduler-config"],
    "replay": ["replay"],
    "nodes-file": ["up", "--nodes-file"],
    "kubeconfig": ["status", "--kubeconfig"],
    "manifests": ["plan", "--scenario", os.devnull, "-f"],
    "scenario": ["status", "--scenario"],
}


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def answered(arguments: list[str], *, memory: int) -> tuple[int, str]:
    """Run the command line in a process that may have so much memory, and no more."""
    script = "import sys; from stromboli.console.main import run; sys.exit(run(sys.argv[1:]))"

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=60,
        preexec_fn=limited, env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_a_gigabyte_is_one_line(tmp_path: Path, command: str) -> None:
    """RLIMIT_AS counts what is mapped: the libraries take 1 GiB of it, so that the file itself would not fit."""
    status, error = answered([*COMMANDS[command], str(sparse(tmp_path / "huge", 4 * GIGABYTE))], memory=3 * GIGABYTE)
    assert (status, error.count("\n")) == (2, 1), error
    assert "larger than" in error or "longer than" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_without_end_is_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMANDS[command], "/dev/zero"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "/dev/zero: is not a regular file" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_fifo_without_a_writer_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stromboli.files.input_file._PATIENCE", 0.0)
    os.mkfifo(tmp_path / "pipe")
    assert run([*COMMANDS[command], str(tmp_path / "pipe")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "nobody writes to this FIFO" in error or "not a regular file" in error


def test_a_fifo_with_a_writer_is_read_whole(tmp_path: Path) -> None:
    """As `<(command)` of a shell: the writer is slow, and writes in parts."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb") as file:
            for _ in range(3):
                file.write(b"x" * 100_000)
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    assert len(read_input(pipe, LARGEST_SETTING)) == 300_000
    writer.join()


def test_a_fifo_is_read_up_to_the_limit(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    feed = threading.Thread(target=lambda: fill(writer))
    feed.start()
    with pytest.raises(UserError, match="is larger than 1 MiB"):
        read_input(f"/dev/fd/{reader}", 1 << 20)
    os.close(reader)
    feed.join()


def fill(writer: int) -> None:
    try:
        while os.write(writer, b"x" * 65_536):
            pass
    except BrokenPipeError:
        os.close(writer)


def test_files_behind_links_are_read_and_limits_hold(tmp_path: Path) -> None:
    """What a user names is read through a link, as everywhere; its size is that of the file."""
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert read_input(tmp_path / "link", 3) == b"abc"
    with pytest.raises(UserError):
        read_input(tmp_path / "link", 2)
    with pytest.raises(OSError, match="Too many levels"):
        read_input(tmp_path / "loop", 3)
    assert read_input(os.devnull, 1) == b""
    assert LARGEST_MANIFEST > LARGEST_SETTING


def test_standard_input_has_the_same_limit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("stromboli.simulation.scenario.yaml_documents.LARGEST_MANIFEST", 1 << 20)
    with open("/dev/zero", encoding="utf-8") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        assert run(["simulate", "-"]) == 2
    assert "standard input: is larger than 1 MiB" in capsys.readouterr().err


def test_credentials_are_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), Path(os.devnull), tmp_path / "pipe"):
        with pytest.raises(UserError, match="is not a regular file"):
            read_credential(path)
    with pytest.raises(UserError, match="is larger than 1 MiB"):
        read_credential(sparse(tmp_path / "huge", GIGABYTE))


def test_lines_of_any_number_and_limited_length(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    text = b"first\n\n" + b"y" * 3_000_000 + b"\nlast"
    file.write_bytes(text)
    assert list(read_lines(file, first=10, longest=4_000_000)) == text.split(b"\n")
    with pytest.raises(UserError, match="line 3: is longer than 1500000 bytes"):
        list(read_lines(file, first=10, longest=1_500_000))


# -- recordings that somebody made ------------------------------------------------------------------------------------

START = {"start": {"format": 1, "version": "1", "schedulerName": "volcano"}}
HOSTILE = {
    "pickle": b"\x80\x04\x95\x1c\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.\n",
    "deep": b'{"events": ' + b"[" * 200_000 + b"\n",
    "deep object": b'{"events": [{"kind": "Pod", "applied": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}]}\n",
    "no time": b'{"decisions": []}\n',
    "time before all times": b'{"now": -1e300, "decisions": []}\n',
    "time after all times": b'{"now": 1e300, "decisions": []}\n',
    "no number": b'{"now": NaN, "decisions": []}\n',
    "kind": b'{"events": [{"kind": "os.system", "applied": {}}]}\n',
    "kind without object": b'{"events": [{"kind": "Pod"}]}\n',
    "event": b'{"events": [{"evictFailed": 3}]}\n',
    "event of lists": b'{"events": [{"evictFailed": {"task": ["a"]}}]}\n',
    "reservation": b'{"events": [{"reservationWriteFailed": []}]}\n',
    "nothing": b'{"events": [{}]}\n',
    "huge number": b'{"now": ' + b"9" * 5_000 + b', "decisions": []}\n',
    "not UTF-8": b'{"configuration": "\xff\xfe"}\n',
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_recording_is_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "made.jsonl"
    good = json.dumps({"now": 1.0, "decisions": []}).encode()
    file.write_bytes(json.dumps(START).encode() + b"\n" + HOSTILE[name] + good + b"\n")
    assert run(["replay", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"{file}, line 2: is damaged" in error


def test_a_hostile_configuration_in_a_recording_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The configuration of a recording may name plugins that are installed, and nothing else."""
    file = tmp_path / "made.jsonl"
    for text in ("actions: !!python/object/apply:os.system [true]", "a: &a [*a]", "tiers: [{plugins: [{name: os}]}]"):
        file.write_text(json.dumps(START) + "\n" + json.dumps({"configuration": text}) + "\n")
        assert run(["replay", str(file)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "bug" not in error


# -- YAML that gets past a look at its text -------------------------------------------------------------------------

DEEP = {
    "brackets between marks that are none": "a: " + "[\n---a, " * 60_000,
    "lists after a carriage return": "a:\r" + "- " * 60_000,
    "lists after another end of a line": "a:\u2028" + "- " * 60_000,
    "lists after a byte order mark": "\ufeff\ufeff" + "- " * 60_000,
    "keys": "? " * 60_000,
    "mappings": "a:\x85" + "{a: " * 60_000,
    "brackets in the second document": "a: 1\r\n---\r\n" + "[" * 60_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_depth_is_seen_however_it_is_written(name: str, tmp_path: Path) -> None:
    """In a process of its own: the parser would end it without a word. The three commands read YAML in three ways."""
    file = tmp_path / "deep.yaml"
    file.write_bytes(DEEP[name].encode())
    script = (
        "import os, sys\n"
        "from stromboli.console.main import run\n"
        "for command in (['simulate'], ['simulate', os.devnull, '--config'], ['status', '--kubeconfig']):\n"
        "    print(run([*command, sys.argv[1]]), flush=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (0, "2\n2\n2\n", 3), done.stderr


@pytest.mark.parametrize("name", DEEP)
def test_the_embedded_server_survives_the_same(name: str, tmp_path: Path) -> None:
    """A client may send a body as YAML."""
    script = (
        "import sys\n"
        "from embedded.api import Api, EmbeddedTransport\n"
        "body = open(sys.argv[1], 'rb').read()\n"
        "maps = '/api/v1/namespaces/default/configmaps'\n"
        "print(Api(EmbeddedTransport()).call('POST', maps, body, kind='application/yaml').status)\n"
    )
    file = tmp_path / "deep.yaml"
    file.write_bytes(DEEP[name].encode())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "400\n"), done.stderr


@pytest.mark.parametrize("arguments", [["simulate"], ["simulate", os.devnull, "--config"], ["status", "--kubeconfig"]])
def test_a_document_of_many_short_values_is_one_line(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four bytes of text become four hundred of memory: ten million characters would be a gigabyte."""
    file = tmp_path / "many.yaml"
    file.write_text("a: 1\n---\na:\n" + "- x\n" * 2_500_000)
    assert run([*arguments, str(file)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "YAML" in error
