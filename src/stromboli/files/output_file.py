"""Files that we write for users: reports, and recordings.

A report takes the place of the last one when it is complete, so a disk that is full costs the new report and not the
old one. A recording grows line by line. Both may be large and are not secret, but say what runs on a cluster: symbolic
links that somebody else may have put there are not followed. What the system itself has in /dev (`/dev/stdout`,
`/dev/fd/3`) is opened as it is; in folders such as /dev/shm anybody can make files.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from stromboli.errors import UserError

_DEVICES: Final = ("/dev", "/dev/fd", "/dev/pts", "/proc/self/fd")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_output(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all. Raises UserError."""
    try:
        found = _existing(path)
        if found is not None and _is_device_path(path):
            with path.open("wb") as file:
                file.write(data)
            return
        mode = stat.S_IMODE(found.st_mode) if found is not None else None
        _replace(path, data, mode)
    except OSError as error:
        raise _failed(path, error) from None


def new_private_file(path: Path, data: bytes) -> None:
    """Write a file for the owner alone; one that exists is an error. Raises OSError, and then there is no file."""
    handle = os.open(path, _NEW, 0o600)
    try:
        _write_all(handle, data)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(handle)


def open_for_append(path: Path, *, mode: int = 0o600) -> int:
    """A descriptor for reading and for writing at the end. Raises UserError."""
    try:
        _existing(path)
        follow = 0 if _is_device_path(path) else os.O_NOFOLLOW
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | follow, mode)
    except OSError as error:
        raise _failed(path, error) from None
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_uid != os.geteuid():
        os.close(handle)
        raise UserError(f"{path} belongs to another user (uid {found.st_uid}); name another file")
    return handle


def append(path: Path, data: bytes, *, anew: bool = False) -> None:
    """Write at the end of a file; `anew`: of an empty one. Raises UserError."""
    handle = open_for_append(path, mode=0o666)  # as the user's umask has it
    try:
        if anew and stat.S_ISREG(os.fstat(handle).st_mode):
            os.ftruncate(handle, 0)
        _write_all(handle, data)
    except OSError as error:
        raise _failed(path, error) from None
    finally:
        os.close(handle)


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(beside, _NEW, 0o666)
    try:
        try:
            if mode is not None:
                os.fchmod(handle, mode)
            _write_all(handle, data)
        finally:
            os.close(handle)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _write_all(handle: int, data: bytes) -> None:
    view, written = memoryview(data), 0
    while written < len(view):
        written += os.write(handle, view[written:])


def _existing(path: Path) -> os.stat_result | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode) and not _is_device_path(path):
        raise OSError(errno.ELOOP, "it is a symbolic link; name the file that it points to")
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    # Whoever writes to a FIFO that nobody reads waits for ever.
    if not stat.S_ISREG(found.st_mode) and not _is_device_path(path):
        raise OSError(errno.EINVAL, "it is not a regular file; name another one")
    return found


def _is_device_path(path: Path) -> bool:
    return os.path.dirname(os.path.normpath(path.absolute())) in _DEVICES


def _failed(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be written: {error.strerror}")
