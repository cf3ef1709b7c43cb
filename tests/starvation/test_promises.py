"""What setting nodes aside and lending promise, in small random clusters.

Every job fits the empty cluster, every run ends, and nobody has a priority. Time is in whole seconds, so that a bound
can be compared with what happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starvation.scenes import Document, Outcome, Scene, gang, node, pod, restart, scene
from stromboli.cluster import Node, Status, Task
from stromboli.scheduling.backfill import lent_room
from stromboli.scheduling.operations.lending import count_on_lent
from stromboli.scheduling.operations.set_aside import set_aside
from stromboli.scheduling.starvation import reservation_release
from stromboli.scheduling.starvation.whole_placement import whole_placement
from stromboli.scheduling.statement import Statement

EXAMPLES = settings(max_examples=60)
FEWER = settings(max_examples=25)  # for those that run each of them several times
LONGEST = 5


@pytest.fixture(autouse=True, scope="module")
def checked_grants() -> Iterator[None]:
    """Whatever is granted is looked at as it is granted: no test is needed to remember to."""
    condition, reserve, allocate_many = count_on_lent, set_aside, Statement.allocate_many

    def check_room(statement: Statement, task: Task, node: Node) -> None:
        nodes = statement.session.nodes
        assert not (nodes.idle[node.row] < 0).any(), f"{task} has no room"
        over = nodes.conditional[node.row] > nodes.idle[node.row] + nodes.backfilled[node.row]
        assert not over.any(), f"somebody counts on {node.name} in vain after {task}"

    def checked_condition(self: Statement, task: Task, node: Node) -> None:
        condition(self, task, node)
        check_room(self, task, node)

    def checked_reserve(self: Statement, task: Task, node: Node) -> None:
        reserve(self, task, node)
        nodes = self.session.nodes
        own = [t for t in node.tasks.values() if t.job is task.job and t.status is not Status.RESERVED]
        used = sum((t.request for t in own), start=nodes.reserved[node.row])
        assert not (used > nodes.allocatable[node.row]).any(), f"{task} will never fit"

    def checked_allocate(self: Statement, tasks: Sequence[Task], nodes: Sequence[Node]) -> int:
        done = allocate_many(self, tasks, nodes)
        for task, where in zip(tasks, nodes, strict=True):
            check_room(self, task, where)
        return done

    patch = pytest.MonkeyPatch()
    patch.setattr(lent_room, "count_on_lent", checked_condition)
    for module in (whole_placement, reservation_release):
        patch.setattr(module, "set_aside", checked_reserve)
    patch.setattr(Statement, "allocate_many", checked_allocate)
    yield
    patch.undo()


@dataclass(frozen=True)
class Work:
    """A gang of equal pods."""

    name: str
    at: int
    pods: int
    cpu: int
    run: int


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], list[Work]]:
    cpus = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    works = []
    for number in range(draw(st.integers(2, 9))):
        cpu = draw(st.integers(1, max(cpus)))
        most = sum(size // cpu for size in cpus)
        works.append(
            Work(
                f"j{number}",
                draw(st.integers(0, 6)),
                draw(st.integers(1, min(most, 3))),
                cpu,
                draw(st.integers(1, LONGEST)),
            )
        )
    return cpus, works


reserves = st.fixed_dictionaries(
    {
        "starvingJobTimeThreshold": st.integers(0, 4),
        "reservationTimeout": st.just(0),
        "reservedNodePercent": st.just(100),
        "maxHolders": st.integers(1, 4),
        "scope": st.sampled_from(["node", "amount"]),
    }
)
backfills = st.fixed_dictionaries(
    {
        "backfillNonBestEffort": st.booleans(),
        "mode": st.sampled_from(["preemption", "wait"]),
        "useEstimates": st.booleans(),
    }
)


def documents(cpus: list[int], works: list[Work], *, grace: int = 0) -> list[Document]:
    nodes = [node(f"n{number}", cpu) for number, cpu in enumerate(cpus)]
    gangs: list[Document] = []
    for work in works:
        options: dict[str, Any] = {"grace": grace} if grace else {}
        gangs += gang(
            work.name, *[work.cpu] * work.pods, at=work.at, run=work.run, estimate=work.run, **options
        )  # fmt: skip
    return [*nodes, *gangs]


def run(cpus: list[int], works: list[Work], reserve: Document | None, backfill: Document, **more: Any) -> Outcome:
    return story(cpus, works, reserve, backfill, **more).run()


def story(cpus: list[int], works: list[Work], reserve: Document | None, backfill: Document, **more: Any) -> Scene:
    until = 10 + sum(work.run + 3 for work in works) + 6 * len(works)
    return scene(documents(cpus, works, **more), reserve=reserve, backfill=backfill, until=until)


def started(outcome: Outcome, work: Work) -> float:
    times = {outcome.started[f"{work.name}-{number}"] for number in range(work.pods)}
    assert len(times) == 1, f"{work} did not start together"
    return times.pop()


@given(clusters(), reserves, backfills)
@EXAMPLES
def test_every_job_starts_in_time_once_it_is_first_in_line(
    cluster: tuple[list[int], list[Work]], reserve: Document, backfill: Document
) -> None:
    """First in line is who has starved and waits longest: all who were made before it (or with it, and come first by
    name) have started. From then on it holds what it needs, and waits for those who run there now, or who were promised
    their place in the cycle before."""
    cpus, works = cluster
    outcome = run(cpus, works, reserve, backfill)
    before: list[float] = []
    for work in sorted(works, key=lambda work: (work.at, f"default/{work.name}")):
        starves = work.at + reserve["starvingJobTimeThreshold"] + 1
        first_in_line = max([starves, *before])
        ends = [
            told["bound"] + other.run
            for other in works
            for name, told in outcome.report["pods"].items()
            if name.startswith(f"default/{other.name}-") and told["bound"] is not None
            and told["bound"] <= first_in_line + 1
        ]  # fmt: skip
        longest_remaining = max([0, *(end - first_in_line for end in ends)])
        when = started(outcome, work)
        assert when <= first_in_line + longest_remaining + 2, f"{work} started at {when}, first in line {first_in_line}"
        before.append(when)


@given(clusters(), st.none() | reserves, st.integers(0, 3))
@EXAMPLES
def test_lent_room_is_given_back_after_a_cycle_and_the_grace_period(
    cluster: tuple[list[int], list[Work]], reserve: Document | None, grace: int
) -> None:
    cpus, works = cluster
    outcome = run(cpus, works, reserve, {"backfillNonBestEffort": True}, grace=grace)
    assert outcome.happened("Conditional") == []  # nobody is protected here, so nobody is waited for
    for event in outcome.report["events"]:
        if event["type"] == "Evicted":
            owner = event["message"].split("resources. default/")[1].split(" ")[0]
            assert outcome.pod(event["object"].removeprefix("default/"))["backfill"]
            (work,) = [work for work in works if work.name == owner]
            assert started(outcome, work) <= event["t"] + max(1, grace)


@given(clusters(), reserves, backfills, st.data())
@FEWER
def test_a_restart_at_any_second_changes_no_decision(
    cluster: tuple[list[int], list[Work]], reserve: Document, backfill: Document, data: st.DataObject
) -> None:
    cpus, works = cluster
    undisturbed = story(cpus, works, reserve, backfill, grace=1)
    end = max(event["t"] for event in undisturbed.run().report["events"])
    seconds = data.draw(st.lists(st.integers(0, int(end)), min_size=1, max_size=3, unique=True))
    assert undisturbed.run(*(restart(second) for second in seconds)).text == undisturbed.run().text


@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(4, 12)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(3, 8), st.integers(1, 2), st.integers(1, 6)), min_size=1, max_size=5),
)
@FEWER
def test_true_estimates_delay_no_holder(running: list[tuple[int, int]], short: list[tuple[int, int, int]]) -> None:
    """One node, so that the job cannot start elsewhere: whoever is let in, it starts when it would have."""
    told = [node("n1", 6), pod("big", 6, run=3)]
    told += [pod(f"old-{i}", cpu, on="n1", run=run, estimate=run) for i, (cpu, run) in enumerate(running)]
    told += [pod(f"short-{i}", cpu, at=at, run=run, estimate=run) for i, (at, cpu, run) in enumerate(short)]
    story = scene(told, reserve={"starvingJobTimeThreshold": 1, "reservationTimeout": 0}, until=15)
    with_estimates = story.but(backfill={"useEstimates": True}).run()
    assert with_estimates.started["big"] == story.run().started["big"]
