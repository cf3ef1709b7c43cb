"""Jobs of one kind get one answer, and that changes nothing but the time it takes: crowds of jobs, most of which are
like others, have the same fate if each is looked at alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from builders import cluster, group, node, pod, priority_class, queue, session
from starvation import scenes
from starvation.scenes import Document, gang
from stromboli.api import KObject
from stromboli.cluster import Job, Status, Task
from stromboli.scheduling.attempt import JobKinds
from stromboli.scheduling.backfill.lent_room import LentRoom
from stromboli.scheduling.starvation.line import Line
from together.situations import Situation, in_namespace, situation

# -- crowds ---------------------------------------------------------------------------------------------------------


def crowd(seed: int) -> Situation:
    """Two pools, two queues, two namespaces and two priorities; far too many gangs, of a few kinds."""
    dice = Random(seed)
    documents: list[Document] = [scenes.priority_class("high", 10)]
    documents += [scenes.node(f"{pool}{n}", 4, labels={"pool": pool}, pods=20) for pool in "ab" for n in range(3)]
    documents += [scenes.queue("first", 2), scenes.queue("second", 1, capability={"cpu": dice.choice([6, 12])})]
    documents.append(scenes.pod("service", 1, on=f"{dice.choice('ab')}0"))
    for number in range(dice.randint(4, 6)):
        cpus = dice.choice([(1,), (2, 2), (3, 3), (3, 3, 3, 3), (2, 1, 1), (4, 4), (4, 4, 4)])
        kind: dict[str, Any] = {
            "priority": "high" if dice.random() < 0.2 else "", "queue": dice.choice(["first", "second"]),
            "selector": {"pool": dice.choice("ab")} if dice.random() < 0.7 else None,
            "least": max(1, len(cpus) - dice.choice([0, 0, 1])),
        }  # fmt: skip
        home = dice.choice(["one", "two"]) if dice.random() < 0.3 else "one"
        for copy in range(dice.randint(2, 6)):
            made = gang(
                f"k{number}-{copy}", *cpus, at=round(dice.uniform(0, 8), 1), run=dice.randint(2, 5), **kind
            )  # fmt: skip
            documents += in_namespace(home, made)
    limits = {
        "starvingJobTimeThreshold": dice.choice([1, 2]), "reservedNodePercent": dice.choice([34, 50, 100]),
        "maxHolders": dice.choice([1, 2, 4]),
    }  # fmt: skip
    lends = {"backfillNonBestEffort": dice.random() < 0.5}
    return situation(documents, reserve=limits, backfill=lends, until=24)


@contextmanager
def each_alone() -> Iterator[None]:
    """No job is like another."""
    with patch.object(JobKinds, "of", lambda self, job, without=(): None):
        yield


@contextmanager
def counting(calls: list[str]) -> Iterator[None]:
    """Record how often a starved job is served, and how often that takes an attempt."""
    serve, attempt = Line.serve, Line._serve

    def served(line: Line, job: Job) -> None:
        calls.append("job")
        serve(line, job)

    def attempted(line: Line, job: Job) -> Any:
        calls.append("attempt")
        return attempt(line, job)

    with patch.object(Line, "serve", served), patch.object(Line, "_serve", attempted):
        yield


@pytest.mark.parametrize("part", range(4))
def test_a_crowd_has_the_same_fate_if_each_job_is_looked_at_alone(part: int) -> None:
    calls: list[str] = []
    for seed in range(part, 12, 4):
        with counting(calls):
            together = crowd(seed).run()
        with each_alone():
            alone = crowd(seed).run()
        assert together == alone, seed
    assert calls.count("attempt") < calls.count("job")  # otherwise nothing was saved, and nothing compared


def test_lent_room_that_is_ruled_out_would_not_have_helped() -> None:
    answers: list[bool] = []
    may_have_place = LentRoom.may_have_place

    def asked(rooms: LentRoom, task: Task, job: Job | None) -> bool:
        answers.append(may_have_place(rooms, task, job))
        return answers[-1]

    for seed in (13, 18, 60):
        with patch.object(LentRoom, "may_have_place", asked):
            counted = crowd(seed).run()
        with patch.object(LentRoom, "may_have_place", lambda rooms, task, job: True):
            tried = crowd(seed).run()
        assert counted == tried, seed
    assert True in answers
    assert False in answers


# -- what makes a kind ----------------------------------------------------------------------------------------------


def jobs(name: str, **facts: Any) -> list[KObject]:
    """A gang of two pods of one CPU each; `facts`: of its group and its pods."""
    of_group = {"queue": "q", "min_member": 2, "phase": "Inqueue", **facts.get("group", {})}
    of_pods = {"cpu": 1, **facts.get("pods", {})}
    members = [pod(f"{name}-{number}", group=name.partition("/")[2], **of_pods) for number in range(facts.get("n", 2))]
    return [group(name, **of_group), *members]


LIKE_NO_OTHER = {
    "queue": {"group": {"queue": "other"}},
    "minimum": {"group": {"min_member": 1}},
    "priority": {"group": {"priority_class": "high"}},
    "request": {"pods": {"cpu": 2}},
    "selector": {"pods": {"node_selector": {"pool": "a"}}},
    "number of pods": {"n": 3},
}


def kinds(*objects: list[KObject]) -> list[object]:
    world = cluster(
        node("n1", cpu=4), queue("q"), queue("other"), priority_class("high", 10), *objects
    )  # fmt: skip
    opened = session(world, tiers=[["priority", "gang", "predicates"]], actions=["allocate"])
    return [opened.state(JobKinds).of(job) for job in sorted(opened.waiting, key=lambda job: job.key)]


def test_equal_jobs_are_of_one_kind() -> None:
    first, second = kinds(jobs("ns/a"), jobs("ns/b"))
    assert first is not None
    assert first == second


@pytest.mark.parametrize("facts", LIKE_NO_OTHER.values(), ids=LIKE_NO_OTHER.keys())
def test_jobs_that_differ_in_one_thing_are_of_two_kinds(facts: dict[str, Any]) -> None:
    first, second = kinds(jobs("ns/a"), jobs("ns/b", **facts))
    assert first is not None
    assert second is not None
    assert first != second


def test_jobs_of_two_namespaces_are_of_two_kinds() -> None:
    first, second = kinds(jobs("ns/a"), jobs("other/a"))
    assert first != second


def test_a_job_with_a_place_is_of_no_kind_until_it_has_none_again() -> None:
    world = cluster(node("n1", cpu=4), queue("q"), jobs("ns/a"))
    opened = session(world, tiers=[["priority", "gang", "predicates"]], actions=["allocate"])
    (job,) = opened.waiting
    before = opened.state(JobKinds).of(job)
    statement = opened.statement()
    statement.allocate(next(iter(job.tasks.values())), opened.nodes.nodes[0])
    assert opened.state(JobKinds).of(job) is None
    statement.discard()
    assert opened.state(JobKinds).of(job) == before
    task = next(iter(job.tasks.values()))
    opened.ledger.nominate(task, "n1")
    assert task.status is Status.PENDING
    assert opened.state(JobKinds).of(job) is None


def test_the_name_of_the_only_role_makes_no_kind() -> None:
    """In a group of scheduling.k8s.io that is the name of the group: thousands of equal ones were of as many kinds."""
    first, second = kinds(jobs("ns/a", pods={"role": "a"}), jobs("ns/b", pods={"role": "b"}))
    assert first is not None
    assert first == second


def test_roles_with_minimums_make_kinds() -> None:
    first, second, third = kinds(
        *(jobs(f"ns/{role}", group={"roles": {role: 2}}, pods={"role": role}) for role in ("a", "b")),
        [*jobs("ns/c", n=1, pods={"role": "a"}), pod("ns/c-1", group="c", cpu=1, role="b")],
    )
    assert None not in (first, second, third)
    assert len({first, second, third}) == 3
