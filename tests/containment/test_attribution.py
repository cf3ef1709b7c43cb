"""Whom an error is charged to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builders import cluster, group, node, pod, queue
from stromboli.cluster import Job, Task
from stromboli.containment import ContainedError, ObjectRef, Strictness
from stromboli.scheduling.containment.attribution import charge


@pytest.fixture
def jobs() -> dict[str, Job]:
    names = ("ns/a", "ns/b", "ns/c", "ns/d")
    known = cluster(
        node("n1", cpu=4), queue("default"), [group(name) for name in names],
        [pod(f"{name}-0", group=name[3:], cpu=1) for name in names],
    )  # fmt: skip
    return {job.name: job for job in known.snapshot().jobs}


def raised(fails: Callable[[], Any]) -> Exception:
    try:
        fails()
    except LookupError as error:
        return error
    raise AssertionError("nothing happened")


def judge(asks: Job, asked_about: Job) -> None:
    raise LookupError


def look(job: Job) -> None:
    _inside(next(iter(job.tasks.values())))


def _inside(task: Task) -> None:
    raise LookupError


def subject(found: ContainedError | None) -> str:
    assert found is not None
    return found.subject.key


class TestWhom:
    def test_the_job_whose_task_was_looked_at(self, jobs: dict[str, Job]) -> None:
        assert subject(charge(raised(lambda: look(jobs["a"])), None, (), ())) == "ns/a"

    def test_another_job_that_was_looked_at_in_a_turn(self, jobs: dict[str, Job]) -> None:
        error = raised(lambda: judge(jobs["a"], jobs["b"]))
        assert subject(charge(error, jobs["a"], (), ())) == "ns/b"
        assert subject(charge(error, jobs["b"], (), ())) == "ns/a"

    def test_who_has_the_turn_if_no_job_was_looked_at(self, jobs: dict[str, Job]) -> None:
        assert subject(charge(raised(lambda: [].pop()), jobs["c"], (), ())) == "ns/c"

    def test_the_next_if_the_first_is_put_aside(self, jobs: dict[str, Job]) -> None:
        error = raised(lambda: judge(jobs["a"], jobs["b"]))
        assert subject(charge(error, jobs["a"], [ObjectRef("PodGroup", "ns/b")], ())) == "ns/a"

    def test_nobody(self, jobs: dict[str, Job]) -> None:
        assert charge(raised(lambda: [].pop()), None, (), ()) is None

    def test_a_queue_only_if_nobody_has_a_turn(self, jobs: dict[str, Job]) -> None:
        def fails(queue: Any) -> None:
            raise LookupError

        error = raised(lambda: fails(jobs["a"].queue))
        assert charge(error, None, (), ()) is not None
        assert str(charge(error, None, (), ()).subject) == "Queue default"  # type: ignore[union-attr]
        assert subject(charge(error, jobs["a"], (), ())) == "ns/a"


def test_who_was_near_two_errors_is_charged_with_the_third(jobs: dict[str, Job]) -> None:
    before: list[ContainedError] = []
    for name in ("b", "c", "d"):
        aside = [error.subject for error in before]
        found = charge(raised(lambda: judge(jobs["a"], jobs[name])), jobs["a"], aside, before)  # noqa: B023
        assert found is not None
        before.append(found)
    assert [error.subject.key for error in before] == ["ns/b", "ns/c", "ns/a"]
    assert [error.is_guess for error in before] == [False, False, True]


def test_what_is_known_of_an_error(jobs: dict[str, Job]) -> None:
    found = charge(raised(lambda: look(jobs["a"])), None, (), ())
    assert found is not None
    assert found.error == "LookupError"
    assert "in _inside" in found.where
    assert "LookupError" in found.traceback


def test_tests_are_strict(jobs: dict[str, Job]) -> None:
    """Everywhere else: an error is raised again where it would be contained."""
    Strictness.is_strict = True
    with pytest.raises(LookupError):
        charge(raised(lambda: look(jobs["a"])), None, (), ())
