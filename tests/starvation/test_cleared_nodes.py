"""A node that the descheduler sets aside for a job before it says which pods will leave it."""

from __future__ import annotations

from typing import Any

from builders import START, cluster, established, group, node, pod, queue
from stromboli.api import OwnerReference, Pod, PodGroup, Reservation, names
from stromboli.api.migration_reservations import migration_reservation
from stromboli.api.timestamps import format_timestamp
from stromboli.api.waiting_reservations import waiting_reservation
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Unreserve
from stromboli.scheduling.registry import Registry


def given_up(*, plan: str = "", after: float = 0.0, moves: bool = False) -> list[str]:
    """Why a node of 4 CPUs is given up, of which a service uses 2, for a job that needs 3; `after` so many seconds.
    `plan`: the plan that it was set aside for; `moves`: whether the place of the service's successor is known."""
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True)
    gang = established(group("big", min_member=1, phase="Inqueue"))
    waiting = established(pod("big-0", group="big", cpu=3))
    service = established(pod("web-0", group="web", cpu=2, node="n1", owner=owner))
    assert isinstance(gang, PodGroup)
    assert isinstance(waiting, Pod)
    assert isinstance(service, Pod)
    kept: Reservation = waiting_reservation(waiting, gang, "n1")
    kept.metadata.creation_timestamp = format_timestamp(START + 10)
    if plan:
        kept.metadata.annotations[names.MIGRATION_PLAN] = plan
    objects: list[Any] = [kept]
    if moves:
        objects.append(migration_reservation(service, None, "n2", plan=plan, moves=1, job="default/big", cooldown=600))
    known = cluster(
        queue("default"), gang, waiting, group("web", min_member=1, phase="Running"), service,
        node("n1", cpu=4), node("n2", cpu=2), *objects,
    )  # fmt: skip
    registry = Registry(installed_plugins=(), installed_actions=())
    cycle = Scheduler(registry.default(), registry).run(known, START + 10 + after)
    return [decision.reason for decision in cycle.decisions if isinstance(decision, Unreserve)]


def test_without_a_plan_it_is_given_up_at_once() -> None:
    assert given_up() == ["node n1 is now too small"]


def test_with_a_plan_it_is_kept_until_the_moves_are_known() -> None:
    assert given_up(plan="p") == []
    assert given_up(plan="p", after=300) == []


def test_a_plan_that_is_never_completed_ends() -> None:
    assert given_up(plan="p", after=301) == ["node n1 is now too small"]


def test_once_the_moves_are_known_it_is_kept() -> None:
    assert given_up(plan="p", after=301, moves=True) == []
