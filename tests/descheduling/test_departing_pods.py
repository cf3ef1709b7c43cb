"""A pod that is about to be moved away counts as one that ends, until that is off."""

from __future__ import annotations

import pytest

from builders import START, cluster, established, node, pod
from stromboli.api import OwnerReference, key
from stromboli.api.migration_reservations import migration_reservation
from stromboli.cluster import Applied, Deleted, TaskKey
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry


# The Reservation of the move is deleted, and the pod stays. A scheduler that was given another configuration in between
# has to know that it was this pod that ended for the move only.
@pytest.mark.parametrize("reloads", [False, True])
def test_who_stays_after_all_does_not_end(reloads: bool) -> None:
    registry = Registry(installed_plugins=(), installed_actions=())
    scheduler = Scheduler(registry.default(), registry)
    service = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="x", uid="x", controller=True)
    stays = pod("x", cpu=1, node="a", owner=service)
    known = cluster(node("a", cpu=8), node("b", cpu=8), stays)
    task = known.tasks[TaskKey(key(stays))]
    assert not task.ends

    move = established(migration_reservation(stays, None, "b", plan="p", moves=1, job="", cooldown=0))
    known.apply(Applied(move))
    scheduler.run(known, START + 10)
    assert task.ends

    known.apply(Deleted(move))
    if reloads:
        scheduler = Scheduler(registry.default(), registry)
    scheduler.run(known, START + 11)
    assert not task.ends
