"""What jobs of lower priority hold is room for a job that may preempt them, pods above their minimum included."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import cluster, group, node, plugin, pod, priority_class, queue, session
from fairness.scenes import flat, job, nodes, simulate
from fairness.scenes import priority_class as class_document
from stromboli.api import KObject
from stromboli.cluster import Cluster
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import AdmissionPromises

EXACT = plugin("overcommit", {"overcommit-factor": 1.0})
DIVIDING = pytest.mark.parametrize("dividing", ["proportion", "capacity"])


def admits(known: Cluster, current: Session, name: str) -> bool:
    return current.job_enqueueable(known.jobs[f"default/{name}"]) is None  # type: ignore[index]


def full(*objects: KObject, least: int = 1, preemptable: int = 4) -> Cluster:
    """4 CPUs. A job of low priority runs four pods and needs `least` of them; the last ones must stay."""
    return cluster(
        node("n1", cpu=4), queue("q1"), priority_class("high", 100), priority_class("middle", 50),
        group("low", queue="q1", phase="Running", min_member=least, min_resources={"cpu": least}),
        [pod(f"low-{n}", group="low", cpu=1, node="n1", preemptable=n < preemptable) for n in range(4)],
        objects,
    )  # fmt: skip


def wants(name: str, cpu: int, priority: str = "high") -> KObject:
    return group(name, queue="q1", phase="Pending", min_resources={"cpu": cpu}, priority_class=priority)


def opened(known: Cluster, dividing: str, actions: str = "enqueue, allocate, preempt") -> Session:
    return session(known, tiers=[["priority", "gang"], [EXACT, dividing]], actions=actions.split(", "))


# All four CPUs can be preempted, whatever part of them is above the minimum.
@DIVIDING
@pytest.mark.parametrize("least", [1, 2, 4])
def test_all_that_lower_jobs_hold_is_room(dividing: str, least: int) -> None:
    known = full(wants("next", 4), wants("equal", 4, ""), wants("large", 5), least=least)
    current = opened(known, dividing)
    assert admits(known, current, "next")
    assert not admits(known, current, "equal")
    assert not admits(known, current, "large")


@DIVIDING
def test_without_the_action_preempt_it_is_no_room(dividing: str) -> None:
    known = full(wants("next", 4))
    assert not admits(known, opened(known, dividing, "enqueue, allocate"), "next")


# Of four pods with a minimum of 2 the last one must stay: then the minimum stays, and 2 above it may go. Where nobody
# is above the minimum, nothing may.
@pytest.mark.parametrize(("least", "room"), [(2, 2), (4, 0)])
def test_pods_that_must_stay_are_no_room(least: int, room: int) -> None:
    known = full(wants("fits", max(room, 1)), wants("more", room + 1), least=least, preemptable=3)
    current = session(known, tiers=[["priority", "gang"], [EXACT]], actions=["enqueue", "allocate", "preempt"])
    assert admits(known, current, "fits") is (room > 0)
    assert not admits(known, current, "more")


def test_a_job_whose_pods_never_preempt_has_no_such_room() -> None:
    known = full(wants("next", 4), pod("w", group="next", cpu=1, may_preempt=False))
    assert not admits(known, opened(known, "proportion"), "next")


# The first of two jobs of 2 CPUs leaves room for the second. A third would count on the same victims. One of still
# higher priority may preempt those that were just admitted, too.
@DIVIDING
def test_two_jobs_do_not_count_on_the_same_victims(dividing: str) -> None:
    known = full(
        *[wants(name, 2, "middle") for name in ("first", "second", "third")], wants("large", 4, "middle"),
        wants("above", 4),
    )  # fmt: skip
    current = opened(known, dividing)
    assert admits(known, current, "large")
    for name in ("first", "second"):
        assert admits(known, current, name)
        admit(current, known, name)
    assert not admits(known, current, "third")
    assert not admits(known, current, "large")
    assert admits(known, current, "above")


def admit(current: Session, known: Cluster, name: str) -> None:
    applicant = known.jobs[f"default/{name}"]  # type: ignore[index]
    current.state(AdmissionPromises).admit(applicant)
    applicant.phase = "Inqueue"


# A Job of which one pod suffices fills the cluster with four. A gang of higher priority is admitted, gets its pods, and
# starts in their place.
def test_a_gang_of_higher_priority_is_admitted_and_preempts(tmp_path: Path) -> None:
    report = simulate(
        tmp_path,
        flat(
            nodes(4), class_document("high", 100),
            job("ns/low", 4, queue="default", least=1),
            job("ns/high", 4, queue="default", least=4, priority="high", at=10),
        ),
        until=20,
    )  # fmt: skip
    running = [name for name, told in report["pods"].items() if told["node"]]
    assert sorted(running) == [f"ns/high-t-{n}" for n in range(4)]
