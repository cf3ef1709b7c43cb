"""Events are forgotten after an hour, as in Kubernetes."""

from __future__ import annotations

from collections import deque
from typing import Final

from stromboli.embedded.store import Change, ObjectKey, Store

from .turn import WRITES

LIFETIME: Final = 3600.0  # seconds after the last write


class EventExpiry:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: deque[tuple[float, ObjectKey, int]] = deque()
        self._now = 0.0

    def on_change(self, change: Change) -> None:
        if change.record.key.resource == "events" and change.type != "DELETED":
            self._written.append((self._now, change.record.key, change.record.version))

    def start(self) -> None:
        self._written.clear()
        for record in self._store.list("events"):
            self._written.append((self._now, record.key, record.version))

    def set_time(self, now: float) -> None:
        self._now = now

    def next_due(self) -> float | None:
        return self._written[0][0] + LIFETIME if self._written else None

    def run(self, now: float) -> bool:
        self._now = now
        forgotten = 0
        while self._written and self._written[0][0] + LIFETIME <= now and forgotten < WRITES:
            _, key, version = self._written.popleft()
            record = self._store.get(key)
            if record is not None and record.version == version:
                self._store.delete(key)
                forgotten += 1
        return bool(forgotten)
