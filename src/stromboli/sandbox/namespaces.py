"""The calls to the kernel that make a sandbox. Python has most of them from 3.12 on, and those for mounts not at all.

As root the namespaces are made directly. Others need a user namespace, in which they may do it: there the program still
is the same user, with the same rights. Where a system forbids that, `unshare` says so, and nothing has changed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any, Final

MS_RDONLY: Final = 1
MS_REMOUNT: Final = 1 << 5
MS_BIND: Final = 1 << 12
MS_REC: Final = 1 << 14
MS_UNBINDABLE: Final = 1 << 17
MS_SLAVE: Final = 1 << 19
_KEPT_FLAGS: Final = 2 | 4 | 8 | 1024 | 2048 | (1 << 21)  # nosuid, nodev, noexec, noatime, nodiratime, relatime

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUTS: Final = 0x04000000
_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWPID: Final = 0x20000000
_FALLOC_FL_KEEP_SIZE: Final = 1
_FALLOC_FL_PUNCH_HOLE: Final = 2
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare() -> None:
    """Processes, mounts, host name and System V IPC of our own; processes from the next fork on. Raises OSError."""
    if sys.platform != "linux":
        raise OSError("only Linux has namespaces")
    user, group = os.geteuid(), os.getegid()
    flags = _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWUTS | _CLONE_NEWIPC
    if user != 0:
        flags |= _CLONE_NEWUSER
    _check(_libc().unshare(flags), "the system does not let this user make namespaces")
    if user != 0:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    _check(_libc().mount(*arguments), f"cannot mount {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        # In a user namespace the other restrictions of the mount must be stated again, or the kernel refuses.
        kept = os.statvfs(target).f_flag & _KEPT_FLAGS
        mount("", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def keep_mounts_private() -> None:
    """What we mount is seen by nobody else."""
    mount("none", "/", flags=MS_REC | MS_SLAVE)


def die_with_parent() -> None:
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> bool:
    """Become the parent of descendants that lose theirs. Returns whether that is possible here."""
    return sys.platform == "linux" and int(_libc().prctl(_PR_SET_CHILD_SUBREAPER, 1)) == 0


def set_host_name(name: str) -> None:
    encoded = name.encode()[:64]
    _check(_libc().sethostname(encoded, len(encoded)), "cannot set the host name")


def punch_hole(file: int, end: int) -> None:
    """Give the space of a file up to there back to the system; what follows stays where it is. Raises OSError."""
    if sys.platform != "linux":
        raise OSError("only Linux makes holes in files")
    flags = _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE
    _check(_libc().fallocate(file, flags, ctypes.c_long(0), ctypes.c_long(end)), "the file system makes no holes")
