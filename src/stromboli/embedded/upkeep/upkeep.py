"""All controllers of the server behind one interface: they note what changed, and act in turns of a bounded length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Change, StorageError

from .budgets import BudgetController
from .containers import DefinitionCleaner, NamespaceCleaner
from .event_expiry import EventExpiry
from .garbage import GarbageCollector
from .workloads import WorkloadUpkeep
from .writes import Writes

_RETRY_SECONDS: Final = 5.0  # after a change could not be stored


class Controller(Protocol):
    def on_change(self, change: Change) -> None: ...

    def start(self) -> None: ...

    def run(self, now: float) -> bool:
        """Act on some of what changed (see `turn`); False if there was nothing."""
        ...


class Upkeep:
    def __init__(self, server: ApiServer) -> None:
        writes = Writes(server)
        self._retry_at: float | None = None
        self._events = EventExpiry(server.store)
        self._workloads = WorkloadUpkeep(server, writes)
        self._controllers: Sequence[Controller] = (
            GarbageCollector(server, writes),
            NamespaceCleaner(server, writes),
            DefinitionCleaner(server, writes),
            self._workloads,
            BudgetController(server, writes),
            self._events,
        )
        for controller in self._controllers:
            controller.start()
            server.store.listen(controller.on_change)

    def turn(self, now: float) -> bool:
        """Let every controller do a part of its work. False if there was none."""
        if self._retry_at is not None and now < self._retry_at:
            return False
        self._retry_at = None
        self._events.set_time(now)
        try:
            worked = [controller.run(now) for controller in self._controllers]  # all of them, whoever worked
        except StorageError:
            self._start_again(now)
            return False
        return any(worked)

    def _start_again(self, now: float) -> None:
        """Nothing can be written. What was to be done is found again by looking at all objects."""
        self._retry_at = now + _RETRY_SECONDS
        for controller in self._controllers:
            controller.start()

    def next_due(self, now: float) -> float | None:
        """When there is something to do although nothing changes."""
        if self._retry_at is not None:
            return self._retry_at
        dues = (self._events.next_due(), self._workloads.next_due(now))
        return min((due for due in dues if due is not None), default=None)
