"""The last changes of one resource. Watches and the pages of a list read from it.

A watch has no queue of its own: it has the version it has seen, and reads on from there. So a slow watch costs no
memory; it falls out of the window and has to start again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from .record import Change

_version = attrgetter("version")


class History:
    def __init__(self, window: int, floor: int) -> None:
        self._window = window
        self._changes: list[Change] = []
        self.floor = floor
        """All changes after this version are here."""

    def append(self, change: Change) -> None:
        self._changes.append(change)
        # Dropping half at a time: removing one from the front of a list each time would be quadratic.
        if len(self._changes) > 2 * self._window:
            self.floor = self._changes[self._window - 1].version
            del self._changes[: self._window]

    def since(self, version: int) -> Sequence[Change] | None:
        """The changes after a version; None if some of them are forgotten."""
        if version < self.floor:
            return None
        if not self._changes or self._changes[-1].version <= version:
            return ()
        return self._changes[bisect_right(self._changes, version, key=_version) :]

    def forget(self, version: int) -> None:
        """Forget everything up to a version, as a compaction does."""
        kept = bisect_right(self._changes, version, key=_version)
        self.floor = max(self.floor, version)
        del self._changes[:kept]
