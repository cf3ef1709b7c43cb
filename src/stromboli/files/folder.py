"""Folders that hold what only their owner may change.

Whoever can write to a folder can replace the files in it, whatever the modes of the files are; and whoever can write to
a folder above can replace the folder. So a folder with secrets or data in it must belong to us, and neither it nor one
above it may be open to others, or belong to another user than us and root. Folders with the sticky bit, such as /tmp,
are safe to stand in: others cannot rename what is ours. A group of which the owner is the only member, as many systems
give to each user, counts as the owner.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Final

from stromboli.errors import UserError

_UNMAPPED: Final = 65_534  # the owner of files whose owner has no number in a user namespace


def private_folder(path: Path) -> None:
    """Make a folder for the owner alone, or check the one that exists. Raises UserError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: the folder cannot be made: {error.strerror}") from None
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise UserError(f"{path} is a symbolic link; name the folder that it points to: {path.resolve()}")
    if found.st_uid != os.geteuid():
        raise UserError(f"{path} belongs to another user (uid {found.st_uid}); use a folder of your own")
    if _open_to_others(found):
        raise _writable(path, found)
    check_place(path.parent)


def check_place(folder: Path) -> None:
    """Refuse a folder in which others may replace files, or which itself may be replaced."""
    place = folder.resolve()
    for one in (place, *place.parents):
        found = one.stat()
        if not _is_trusted(found.st_uid):
            raise UserError(
                f"{one} belongs to another user (uid {found.st_uid}), who could replace what is in it; "
                "use another folder"
            )
        if _open_to_others(found) and not found.st_mode & stat.S_ISVTX:
            raise _writable(one, found)


def _is_trusted(owner: int) -> bool:
    """We ourselves and the administrator, who in a user namespace may have no number."""
    return owner in (0, os.geteuid()) or (owner == _UNMAPPED and _is_in_user_namespace())


def _is_in_user_namespace() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text().split() != ["0", "0", str(2**32 - 1)]
    except OSError:
        return False


def _open_to_others(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found)


def _is_own_group(found: os.stat_result) -> bool:
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    is_named_so = group.gr_name == owner.pw_name and group.gr_gid == owner.pw_gid
    return is_named_so and set(group.gr_mem) <= {owner.pw_name}


def _writable(path: Path, found: os.stat_result) -> UserError:
    mode = stat.S_IMODE(found.st_mode)
    return UserError(
        f"{path} can be written by others (mode {mode:04o}), who could replace what is in it; "
        f"run `chmod go-w {path}`, or use another folder"
    )
