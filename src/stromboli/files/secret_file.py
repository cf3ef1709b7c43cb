"""Files with secrets: tokens, keys, certificates, kubeconfigs. This is the only way in which they are written.

A secret is never readable by others, not even for an instant: the file is made with its mode, under a name that cannot
be guessed, and takes its place when it is complete. A symbolic link in its place is refused, not followed.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from stromboli.errors import UserError

from .folder import check_place
from .input_file import LARGEST_CREDENTIAL


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all. Raises UserError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_place(path.parent)
        _refuse_what_is_no_file(path)
        _write(path, text.encode())
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def _write(path: Path, data: bytes) -> None:
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600, and never an existing file
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def read_secret(path: Path) -> str | None:
    """The content of a file that only its owner can change or read; None if there is none. Raises UserError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(path) from None
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        _check(path, os.fstat(handle))
        data = file.read(LARGEST_CREDENTIAL)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text; remove it, and a new one is made") from None


def check_secret(path: Path) -> None:
    """Refuse a file that others may read or change, or that is elsewhere. One that does not exist is fine."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    _check(path, found)


def _check(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _link(path)
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path}: is not a regular file; remove it")
    if found.st_uid != os.geteuid():
        raise UserError(f"{path} belongs to another user (uid {found.st_uid}); use a folder of your own")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise UserError(f"{path} is open to others (mode {mode:04o}); run `chmod 600 {path}` if you trust its content")


def _refuse_what_is_no_file(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        raise _link(path)
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path}: is not a regular file; name another one")


def _link(path: Path) -> UserError:
    return UserError(f"{path} is a symbolic link, which is not followed for secrets; name the file that it points to")
