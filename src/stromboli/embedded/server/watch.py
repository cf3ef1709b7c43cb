"""A watch: the events of a resource after a version, as far as a selection goes.

An object that is changed so that it no longer matches is DELETED for this watch, and one that begins to match is ADDED.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

import msgspec

from stromboli.embedded.status import StatusError, expired
from stromboli.embedded.store import Change, Record, Store

from .renderer import Renderer
from .selection import Selection

_AT_ONCE: Final = 200  # events; a client that does not read must not make us keep all of them
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class Watch:
    """Reads the history from its own position on. Whoever sends the events calls `poll` after each commit."""

    def __init__(
        self, store: Store, renderer: Renderer, selection: Selection, version: int, *, bookmarks: bool
    ) -> None:
        self._store = store
        self._renderer = renderer
        self._selection = selection
        self._version = version
        self._history = store.history(renderer.type.resource)
        self.bookmarks = bookmarks
        self.ended = False
        """After an error: nothing comes any more."""
        self._first: deque[Record] = deque()
        """What was there at the start and is not sent yet. The records are those of the store, not copies."""
        self._marks_end = False
        self.is_behind = False
        """There is more to send at once: `poll` again without waiting."""

    @property
    def resource(self) -> str:
        return self._renderer.type.resource

    def start_with(self, records: Iterable[Record], *, mark_end: bool) -> None:
        """Send these objects first."""
        self._first.extend(record for record in records if self._selection.selects(record))
        self._marks_end = mark_end

    def poll(self, now: float) -> list[bytes]:
        """The lines of the next events; only some of them if `is_behind` afterwards."""
        self._renderer.now = now
        lines = self._first_lines()
        self.is_behind = bool(self._first)
        if self.is_behind or self.ended:
            return lines
        changes = self._history.since(self._version)
        if changes is None:
            oldest = self._history.floor + 1
            self._fail(expired(f"too old resource version: {self._version} ({oldest})"), lines)
            return lines
        for change in islice(changes, _AT_ONCE):
            line = self._event(change)
            if line:
                lines.append(line)
            self._version = change.version
        self.is_behind = len(changes) > _AT_ONCE
        return lines

    def _first_lines(self) -> list[bytes]:
        count = min(len(self._first), _AT_ONCE)
        lines = [_line("ADDED", self._renderer.event_object(self._first.popleft())) for _ in range(count)]
        if self._marks_end and not self._first:
            self._marks_end = False
            lines.append(self._bookmark(INITIAL_EVENTS_END))
        return lines

    def bookmark(self) -> bytes:
        """A line that says how far this watch has come."""
        # Everything up to now has been read, also of other resources.
        self._version = max(self._version, self._store.version)
        return self._bookmark({})

    def _bookmark(self, annotations: Mapping[str, str]) -> bytes:
        return _line("BOOKMARK", self._renderer.bookmark(self._version, annotations))

    def _event(self, change: Change) -> bytes:
        is_selected = self._selection.selects(change.record)
        if change.type == "ADDED":
            return _line("ADDED", self._renderer.event_object(change.record)) if is_selected else b""
        assert change.before is not None
        was_selected = self._selection.selects(change.before)
        if change.type == "DELETED":
            return _line("DELETED", self._renderer.event_object(change.record)) if was_selected else b""
        if is_selected:
            kind = "MODIFIED" if was_selected else "ADDED"
            return _line(kind, self._renderer.event_object(change.record))
        if not was_selected:
            return b""
        # The last state that matched, as the version of the change that ended it.
        value = change.before.value()
        value["metadata"]["resourceVersion"] = str(change.version)
        record = Record(change.record.key, change.version, msgspec.json.encode(value))
        return _line("DELETED", self._renderer.event_object(record))

    def _fail(self, error: StatusError, lines: list[bytes]) -> None:
        self.ended = True
        lines.append(_line("ERROR", msgspec.json.encode(error.status())))


def _line(kind: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), data)
