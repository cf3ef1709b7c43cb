"""A descheduler that is killed after any of its writes: the next one resumes the moves, or undoes them.

The writes of a whole story are counted. It is told again once for each of them, and the process ends right after that
write: the rest of the pass is lost, and a new descheduler starts from the objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from descheduling.crashes import Crash
from descheduling.decision_scenes import NO_SUCCESSOR, STATE
from descheduling.scenes import (
    Outcome,
    Scene,
    defragment,
    node,
    patch,
    policy,
    replicas,
    run_by_hand,
    scene,
    with_names,
)
from descheduling.test_decisions import MOTIVATING
from stromboli.api import Reservation
from stromboli.simulation.virtual_time import Microseconds
from stromboli.simulation.world import World


def motivating_is_whole(outcome: Outcome) -> bool:
    """Both moves are complete and the job has run; or nothing moved."""
    running = [len(outcome.running_on(name)) for name in "abc"]
    done = outcome.report["jobs"]["default/big"]["phase"] == "Completed"
    return (running, done) in (([8, 4, 8], True), ([7, 6, 7], False))


def gang_is_whole(outcome: Outcome) -> bool:
    running = [len(outcome.running_on(name)) for name in "ab"]
    return running in ([8, 0], [6, 2]) and min(outcome.running_over_time("g-")[4:], default=4) >= 2


def set_is_gone(outcome: Outcome) -> bool:
    return [len(outcome.running_on(name)) for name in "ab"] == [6, 0]


def service_is_whole(outcome: Outcome) -> bool:
    """Both pods have moved, or none."""
    running = [len(outcome.running_on(name)) for name in "abc"]
    return running in ([5, 0, 5], [4, 2, 4]) and not states(outcome) & {"Pending", "Running"}


def states(outcome: Outcome) -> set[str | None]:
    return {group["migrationState"] for group in outcome.report["podGroups"].values()}


# Two pods of one set leave b, one for a and one for c: each has room for one.
SERVICE = scene(
    *(node(name, cpu=size) for name, size in (("a", 5), ("b", 10), ("c", 5))),
    replicas("x", ["a"] * 4 + ["c"] * 4, cpu=1), replicas("w", "b", 2, cpu=1, grace=1),
    run_by_hand(5), policy=policy(defragment(high=100), interval=0), until=30,
)  # fmt: skip

STORIES: dict[str, tuple[Scene, Callable[[Outcome], bool]]] = {
    "of a service": (SERVICE, service_is_whole),
    "of a set with names": (with_names(SERVICE), service_is_whole),
    "for a job": (MOTIVATING, motivating_is_whole),
    "of a gang": (STATE, gang_is_whole),
    "without a successor": (NO_SUCCESSOR, set_is_gone),
}


def writes_of(scene: Scene) -> Crash:
    with pytest.MonkeyPatch.context() as context:
        crash = Crash(context)
        assert scene.but().outcome
    return crash


@pytest.mark.parametrize("away", [0, 3])
@pytest.mark.parametrize("story", STORIES)
def test_a_crash_after_any_write(story: str, away: int) -> None:
    scene, is_whole = STORIES[story]
    total = writes_of(scene).count
    assert total > 5
    for after in range(1, total + 1):
        with pytest.MonkeyPatch.context() as context:
            crash = Crash(context, after, away=away)
            outcome = scene.but().outcome
        assert crash.happened, after
        for kind in ("Evicted", "ReservationAvailable"):
            counts = Counter(name for _, _, name, _ in outcome.events(kind))
            assert all(count == 1 for count in counts.values()), (after, kind, counts)
        assert outcome.held == [], after
        assert is_whole(outcome), after


CORDONED = {"spec": {"unschedulable": True}}
LOSSES = {
    "its target": patch(6.5, "Node", "a", CORDONED), "the other target": patch(6.5, "Node", "c", CORDONED),
    "its place": None,
}  # fmt: skip


def delete_place(world: World, at: Microseconds) -> None:
    """A user deletes the place of the pod that was evicted."""
    gone = next(each for each in world.store.list(Reservation) if each.metadata.name.startswith("migration-w-0"))
    world.delete(gone, at)


@pytest.mark.parametrize("lost", LOSSES)
def test_a_plan_that_has_lost_a_place_evicts_nothing_more(lost: str) -> None:
    """The descheduler is away for 3 s after its first eviction, and a place is lost meanwhile."""
    cordoned = LOSSES[lost]
    scene = SERVICE.but() if cordoned is None else SERVICE.but(cordoned)
    with pytest.MonkeyPatch.context() as context:
        first = writes_of(SERVICE).evictions[0]
        Crash(context, first, away=3, meanwhile=delete_place if cordoned is None else None)
        outcome = scene.outcome
    assert len(outcome.times("Evicted")) == 1
    assert outcome.reasons("MigrationFailed")
    assert len(outcome.running_on("b")) >= 1
    assert sum(len(outcome.running_on(name)) for name in "abc") == 10
    assert outcome.held == []
    assert not states(outcome) & {"Pending", "Running"}
