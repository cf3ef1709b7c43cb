"""Reads what users give us without trusting its size or its kind.

A path on a command line or in a kubeconfig may lead to a file of many gigabytes, to a device that never ends, or to a
FIFO that nobody writes to. None of these may cost more than a fixed amount of memory, or hang a process that nobody
looks at. Standard input and the pipes of a shell (`<(command)`) are read like files. Files with credentials must be
real files: a process without a user reads them again and again.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stromboli.errors import UserError

MIB: Final = 1 << 20
LARGEST_MANIFEST: Final = 256 * MIB  # a scenario, or manifests to submit: some 300,000 pods
LARGEST_SETTING: Final = 16 * MIB  # a configuration, a policy, a kubeconfig
LARGEST_CREDENTIAL: Final = MIB  # a token, a key, a bundle of certificates
_PIECE: Final = MIB
_PATIENCE: Final = 5.0  # seconds until somebody must have opened a FIFO for writing
_LOOK_AGAIN: Final = 0.05


def read_input(path: Path | str, limit: int) -> bytes:
    """The content of a file. Raises OSError, or UserError if it is too large or no kind of file that has an end."""
    return _within(_pieces(Path(path), limit), str(path), limit)


def read_text(path: Path | str, limit: int = LARGEST_SETTING) -> str:
    """The same, decoded."""
    try:
        return read_input(path, limit).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8") from None


def read_standard_input(limit: int) -> bytes:
    pieces = iter(lambda: sys.stdin.buffer.read(_PIECE), b"")
    return _within(pieces, "standard input", limit)


def read_credential(path: Path) -> bytes:
    """The content of a regular file. Never blocks."""
    return _within(_pieces(path, LARGEST_CREDENTIAL, only_files=True), str(path), LARGEST_CREDENTIAL)


def read_lines(path: Path, *, first: int, longest: int) -> Iterator[bytes]:
    """The lines of a file of any size, with limits for the first line and for the others. Raises UserError."""
    rest: list[bytes] = []
    size = number = 0
    for piece in _pieces(path):
        *whole, last = piece.split(b"\n")
        for line in whole:
            number += 1
            rest.append(line)
            yield b"".join(rest)
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        limit = longest if number else first
        if size > limit:
            raise UserError(f"{path}, line {number + 1}: is longer than {limit} bytes, the most that is read")
    if size:
        yield b"".join(rest)


def _within(pieces: Iterator[bytes], name: str, limit: int) -> bytes:
    kept, size = [], 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size > limit:
            raise _too_large(name, limit)
    return b"".join(kept)


def _pieces(path: Path, limit: int | None = None, *, only_files: bool = False) -> Iterator[bytes]:
    # Without O_NONBLOCK it would wait for the writer of a FIFO, possibly for ever.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if stat.S_ISREG(found.st_mode):
            if limit is not None and found.st_size > limit:
                raise _too_large(str(path), limit)
        elif only_files or not (stat.S_ISFIFO(found.st_mode) or _ends(handle, found)):
            raise UserError(f"{path}: is not a regular file; give one that is")
        elif stat.S_ISFIFO(found.st_mode):
            yield _first_of_pipe(handle, path)
        os.set_blocking(handle, True)
        while piece := os.read(handle, _PIECE):
            yield piece
    finally:
        os.close(handle)


def _ends(handle: int, found: os.stat_result) -> bool:
    """Whether a device has an end: a terminal, or /dev/null."""
    return os.isatty(handle) or (stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev)


def _first_of_pipe(handle: int, path: Path) -> bytes:
    """Wait until somebody writes, or has the pipe open to do so."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            if first := os.read(handle, _PIECE):
                return first
        except BlockingIOError:  # there is a writer, and nothing yet
            return b""
        time.sleep(_LOOK_AGAIN)
    raise UserError(f"{path}: nobody writes to this FIFO; give a file, or start what writes to it")


def _too_large(name: str, limit: int) -> UserError:
    return UserError(f"{name}: is larger than {limit // MIB} MiB, the most that is read; split it")
