"""Counting before placing changes nothing but the time that it takes: worlds run the same way without it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from builders import cluster, group, node, pod, queue, session
from scheduling.test_job_kinds import crowd
from stromboli.api import KObject, PodGroupCondition
from stromboli.cluster import Job
from stromboli.scheduling.attempt import JobKinds
from stromboli.scheduling.attempt.enough_places import could_start_anywhere, lacks_places
from stromboli.scheduling.session import Session
from together.worlds import world


@contextmanager
def counting(answers: list[bool] | None) -> Iterator[None]:
    """Record the answers; None: always place."""

    def ask(*arguments: object, **options: object) -> bool:
        if answers is None:
            return False
        answers.append(lacks_places(*arguments, **options))  # type: ignore[arg-type]
        return answers[-1]

    with patch("stromboli.scheduling.attempt.attempts.lacks_places", ask):
        yield


@pytest.mark.parametrize("part", range(4))
def test_a_random_world_runs_the_same_way_without_counting(part: int) -> None:
    answers: list[bool] = []
    for seed in range(1000 + part, 1012, 4):
        with counting(answers):
            counted = world(seed).situation().run()
        with counting(None):
            placed = world(seed).situation().run()
        assert counted == placed, seed
    assert True in answers  # otherwise nothing was saved, and nothing compared
    assert False in answers


def test_a_crowd_fares_the_same_if_nothing_is_counted_before_others_give_something_up() -> None:
    answers: list[bool] = []

    def ask(session: Session, job: Job) -> bool:
        answers.append(could_start_anywhere(session, job))
        return answers[-1]

    def fates() -> list[object]:
        return [crowd(seed).run() for seed in range(3, 10)]

    with patch("stromboli.scheduling.attempt.attempts.could_start_anywhere", ask):
        counted = fates()
    with patch("stromboli.scheduling.attempt.attempts.could_start_anywhere", lambda session, job: True):
        assert counted == fates()
    assert True in answers
    assert False in answers  # otherwise nothing was saved, and nothing compared


def test_places_are_counted_again_for_the_next_job_of_a_kind_when_a_pod_leaves() -> None:
    """A node of two CPUs, full; two gangs of two pods of one CPU each that have waited."""
    waited = PodGroupCondition(type="Unschedulable", status="True")
    gangs: list[KObject] = []
    for name in ("a", "b"):
        known = group(f"ns/{name}", queue="q", min_member=2, phase="Inqueue")
        gangs.append(replace(known, status=replace(known.status, conditions=[waited])))
        gangs += [pod(f"ns/{name}-{number}", cpu=1, group=name) for number in range(2)]
    running = pod("ns/running", cpu=2, group="other", node="n1", phase="Running")
    world = cluster(node("n1", cpu=2), queue("q"), group("ns/other", queue="q", phase="Running"), running, gangs)
    opened = session(world, tiers=[["priority", "gang", "predicates"]], actions=["allocate"])
    first, second = sorted(opened.waiting, key=lambda job: job.key)

    def lacks(job: Job) -> bool:
        return lacks_places(opened, job, deque(opened.pending_tasks(job)))

    assert opened.state(JobKinds).of(first) == opened.state(JobKinds).of(second)
    assert lacks(first)
    statement = opened.statement()
    (leaving,) = opened.nodes.nodes[0].tasks.values()
    statement.evict(leaving, reason="Test", message="")
    assert not lacks(second)  # terminating pods count as gone
    statement.discard()
    assert lacks(second)
