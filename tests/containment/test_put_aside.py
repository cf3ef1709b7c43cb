"""For how long objects are put aside, and what the cluster looks like without them."""

from __future__ import annotations

import msgspec
import pytest

from builders import group, node, pod, priority_class, queue
from reservations.reservation_scenes import reservation as reservation_document
from stromboli.api import KObject, Reservation
from stromboli.cluster import Applied, Cluster, Deleted
from stromboli.containment import ObjectRef, PutAside
from stromboli.scheduling.containment import Aside, CycleInputs, run_contained
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Evict
from stromboli.scheduling.registry import Registry

A, B = ObjectRef("PodGroup", "default/a"), ObjectRef("PodGroup", "default/b")


def aside(memory: PutAside, now: float) -> list[ObjectRef]:
    return [ref for ref, _, _ in memory.at(now)]


class TestTime:
    def test_it_doubles_up_to_five_minutes(self) -> None:
        memory, now, seconds = PutAside(), 0.0, []
        for _ in range(11):
            seconds.append(memory.charge(A, "KeyError", now))
            now += seconds[-1]
        assert seconds == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]

    def test_it_returns_when_the_time_is_over(self) -> None:
        memory = PutAside()
        memory.charge(A, "KeyError", 10)
        memory.charge(A, "KeyError", 11)
        assert aside(memory, 12.9) == [A]
        assert aside(memory, 13) == []

    def test_after_as_long_without_an_error_it_is_forgotten(self) -> None:
        """Put aside from 11 to 13, it has to be without errors until 15."""
        memory = PutAside()
        memory.charge(A, "KeyError", 10)
        memory.charge(A, "KeyError", 11)
        assert aside(memory, 14.9) == []
        assert memory.charge(A, "KeyError", 14.9) == 4
        assert aside(memory, 23) == []
        assert memory.charge(A, "KeyError", 23) == 1

    def test_one_that_changes_is_tried_after_a_second_and_pays_the_whole_time_again(self) -> None:
        memory = PutAside()
        for at in (0, 1, 3):
            memory.charge(A, "KeyError", at)  # the last time for 4 s
        memory.changed(A)
        assert aside(memory, 3.9) == [A]
        assert aside(memory, 4) == []
        assert memory.charge(A, "KeyError", 4) == 8

    def test_each_object_has_its_own_time(self) -> None:
        memory = PutAside()
        memory.charge(B, "KeyError", 0)
        memory.charge(A, "ValueError", 0)
        memory.charge(A, "KeyError", 0.5, entirely=True)
        assert list(memory.at(0.6)) == [(A, "KeyError", True), (B, "KeyError", False)]
        memory.gone(A)
        assert aside(memory, 0.6) == [B]


def cluster(*objects: KObject) -> Cluster:
    made = Cluster()
    for obj in objects:
        made.apply(Applied(obj))
    made.snapshot()
    return made


class TestWithdrawal:
    def test_a_job_has_no_part_and_its_pods_keep_their_room(self) -> None:
        known = cluster(node("n1", cpu=4), queue("default"), group("a"), pod("a-0", group="a", cpu=1, node="n1"))
        known.set_aside({A: False})
        assert known.snapshot().jobs == []
        known.validate()
        assert int(known.ledger.table.used[0][0]) == 1000
        known.set_aside({})
        assert [job.key for job in known.snapshot().jobs] == [A.key]
        known.validate()

    def test_it_returns_as_it_is_by_then(self) -> None:
        known = cluster(queue("default"), group("a", min_member=1))
        known.set_aside({A: False})
        known.apply(Applied(group("a", min_member=3)))
        assert known.snapshot().jobs == []
        known.set_aside({})
        assert [job.min_available for job in known.snapshot().jobs] == [3]

    def test_what_is_deleted_meanwhile_does_not_return(self) -> None:
        known = cluster(queue("default"), group("a"))
        known.set_aside({A: False})
        known.apply(Deleted(group("a")))
        known.set_aside({})
        assert known.snapshot().jobs == []

    def test_a_queue(self) -> None:
        known = cluster(queue("default"), queue("q"), group("a", queue="q"), group("b"))
        known.set_aside({ObjectRef("Queue", "q"): False})
        assert [job.key for job in known.snapshot().jobs] == [B.key]
        known.set_aside({})
        assert len(known.snapshot().jobs) == 2

    @pytest.mark.parametrize("entirely", [False, True])
    def test_a_reservation_goes_on_to_hold_its_room(self, entirely: bool) -> None:
        known = cluster(node("n1", cpu=4), queue("default"), _held_reservation())
        assert known.ledger.holdings
        known.set_aside({ObjectRef("Reservation", "r"): entirely})
        known.snapshot()
        known.validate()
        assert bool(known.ledger.holdings) is not entirely
        assert [one.spec.owners for one in known.reservations.values()] == ([] if entirely else [[]])
        known.apply(Deleted(_held_reservation()))
        known.snapshot()
        assert not known.ledger.holdings


def _held_reservation() -> Reservation:
    document = reservation_document("r", 2)
    document["status"] = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "2"}}
    return msgspec.convert(document, Reservation)


@pytest.mark.parametrize(("aside", "victim"), [("a", "b"), ("b", "a")])
def test_pods_of_a_job_that_is_put_aside_are_not_evicted(aside: str, victim: str) -> None:
    """Two jobs of one pod fill the node, and a third of higher priority needs the room of one."""
    registry = Registry(installed_plugins=(), installed_actions=())
    known = cluster(
        node("n1", cpu=2), queue("default"), priority_class("high", 10), group("a"), group("b"),
        pod("a-0", group="a", cpu=1, node="n1"), pod("b-0", group="b", cpu=1, node="n1"),
        group("y", priority_class="high"), pod("y-0", group="y", cpu=1, priority=10),
    )  # fmt: skip
    inputs = CycleInputs({ObjectRef("PodGroup", f"default/{aside}"): Aside("KeyError")})
    cycle = run_contained(Scheduler(registry.default(), registry), known, 1000.0, inputs)
    assert [one.task for one in cycle.decisions if isinstance(one, Evict)] == [f"default/{victim}-0"]
