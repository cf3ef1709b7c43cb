"""Keeps the status of Reservations true, and deletes those that ended long ago."""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec.structs import replace

from stromboli.api import ApiError, KObject, Node, Pod, Reservation, key, validate
from stromboli.api.reservations import FAILED, expires_at, has_expired, is_held, is_over
from stromboli.api.timestamps import parse_timestamp
from stromboli.api.waiting_reservations import waiting_pod_of
from stromboli.controllers.changes import Change, Delete, Notify, Objects, Update
from stromboli.controllers.work_queue import WorkQueue

from .lifecycle import NodeContents, ended, new_status

DEFAULT_RETENTION: Final = 86_400.0
"""Seconds for which a Reservation that has ended is kept, so that people can see what became of it."""


class ReservationController:
    observes: ClassVar = (Reservation, Pod, Node)

    def __init__(self, *, retention: float = DEFAULT_RETENTION, validates: bool = False) -> None:
        """`retention`: after how many seconds a Reservation that has ended is deleted; 0 means never.
        `validates`: nobody has validated the objects."""
        self._retention = retention
        self._validates = validates
        self._queue = WorkQueue()
        self._pods_on: dict[str, dict[str, Pod]] = {}  # by node
        self._at: dict[str, set[str]] = {}  # by node: the Reservations there

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        if isinstance(before, Reservation) or isinstance(after, Reservation):
            self._reservation_changed(before, after)
        elif isinstance(before, Pod) or isinstance(after, Pod):
            self._pod_changed(before, after)
        elif isinstance(before, Node) or isinstance(after, Node):
            node = after or before
            assert node is not None
            self._queue.add_all(self._at.get(node.metadata.name, ()))

    def _reservation_changed(self, before: KObject | None, after: KObject | None) -> None:
        for obj in (before, after):
            if isinstance(obj, Reservation) and obj.status.node_name:
                here = self._at.setdefault(obj.status.node_name, set())
                here.discard(obj.metadata.name)
                if obj is after:
                    here.add(obj.metadata.name)
                self._queue.add_all(here)  # what one of them leaves, another may hold again
        if isinstance(after, Reservation):
            self._queue.add(after.metadata.name)
        elif isinstance(before, Reservation):
            self._queue.set_due(before.metadata.name, None)

    def _pod_changed(self, before: KObject | None, after: KObject | None) -> None:
        for obj in (before, after):
            if isinstance(obj, Pod) and obj.spec.node_name:
                here = self._pods_on.setdefault(obj.spec.node_name, {})
                here.pop(key(obj), None)
                if obj is after:
                    here[key(obj)] = obj
                elif not here:
                    del self._pods_on[obj.spec.node_name]
                self._queue.add_all(self._at.get(obj.spec.node_name, ()))

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for name in self._queue.take(now):
            reservation = objects.get(Reservation, name)
            if reservation is None or waiting_pod_of(reservation) is not None:
                continue
            changed = self._visit(objects, reservation, now)
            if changed:
                self._queue.add(name)
            changes += changed
        return changes

    def next_due(self, now: float) -> float | None:
        return self._queue.next_due(now)

    def _visit(self, objects: Objects, reservation: Reservation, now: float) -> list[Change]:
        name = reservation.metadata.name
        if is_over(reservation):
            return self._collect(reservation, now)
        self._queue.set_due(name, expires_at(reservation))
        problem = self._problem(reservation)
        if problem:
            status = ended(reservation.status, FAILED, "Invalid", problem, now)
        else:
            status = new_status(reservation, self._contents(objects, reservation, now), now)
        if status == reservation.status:
            return []
        changes: list[Change] = [Update(replace(reservation, status=status))]
        if status.phase != reservation.status.phase:
            said = next((c for c in status.conditions if c.type == "Ready"), None)
            message = "" if said is None else said.message
            changes.append(Notify(reservation, status.phase, message, warning=bool(problem)))
        return changes

    def _problem(self, reservation: Reservation) -> str:
        if self._validates:
            try:
                validate(reservation)
            except ApiError as error:
                return f"{error.field}: {error.message}"
        return ""

    def _contents(self, objects: Objects, reservation: Reservation, now: float) -> NodeContents | None:
        """Without those whose time is over: the scheduler may have given away what they held."""
        node = reservation.status.node_name
        if not node:
            return None
        found = [objects.get(Reservation, name) for name in self._at.get(node, ())]
        here = [
            r for r in found
            if r is not None and r.status.node_name == node and is_held(r) and not has_expired(r, now)
        ]  # fmt: skip
        oldest_first = sorted(here, key=lambda r: (r.metadata.creation_timestamp or "", r.metadata.name))
        pods = list(self._pods_on.get(node, {}).values())
        return NodeContents(objects.get(Node, node), pods, oldest_first)

    def _collect(self, reservation: Reservation, now: float) -> list[Change]:
        """Delete it when it has been over for long enough."""
        said = next((c for c in reservation.status.conditions if c.type == "Ready"), None)
        end = reservation.metadata.creation_timestamp if said is None else said.last_transition_time
        if not self._retention or end is None:
            return []
        due = parse_timestamp(end) + self._retention
        if now < due:
            self._queue.set_due(reservation.metadata.name, due)
            return []
        return [Delete(reservation, f"it has been {reservation.status.phase} for a while")]
