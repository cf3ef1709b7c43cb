"""Which Reservations a pod may use: those of its own queue whose owners include it.

There may be thousands of both, so Reservations are found by something that their owners name: a label, a UID, a name.
Only those found are compared in full.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stromboli.api import Pod, Reservation, ReservationOwner
from stromboli.api.quantity import amounts
from stromboli.api.reservations import may_use, queue_of, reserved_amounts
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import PODS, Holding, Task, TaskKey
from stromboli.scheduling.session import Session

_ANY: Hashable = ("any",)


@dataclass(frozen=True, slots=True, eq=False)
class Usable:
    """A Reservation that holds resources in this session."""

    name: str
    object: Reservation
    columns: npt.NDArray[np.int64]  # the resources that it has, without "pods"
    created: float


class Matches:
    """As of the start of a session; nobody gets a new Reservation to use during one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index: dict[Hashable, list[Usable]] = {}
        self._label_keys: set[str] = set()
        self._known: dict[TaskKey, list[Usable]] = {}
        for name in sorted(session.ledger.holdings):
            reservation = session.snapshot.reservations.get(name)
            if reservation is not None and reservation.metadata.deletion_timestamp is None:
                self._add(reservation, session.ledger.holdings[name])

    def __bool__(self) -> bool:
        return bool(self._index)

    def of(self, task: Task) -> list[Usable]:
        """Those that a waiting task may use, whether or not they have enough for it."""
        if not self._index or task.stands_for or task.job is None or task.best_effort:
            return []
        known = self._known.get(task.key)
        if known is None:
            known = self._known[task.key] = self.for_pod(task.pod, task.job.queue.name)
        return known

    def for_pod(self, pod: Pod, queue: str) -> list[Usable]:
        """By name. The pod need not exist yet."""
        found: dict[str, Usable] = {}
        for place in self._places(pod):
            for usable in self._index.get(place, ()):
                reservation = usable.object
                if usable.name not in found and queue_of(reservation) == queue and may_use(reservation, pod):
                    found[usable.name] = usable
        return [found[name] for name in sorted(found)] if len(found) > 1 else list(found.values())

    def _add(self, reservation: Reservation, holding: Holding) -> None:
        given = self._session.axis.vector(_amounts(reservation))
        given[PODS] = 0
        timestamp = reservation.metadata.creation_timestamp
        created = 0.0 if timestamp is None else parse_timestamp(timestamp)
        usable = Usable(reservation.metadata.name, reservation, np.flatnonzero(given), created)
        for owner in reservation.spec.owners:
            place = self._place(owner)
            here = self._index.setdefault(place, [])
            if usable not in here:
                here.append(usable)

    def _place(self, owner: ReservationOwner) -> Hashable:
        """Something that every pod of this owner has."""
        if owner.object is not None and (owner.object.uid or owner.object.name):
            return ("uid", owner.object.uid) if owner.object.uid else ("name", owner.object.name)
        if owner.controller is not None and (owner.controller.uid or owner.controller.name):
            controller = owner.controller
            return ("owner uid", controller.uid) if controller.uid else ("owner", controller.name)
        if owner.label_selector is not None and owner.label_selector.match_labels:
            label = min(owner.label_selector.match_labels.items())
            self._label_keys.add(label[0])
            return label
        return _ANY

    def _places(self, pod: Pod) -> Iterator[Hashable]:
        meta = pod.metadata
        yield _ANY
        yield ("uid", meta.uid)
        yield ("name", meta.name)
        for reference in meta.owner_references:
            yield ("owner uid", reference.uid)
            yield ("owner", reference.name)
        for key in self._label_keys & meta.labels.keys():
            yield (key, meta.labels[key])


def _amounts(reservation: Reservation) -> dict[str, int]:
    return amounts(reservation.status.allocatable) or reserved_amounts(reservation)
