"""The pods that Reservations list as their users, found by the pod.

The list in the status of a Reservation is the proof that a pod may use it; what the pod says about itself is none. The
scheduler writes the list before it binds the pod, so it knows of it before the pod is seen on its node.
"""

from __future__ import annotations

from typing import NamedTuple

from stromboli.api import ObjectReference, Pod, Reservation
from stromboli.api.reservations import reservation_id
from stromboli.cluster.model import TaskKey


class FormerUsers(NamedTuple):
    """Pods that a Reservation lists, and that do not use it. `unseen`: those that are not known here. They are gone,
    unless the list was seen before the pod: who removes them has to look."""

    reservation: Reservation
    pods: tuple[ObjectReference, ...]
    unseen: tuple[ObjectReference, ...]


class ListedUsers:
    def __init__(self) -> None:
        self.lists: dict[str, Reservation] = {}  # by name: those that list somebody
        self.users: dict[str, list[tuple[TaskKey, ObjectReference]]] = {}  # by name: the same, with the keys of pods
        self._listed_in: dict[str, list[str]] = {}  # by the UID of a pod: the names of Reservations

    def apply(self, reservation: Reservation) -> list[ObjectReference]:
        """The pods that were or are listed, if that is not the same."""
        name, now = reservation.metadata.name, reservation.status.current_owners
        known = self.lists.get(name)
        if known is not None and _where(known) == _where(reservation) and known.status.current_owners == now:
            self.lists[name] = reservation
            return []
        before = self.delete(name)
        if now:
            self.lists[name] = reservation
            self.users[name] = [(TaskKey(f"{owner.namespace}/{owner.name}"), owner) for owner in now]
            for owner in now:
                self._listed_in.setdefault(owner.uid, []).append(name)
        return [*before, *now]

    def delete(self, name: str) -> list[ObjectReference]:
        """The pods that were listed."""
        known = self.lists.pop(name, None)
        if known is None:
            return []
        del self.users[name]
        for owner in known.status.current_owners:
            here = self._listed_in.get(owner.uid, [])
            if name in here:
                here.remove(name)
                if not here:
                    del self._listed_in[owner.uid]
        return known.status.current_owners

    def used_by(self, pod: Pod) -> str:
        """The Reservation on its node that lists a pod (see `reservation_id`); "" if there is none."""
        listed, node = self._listed_in.get(pod.metadata.uid), pod.spec.node_name
        if listed is None or not node:
            return ""
        found = [self.lists[name] for name in sorted(listed) if self.lists[name].status.node_name == node]
        return reservation_id(found[0]) if found else ""


def _where(reservation: Reservation) -> tuple[str, str]:
    return reservation.metadata.uid, reservation.status.node_name
