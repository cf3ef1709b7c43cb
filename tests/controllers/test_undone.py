"""Changes that could not be made: what led to them still waits for its answer."""

from __future__ import annotations

from controllers.world import World, job, policy, task
from stromboli.api import Job
from stromboli.controllers import Update


def test_an_eviction_is_answered_by_the_next_pass_if_this_one_could_not_write() -> None:
    world = World(job("ns/j", task("t", 2), policies=[policy("RestartJob", "PodEvicted")]))
    world.start()
    world.evict("ns/j-t-0")

    asked = world.controllers.reconcile(world, world.now)
    written = [change for change in asked if isinstance(change, Update) and isinstance(change.object, Job)]
    assert [change.object.status.retry_count for change in written] == [1]
    for change in written:  # somebody else was faster, so nothing of it is done
        world.controllers.undone(change)

    world.settle()
    assert world.job("ns/j").status.retry_count == 1


def test_what_was_written_is_not_answered_twice() -> None:
    world = World(job("ns/j", task("t", 2), policies=[policy("RestartJob", "PodEvicted")]))
    world.start()
    world.evict("ns/j-t-0")
    world.start()
    assert world.job("ns/j").status.retry_count == 1
    world.controllers.undone(Update(world.job("ns/j")))
    world.settle()
    assert world.job("ns/j").status.retry_count == 1
