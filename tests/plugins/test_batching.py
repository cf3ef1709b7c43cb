"""Who is asked or told about every placement hears of each pod, however many jobs are alike.

Three jobs differ in their names only, and a plugin has something against the second, or for it. Without a plugin, all
three start on the first node. Jobs of one pod and gangs are placed in different ways, so both are tried.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders import cluster, group, node, pods, queue
from stromboli.cluster import Task
from stromboli.scheduling.callbacks import Objection, Refusal, Rows, Scores
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

CONFIGURATION = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: proportion}]
- plugins: [{name: picky}]
"""


def is_second(task: Task) -> bool:
    return task.job is not None and task.job.name == "second"


def not_ready(session: Session) -> None:
    session.add_job_ready(lambda job: job.name != "second")


def objects(session: Session) -> None:
    def allocate(task: Task) -> None:
        if is_second(task):
            raise Objection

    session.add_handlers(allocate=allocate)


def refuses(session: Session) -> None:
    session.add_pre_filter(lambda task: Refusal("NotNow") if is_second(task) else None)


def prefers_the_last_node(session: Session) -> None:
    def choose(task: Task, rows: Rows, scores: Scores) -> int | None:
        return int(rows[-1]) if is_second(task) else None

    session.add_best_node(choose)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("register", "of_second"),
    [(lambda session: None, "n1"), (not_ready, ""), (objects, ""), (refuses, ""), (prefers_the_last_node, "n2")],
)
def test_the_second_of_three_jobs_alike(register: Callable[[Session], None], of_second: str, size: int) -> None:
    class Picky(Plugin):
        name = "picky"

        def open(self, session: Session) -> None:
            register(session)

    known = cluster(
        node("n1", cpu=8),
        node("n2", cpu=8),
        queue("default"),
        *[group(name, min_member=size) for name in ("first", "second", "third")],
        *[pods(name, size, group=name, cpu=1) for name in ("first", "second", "third")],
    )
    registry = Registry(installed_plugins=(), installed_actions=())
    registry.register_plugin("picky", Picky)
    cycle = Scheduler(registry.load(CONFIGURATION), registry).run(known, 1.0)
    placed = {bind.job.split("/")[1]: bind.node for bind in cycle.decisions if isinstance(bind, Bind)}
    assert placed == {"first": "n1", "third": "n1"} | ({"second": of_second} if of_second else {})
