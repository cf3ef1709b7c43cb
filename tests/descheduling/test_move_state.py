"""What is wrong with a move, by its objects alone: states that a scheduler leaves only for a moment."""

from __future__ import annotations

from typing import TypeVar

import pytest
from msgspec.structs import replace

from builders import node, pod
from stromboli.api import KObject, Reservation, key
from stromboli.api.migration_reservations import migration_reservation, with_eviction
from stromboli.api.reservations import AVAILABLE, PENDING
from stromboli.descheduling.migration.progress import advance
from stromboli.descheduling.migration.writes import DeleteReservation, EvictPod, Report

T = TypeVar("T", bound=KObject)
NOW = 1_000.0


class Store:
    def __init__(self, *objects: KObject) -> None:
        self._objects = objects

    def list(self, kind: type[T]) -> list[T]:
        return [each for each in self._objects if isinstance(each, kind)]

    def get(self, kind: type[T], name: str) -> T | None:
        return next((each for each in self.list(kind) if key(each) == name), None)


RUNNING = pod("x", cpu=1, node="a", phase="Running")


def marked(phase: str, *, pod_phase: str = "Running") -> Store:
    """x runs on a; its eviction was decided a minute ago, because b had a place for it."""
    leaving = replace(RUNNING, status=replace(RUNNING.status, phase=pod_phase))
    place = migration_reservation(leaving, None, "b", plan="p", moves=1, job="", cooldown=0)
    place = with_eviction(place, NOW - 60)
    place: Reservation = replace(place, status=replace(place.status, phase=phase, node_name="b"))
    return Store(node("a", cpu=8), node("b", cpu=8), leaving, place)


def test_a_pod_whose_place_is_kept_is_evicted() -> None:
    assert [type(write) for write in advance(marked(AVAILABLE), NOW)] == [EvictPod]


@pytest.mark.parametrize("phase", [PENDING, ""])
def test_a_pod_whose_place_waits_again_is_not_evicted(phase: str) -> None:
    """After the mark, somebody took the place back, and the Reservation waits for one again."""
    report, deletion = advance(marked(phase), NOW)
    assert isinstance(report, Report)
    assert (report.reason, report.pod) == ("PlaceLost", "default/x")
    assert isinstance(deletion, DeleteReservation)


def test_a_pod_that_has_finished_is_not_evicted() -> None:
    assert not [
        write for write in advance(marked(AVAILABLE, pod_phase="Succeeded"), NOW) if isinstance(write, EvictPod)
    ]
