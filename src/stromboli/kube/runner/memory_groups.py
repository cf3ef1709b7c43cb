"""Memory limits by control groups: a program that uses more is killed by the kernel, and only it.

Where the system lets us make such groups (root usually may; others only where a group was delegated to them), each
container with a memory limit gets one. Elsewhere its limit is the largest address space of each of its processes, so
that an allocation fails instead, and nothing is said to be OOMKilled.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")


class MemoryGroup:
    """One group. Processes join it by writing to `members`."""

    def __init__(self, folder: Path, *, version: int) -> None:
        self._folder = folder
        self._version = version

    @property
    def members(self) -> Path:
        return self._folder / "cgroup.procs"

    def has_killed(self) -> bool:
        """Whether a process in it was killed because its memory was used up."""
        file = "memory.events" if self._version == 2 else "memory.oom_control"
        for line in (self._folder / file).read_text(encoding="ascii").splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number) > 0
        return False

    def used(self) -> int:
        file = "memory.current" if self._version == 2 else "memory.usage_in_bytes"
        return int((self._folder / file).read_text(encoding="ascii"))

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._folder.rmdir()


class MemoryGroups:
    """A group for each container that has a limit, below one of our own. `make` returns None where none can be made."""

    def __init__(self, root: Path = _ROOT) -> None:
        self._parent: Path | None = None
        self._version = 2 if (root / "cgroup.controllers").exists() else 1
        with contextlib.suppress(OSError):
            self._parent = self._find(root)

    def make(self, name: str, limit: int) -> MemoryGroup | None:
        if self._parent is None:
            return None
        folder = self._parent / name
        try:
            folder.mkdir(exist_ok=True)
            if self._version == 2:
                (folder / "memory.max").write_text(str(limit), encoding="ascii")
                with contextlib.suppress(OSError):
                    (folder / "memory.swap.max").write_text("0", encoding="ascii")
            else:
                (folder / "memory.limit_in_bytes").write_text(str(limit), encoding="ascii")
                with contextlib.suppress(OSError):  # there where swap is accounted
                    (folder / "memory.memsw.limit_in_bytes").write_text(str(limit), encoding="ascii")
        except OSError:
            return None
        return MemoryGroup(folder, version=self._version)

    def close(self) -> None:
        if self._parent is not None:
            with contextlib.suppress(OSError):
                self._parent.rmdir()

    def _find(self, root: Path) -> Path:
        """Raises OSError."""
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
        if self._version == 2:
            own = root / paths[""].lstrip("/")
            # A group with processes can have no children with limits, so ours is beside our own group.
            beside = own if own == root else own.parent
            if "memory" not in (beside / "cgroup.subtree_control").read_text(encoding="ascii").split():
                raise OSError("limits of memory are not delegated")
        else:
            named = next((path for controllers, path in paths.items() if "memory" in controllers.split(",")), None)
            if named is None:
                raise OSError("memory is not accounted")
            beside = root / "memory" / named.lstrip("/")
        for left in sorted(beside.glob("stromboli-*")):
            if not Path(f"/proc/{left.name.removeprefix('stromboli-')}").exists():
                _remove(left)
        parent = beside / f"stromboli-{os.getpid()}"
        parent.mkdir(exist_ok=True)
        if self._version == 2:
            (parent / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
        return parent


def _remove(parent: Path) -> None:
    """The groups of a process that was killed."""
    for folder in (*(one for one in parent.iterdir() if one.is_dir()), parent):
        with contextlib.suppress(OSError):
            folder.rmdir()
