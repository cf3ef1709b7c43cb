"""Who is asked or told about every placement hears of each pod, however many jobs are alike.

Three jobs differ in their names only, and a plugin has something against the second, or for it. Without a plugin, all
three start on the first node. Jobs of one pod and gangs are placed in different ways, so both are tried.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders import cluster, group, node, pods, queue
from stromboli.cluster import Cluster, Node, Task
from stromboli.scheduling.callbacks import DependsOn, Objection, Refusal, Rows, Scope, Scores
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, PatchPod
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


def holds(session: Session) -> None:
    """As a feature would that binds the pods later."""
    session.points.desk.is_ours = True
    session.points.hold.add(lambda job, tasks: job.name == "second")


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("register", "of_second"),
    [
        (lambda session: None, "n1"),
        (not_ready, ""),
        (objects, ""),
        (refuses, ""),
        (prefers_the_last_node, "n2"),
        (holds, ""),
    ],
)
def test_the_second_of_three_jobs_alike(register: Callable[[Session], None], of_second: str, size: int) -> None:
    known = cluster(
        node("n1", cpu=8),
        node("n2", cpu=8),
        queue("default"),
        *[group(name, min_member=size) for name in ("first", "second", "third")],
        *[pods(name, size, group=name, cpu=1) for name in ("first", "second", "third")],
    )
    decisions = cycle(register, known).decisions
    placed = {bind.job.split("/")[1]: bind.node for bind in decisions if isinstance(bind, Bind)}
    assert placed == {"first": "n1", "third": "n1"} | ({"second": of_second} if of_second else {})


def test_how_many_pods_fit_is_said_of_each_gang_with_the_nodes_chosen_for_it() -> None:
    """All pods have to be on one side. The plugin begins on the left, which has one node, and for the second gang on
    the right, which has two."""

    def by_sides(session: Session) -> None:
        def check(task: Task, machine: Node) -> str | None:
            sides = {other.name.split("-")[0] for other in session.nodes.nodes if other.tasks}
            return "on the other side" if sides - {machine.name.split("-")[0]} else None

        def choose(task: Task, rows: Rows, scores: Scores) -> int | None:
            return int(rows[-1] if is_second(task) else rows[0])

        session.add_node_filter(check, depends_on=DependsOn.SHAPE, scope=Scope.CLUSTER)
        session.add_best_node(choose)

    known = cluster(
        *[node(name, cpu=1) for name in ("left-1", "right-1", "right-2")],
        queue("default"),
        *[group(name, min_member=3) for name in ("first", "second")],
        *[pods(name, 3, group=name, cpu=1) for name in ("first", "second")],
    )
    decisions = cycle(by_sides, known).decisions
    said = {
        str(one.task).split("/")[1]: one.message.partition(" pods")[0] for one in decisions if isinstance(one, PatchPod)
    }
    assert {name: said[f"{name}-0"] for name in ("first", "second")} == {
        "first": "Only 1 of the 3",
        "second": "Only 2 of the 3",
    }


def cycle(register: Callable[[Session], None], known: Cluster) -> Cycle:
    """Of a scheduler with a plugin that registers this."""

    class Picky(Plugin):
        name = "picky"

        def open(self, session: Session) -> None:
            register(session)

    registry = Registry(installed_plugins=(), installed_actions=())
    registry.register_plugin("picky", Picky)
    return Scheduler(registry.load(CONFIGURATION), registry).run(known, 1.0)
