"""How far one move is, and what is wrong with it.

PLANNED ─▶ LEAVING ─▶ AWAY ─▶ DONE
   │          │         │
   └──────────┴─────────┴──▶ a failure; an AWAY move without a place is LOST
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Final

from stromboli.api import Node, Pod, Reservation
from stromboli.api.migration_reservations import Migration
from stromboli.api.reservations import AVAILABLE, EXPIRED, FAILED, SUCCEEDED, has_expired
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster.object_fields import is_ready
from stromboli.descheduling.planning import Objects

RESERVATION_TIMEOUT: Final = 300.0  # seconds until a place must be found
EVICTION_TIMEOUT: Final = 300.0  # seconds that a refused eviction is repeated

Failure = tuple[str, str]  # a reason in one word, and a sentence
_FINISHED: Final = ("Succeeded", "Failed")


class Step(Enum):
    PLANNED = "a place is asked for"
    LEAVING = "the eviction was decided, and the pod still runs"
    AWAY = "the pod is gone, and its place is kept"
    LOST = "the pod is gone, and so is its place"
    DONE = "a successor uses the place, and the pod is gone"


class MoveState:
    def __init__(self, objects: Objects, move: Migration, now: float) -> None:
        self._objects = objects
        self._now = now
        self.move = move
        self.name = move.reservation.metadata.name
        self.phase = move.reservation.status.phase
        self.has_expired = self.phase == EXPIRED or has_expired(move.reservation, now)

    @cached_property
    def step(self) -> Step:
        if self.phase == SUCCEEDED and not self._runs:
            return Step.AWAY if self._terminates else Step.DONE
        if self.move.evicting_since is None:
            return Step.PLANNED
        if self._runs:
            return Step.LEAVING
        return Step.LOST if self.phase == FAILED or (self.has_expired and self.phase != SUCCEEDED) else Step.AWAY

    @cached_property
    def _pod(self) -> Pod | None:
        """The pod that leaves, as long as it is the same one and has not finished."""
        pod = self._objects.get(Pod, self.move.pod)
        if pod is None or pod.metadata.uid != self.move.uid or pod.status.phase in _FINISHED:
            return None
        return pod

    @property
    def _runs(self) -> bool:
        return self._pod is not None and self._pod.metadata.deletion_timestamp is None

    @property
    def _terminates(self) -> bool:
        """Until the pod is gone, the Reservation says that it is a pod which moves: its queue pays for one place, not
        for two. A pod that should be gone by now is no reason to wait: its node may be lost."""
        end = self.gone_at
        return end is not None and self._now < end

    @property
    def gone_at(self) -> float | None:
        """When a pod that terminates should be gone."""
        end = None if self._pod is None else self._pod.metadata.deletion_timestamp
        return None if end is None else parse_timestamp(end)

    def failure(self) -> Failure | None:
        """Why nothing more of its plan may be evicted; None if nothing is wrong with it."""
        match self.step:
            case Step.PLANNED:
                return self._planned_failure()
            case Step.LEAVING:
                return self._leaving_failure()
            case Step.LOST:
                return f"Reservation{EXPIRED if self.has_expired else FAILED}", "no successor used its place"
            case Step.AWAY:
                return self.target_failure()
        return None

    def _planned_failure(self) -> Failure | None:
        if not self._runs:
            return "PodGone", f"pod {self.move.pod} is gone"
        lost = self._place_failure()
        if lost is not None or self.phase == AVAILABLE:
            return lost
        if self._now - created_at(self.move.reservation) < RESERVATION_TIMEOUT:
            return None
        why = self._why()
        if why:
            return "NoPlaceFound", why
        return "Timeout", f"no place was found on node {self.move.target} in {RESERVATION_TIMEOUT:g} seconds"

    def _leaving_failure(self) -> Failure | None:
        assert self.move.evicting_since is not None
        lost = self._place_failure()
        if lost is not None:
            return lost
        if self.phase != AVAILABLE:
            return "PlaceLost", "its place was lost before it was evicted"
        if self._now - self.move.evicting_since >= EVICTION_TIMEOUT:
            return "EvictionBlocked", f"its eviction was refused for {EVICTION_TIMEOUT:g} seconds"
        return None

    def _place_failure(self) -> Failure | None:
        """What happened to the place of a pod that still runs."""
        if self.has_expired or self.phase == FAILED:
            reason = f"Reservation{EXPIRED if self.has_expired else FAILED}"
            return reason, self._why() or f"node {self.move.target} has no place for it"
        if self.phase == SUCCEEDED:
            return "ReservationTaken", "another pod took the place"
        return self.target_failure()

    def target_failure(self) -> Failure | None:
        """Why nobody can start on the target now."""
        node = self._objects.get(Node, self.move.target)
        if node is None or node.spec.unschedulable or not is_ready(node):
            return "TargetLost", f"node {self.move.target} is gone, cordoned or not ready"
        return None

    def _why(self) -> str:
        """What the scheduler says about a Reservation that it could not place."""
        conditions = self.move.reservation.status.conditions
        return next((c.message for c in conditions if c.status == "False" and c.message), "")


def created_at(reservation: Reservation) -> float:
    created = reservation.metadata.creation_timestamp
    return 0.0 if created is None else parse_timestamp(created)
