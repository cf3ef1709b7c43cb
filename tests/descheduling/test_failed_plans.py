"""The planner and the checks that follow agree about gangs, and a plan that failed is not made again for nothing."""

from __future__ import annotations

import pytest

from descheduling.scenes import (
    Document,
    Outcome,
    budget,
    defragment,
    job,
    node,
    patch,
    policy,
    replicas,
    restart,
    run_by_hand,
    scene,
)
from stromboli.descheduling.migration.gang_minimums import Gangs


def gang_of_roles(least: int, *roles: tuple[int, int | None]) -> Document:
    """A Job with this minimum, and tasks with so many pods and their own minimum, if they have one."""
    found = job("gang", 1, cpu=1, grace=1)
    task = found["spec"]["tasks"][0]
    tasks = []
    for number, (count, own) in enumerate(roles):
        one = {**task, "name": f"r{number}", "replicas": count}
        tasks.append(one if own is None else {**one, "minAvailable": own})
    found["spec"] |= {"minAvailable": least, "tasks": tasks}
    return found


def emptied(gang: Document, *, until: float = 40) -> Outcome:
    """The gang starts on b, which is the only node. a comes later, is used more, and b is emptied into it."""
    late = [
        document | {"metadata": document["metadata"] | {"annotations": {"sim.stromboli.io/at": "3s"}}}
        for document in replicas("x", "a", 8, cpu=1)
    ]
    return scene(
        node("b", cpu=20), gang, node("a", cpu=20, at=3), late,
        policy=policy(defragment(low=30, coolDownTime=1), interval=5), until=until,
    ).outcome  # fmt: skip


# The minimum of a task without its own is all of its pods. Where the sum is more than that of the Job, those of the
# tasks do not count: 3 pods of one task with a minimum of 2 can spare one, not all three.
def test_a_task_without_a_minimum_of_its_own() -> None:
    outcome = emptied(gang_of_roles(2, (3, None)))
    assert outcome.moves["planned"] == 0  # three leave, none is left; the planner knows
    one_of_two = emptied(gang_of_roles(0, (3, None)))
    assert one_of_two.moves["succeeded"] == 3


# (minimum, roles, whether one pod of r0 may leave): one pod of r0 is on b, the others are on a.
CASES = [
    (2, [(3, None)], True),  # 2 of 3 are left; the task's 3 are more than 2, so they do not count
    (3, [(3, None)], False),
    (3, [(3, 2), (1, 1)], True),  # 2 + 1 = 3: both count, and 2 of r0 are left
    (4, [(3, 3), (1, 1)], False),
    (3, [(3, 3), (1, 1)], True),  # 3 + 1 > 3: they do not count
    (2, [(3, 2)], True),
]


@pytest.mark.parametrize(("least", "roles", "leaves"), CASES)
def test_planner_scheduler_and_check_agree(least: int, roles: list[tuple[int, int | None]], leaves: bool) -> None:
    """What is planned succeeds; what would not is not planned."""
    gang = gang_of_roles(least, *roles)
    # The first pod finds only b; a comes with room for the others.
    found = scene(
        node("b", cpu=1), gang, node("a", cpu=sum(count for count, _ in roles) - 1, at=0),
        patch(3, "Node", "a", {"status": {"allocatable": {"cpu": 20}}}),
        patch(3, "Node", "b", {"status": {"allocatable": {"cpu": 20}}}),
        _late(replicas("x", "a", 8, cpu=1), 4),
        policy=policy(defragment(low=30, middle=31, coolDownTime=1), interval=5), until=30,
    )  # fmt: skip
    outcome = found.outcome
    assert outcome.moves["failed"] == 0
    assert outcome.moves["succeeded"] == int(leaves)


def _late(documents: list[Document], at: float) -> list[Document]:
    stamp = {"sim.stromboli.io/at": f"{at}s"}
    return [one | {"metadata": one["metadata"] | {"annotations": stamp}} for one in documents]


# -- plans that failed ----------------------------------------------------------------------------------------------

# b (1 of 10 CPUs) is emptied into a (6 of 10), with runs every 5 s and nearly no rest in between.
SCENE = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), replicas("y", "b", 1, cpu=1),
    policy=policy(defragment(coolDownTime=1), interval=5), until=60,
)  # fmt: skip


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is planned is refused before the eviction: the planner does not know why."""
    clause = "its gang would be too small"
    monkeypatch.setattr(Gangs, "shortage", lambda gangs, leaving: clause)


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize("restarts", [[], [restart(at) for at in range(1, 60)]], ids=["", "restarts"])
def test_a_plan_that_failed_is_not_made_again(restarts: list[Document]) -> None:
    outcome = SCENE.but(*restarts).outcome
    assert outcome.moves["planned"] == 1
    assert outcome.reasons("MigrationFailed") == ["GangAtMinimum"]
    assert outcome.held == []


CHANGES = {
    "a pod comes to the target": replicas("z", "a", 1, cpu=1, at=32),
    "a pod of the group goes": [patch(32, "ReplicaSet", "y", {"spec": {"replicas": 2}})],
    "the source gets a label": [patch(32, "Node", "b", {"metadata": {"labels": {"pool": "old"}}})],
    "a budget comes": [budget("y", "y", minAvailable=0) | {"metadata": {
        "name": "y", "annotations": {"sim.stromboli.io/at": "32s"}}}],
}  # fmt: skip


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize("change", CHANGES)
def test_it_is_made_again_when_something_has_changed(change: str) -> None:
    documents = CHANGES[change]
    if change == "a pod comes to the target":
        documents = _late(documents, 32)
    outcome = SCENE.but(*documents).outcome
    planned = sorted(set(outcome.times("MigrationPlanned")))
    assert len(planned) == 2
    assert planned[1] > 32


@pytest.mark.usefixtures("refusing")
def test_by_hand_it_is_made_again() -> None:
    assert SCENE.but(run_by_hand(42)).outcome.moves["planned"] == 2


def test_an_outage_is_no_verdict_on_a_plan() -> None:
    """The scheduler is away for six minutes, so no place is found in five. Later the same plan succeeds."""
    outcome = SCENE.but(restart(4, "scheduler", away=360), until=400).outcome
    assert outcome.reasons("MigrationFailed") == ["Timeout"]
    assert outcome.moves["succeeded"] == 1
