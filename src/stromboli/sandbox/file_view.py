"""Folders and files where a program expects them: what is mounted for it, beside the files of the machine.

Most paths that containers mount at do not exist on the machine (/config, /data, /etc/volcano), and the machine is not
changed for them. So the nearest folder above is replaced, for the program only, by a copy in memory: its entries are
the machine's own, and next to them are the new ones. New entries that the program makes directly in such a folder are
gone when it ends. That must not happen to results that somebody writes into a folder of his own, so this is done to
folders of the system only; elsewhere the folder has to exist.

Mounts may be inside each other. The place of the inner one is then made in the outer one, as container runtimes do.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .namespaces import MS_UNBINDABLE, bind, keep_mounts_private, mount

_OF_THE_SYSTEM: Final = ("etc", "mnt", "opt", "run", "srv", "usr", "var", "media")


class CannotMount(Exception):
    """Says which path cannot be used, and what to do."""


@dataclass(frozen=True, slots=True)
class Mount:
    source: str
    """A folder or a file of the machine."""
    target: str
    read_only: bool = False


class FileView:
    """Made in a mount namespace of our own, as the last step before programs are started."""

    def __init__(self, staging: str) -> None:
        """`staging`: an empty folder of the machine, in which the new root is built if one is needed."""
        self._staging = staging
        self._in_memory: set[str] = set()  # folders that are copies
        self._mounted: dict[str, int] = {}  # where something is mounted, and its source

    def make(self, mounts: Sequence[Mount]) -> None:
        """Raises CannotMount or OSError."""
        keep_mounts_private()
        wanted = sorted(mounts, key=lambda one: (one.target.count("/"), one.target))
        # Opened before anything is mounted: a mount at /tmp hides what is there.
        sources = [os.open(one.source, os.O_PATH) for one in wanted]
        try:
            if any(self._first_existing(one.target) == "/" for one in wanted if not os.path.exists(one.target)):
                self._replace_root()
            for one, source in zip(wanted, sources, strict=True):
                target = self._mount_point(one, source)
                bind(f"/proc/self/fd/{source}", target, read_only=one.read_only)
                self._mounted[target] = source
        finally:
            for source in sources:
                os.close(source)

    def _mount_point(self, one: Mount, source: int) -> str:
        if os.path.exists(one.target):
            return os.path.realpath(one.target)
        above = self._first_existing(one.target)
        inside = os.path.join(above, os.path.relpath(one.target, self._written_above(one.target)))
        outer = max((path for path in self._mounted if f"{above}/".startswith(f"{path}/")), key=len, default=None)
        if outer is not None:
            # By way of the source: what is mounted may be for reading only.
            _make(f"/proc/self/fd/{self._mounted[outer]}/{os.path.relpath(inside, outer)}", source)
            return inside
        if above not in self._in_memory:
            if above.split("/")[1] not in _OF_THE_SYSTEM:
                raise CannotMount(
                    f"{one.target} does not exist on this machine, and a folder in {above} is not made for a pod; "
                    f"make it (mkdir -p {one.target}), or mount at another path such as /mnt/data"
                )
            self._copy_into_memory(above)
        _make(inside, source)
        return inside

    @staticmethod
    def _written_above(path: str) -> str:
        while not os.path.exists(path):
            path = os.path.dirname(path)
        return path

    @classmethod
    def _first_existing(cls, path: str) -> str:
        """The nearest folder above that exists, without symbolic links."""
        return os.path.realpath(cls._written_above(path))

    def _replace_root(self) -> None:
        mount("none", self._staging, "tmpfs", data="mode=0755")
        # Otherwise the copies of the folders above the new root would contain it.
        mount("none", self._staging, flags=MS_UNBINDABLE)
        _fill("/", self._staging)
        os.chroot(self._staging)
        os.chdir("/")
        self._in_memory.add("/")

    def _copy_into_memory(self, folder: str) -> None:
        entries = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            mount("none", folder, "tmpfs", data="mode=0755")
            _fill(f"/proc/self/fd/{entries}", folder)
        finally:
            os.close(entries)
        self._in_memory.add(folder)


def _fill(source: str, target: str) -> None:
    """Make each entry of one folder appear in another, empty one."""
    with os.scandir(source) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        there = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), there)
            continue
        if entry.is_dir():
            os.mkdir(there)
        else:
            _touch(there)
        try:
            bind(entry.path, there)
        except PermissionError:
            continue  # the user may not see what is there either way


def _make(path: str, source: int) -> None:
    """What `source` can be mounted at."""
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _touch(path)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
