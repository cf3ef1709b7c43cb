"""What a callback does not say about itself is not assumed: filters and scores by anything in a pod are right.

Blue pods may run on blue nodes and red ones on red nodes. The pods of each scene have one shape, and differ in an
annotation, in a label, or in what somebody outside says about them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import builders
from builders import cluster, group, node, pod, queue
from stromboli.api import Pod
from stromboli.cluster import Cluster, Node, Task
from stromboli.scheduling.callbacks import DependsOn, NodeFilter, NodeScore, ReasonIds, Rows, Scope, Scores
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation.node_index import NodeOrder

COLOUR = "example.com/colour"
CONFIGURATION = """
actions: "allocate, reserve, backfill"
configurations:
- {name: reserve, arguments: {starvingJobTimeThreshold: 10s}}
tiers:
- plugins: [{name: colours}, {name: priority}, {name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def by_annotation(task: Task) -> str:
    return task.pod.metadata.annotations.get(COLOUR, "")


def by_label(task: Task) -> str:
    return task.pod.metadata.labels.get(COLOUR, "")


def running(register: Callable[[Session], None]) -> Scheduler:
    """A scheduler with a plugin that registers this."""

    class Colours(Plugin):
        name = "colours"

        def open(self, session: Session) -> None:
            register(session)

    registry = Registry(installed_plugins=(), installed_actions=())
    registry.register_plugin("colours", Colours)
    return Scheduler(registry.load(CONFIGURATION), registry)


def painted(key: str, colour: str, **facts: Any) -> Pod:
    plain = pod(key, cpu=1, labels={COLOUR: colour}, **facts)
    return replace(plain, metadata=replace(plain.metadata, annotations={**plain.metadata.annotations, COLOUR: colour}))


def scene(*, gang: bool) -> Cluster:
    """Eight pods, the colours by turns; nodes for exactly four of each."""
    colours = ["red", "blue"] * 4
    if gang:
        members = [group("g", queue="q", min_member=8, phase="Inqueue")]
        members += [painted(f"p{n}", colour, group="g") for n, colour in enumerate(colours)]
    else:
        members = [group(f"g{n}", queue="q", min_member=1, phase="Inqueue") for n in range(8)]
        members += [painted(f"p{n}", colour, group=f"g{n}") for n, colour in enumerate(colours)]
    nodes = [node(f"{colour}-{n}", cpu=2, labels={COLOUR: colour}) for colour in ("red", "blue") for n in range(2)]
    return cluster(*nodes, queue("q"), *members)


def binds(cycle: Cycle) -> dict[str, str]:
    return {one.task.split("/")[-1]: one.node for one in cycle.decisions if isinstance(one, Bind)}


def paints(colour: Callable[[Task], str], *, array: bool, **stated: Any) -> Callable[[Session], None]:
    """A filter: only nodes of the pod's colour, for one node at a time or for all."""

    def check(task: Task, machine: Node) -> str | None:
        return None if machine.labels.get(COLOUR) == colour(task) else "another colour"

    def register(session: Session) -> None:
        def prepare(task: Task) -> NodeFilter:
            def judge(rows: Rows) -> ReasonIds:
                wrong = session.node_reason("PredicateColours", "another colour", resolvable=False)
                differs = [check(task, session.nodes.nodes[row]) is not None for row in rows.tolist()]
                return np.where(differs, wrong, 0).astype(np.int32)

            return judge

        if array:
            session.add_filter(prepare, **stated)
        else:
            session.add_node_filter(check, **stated)

    return register


def prefers(colour: Callable[[Task], str], *, array: bool, **stated: Any) -> Callable[[Session], None]:
    """The same as a score."""

    def rate(task: Task, machine: Node) -> float:
        return 10_000.0 if machine.labels.get(COLOUR) == colour(task) else 0.0

    def register(session: Session) -> None:
        def prepare(task: Task) -> NodeScore:
            def judge(rows: Rows) -> Scores:
                return np.array([rate(task, session.nodes.nodes[row]) for row in rows.tolist()])

            return judge

        if array:
            session.add_score(prepare, **stated)
        else:
            session.add_node_score(rate, **stated)

    return register


@pytest.mark.parametrize("gang", [True, False], ids=["gang", "single pods"])
@pytest.mark.parametrize("array", [True, False], ids=["all nodes", "one node"])
@pytest.mark.parametrize("kind", [paints, prefers])
@pytest.mark.parametrize(
    ("colour", "stated"),
    [
        (by_annotation, {}),
        (by_annotation, {"depends_on": by_annotation, "scope": Scope.STATIC}),
        (by_annotation, {"depends_on": DependsOn.TASK, "scope": Scope.STATIC}),
        (by_label, {}),
        (by_label, {"depends_on": DependsOn.LABELS, "scope": Scope.STATIC}),
    ],
)
def test_pods_go_to_nodes_of_their_colour(
    colour: Callable[[Task], str], stated: dict[str, Any], kind: Any, array: bool, gang: bool
) -> None:
    placed = binds(running(kind(colour, array=array, **stated)).run(scene(gang=gang), 1.0))
    assert {int(name[1:]) % 2: machine.split("-")[0] for name, machine in placed.items()} == {0: "red", 1: "blue"}
    assert len(placed) == 8


@pytest.mark.parametrize("kind", [paints, prefers])
def test_pods_of_one_template_in_two_namespaces_differ_as_by_their_labels(kind: Any) -> None:
    """The colour of a pod is its namespace's name; all else is the same."""
    colours = ("red", "blue")
    known = cluster(
        *[node(f"{colour}-0", cpu=4, labels={COLOUR: colour}) for colour in colours],
        queue("q"),
        *[group(f"{colour}/g", queue="q", min_member=1) for colour in colours],
        *[pod(f"{colour}/for-{colour}", cpu=1, group="g") for colour in colours],
    )
    stated = {"depends_on": DependsOn.LABELS, "scope": Scope.STATIC}
    placed = binds(running(kind(lambda task: task.namespace, array=True, **stated)).run(known, 1.0))
    assert placed == {"for-red": "red-0", "for-blue": "blue-0"}


def test_one_answer_serves_all_pods_where_that_is_stated() -> None:
    asked: list[str] = []

    def register(session: Session) -> None:
        def prepare(task: Task) -> None:
            asked.append(str(task.key))

        session.add_filter(prepare, depends_on=DependsOn.SHAPE, scope=Scope.STATIC)

    assert len(binds(running(register).run(scene(gang=True), 1.0))) == 8
    assert len(set(asked)) == 1


def test_an_answer_may_change_from_one_cycle_to_the_next() -> None:
    """Nothing changes in the cluster: somebody outside opens the nodes."""
    is_open: list[bool] = []

    def register(session: Session) -> None:
        session.add_node_filter(lambda task, machine: None if is_open else "closed")

    known, deciding = scene(gang=True), running(register)
    for now in (1.0, 2.0, 3.0):
        cycle = deciding.run(known, now)
        assert not binds(cycle)
        assert cycle.asks_again
    is_open.append(True)
    cycle = deciding.run(known, 4.0)
    assert len(binds(cycle)) == 8
    assert not cycle.asks_again


def test_it_may_depend_on_what_else_was_placed_in_the_cycle() -> None:
    """One pod on a node: only what was placed before tells."""

    def register(session: Session) -> None:
        session.add_node_filter(lambda task, machine: "taken" if machine.tasks else None)

    placed = binds(running(register).run(scene(gang=False), 1.0))
    assert sorted(placed.values()) == ["blue-0", "blue-1", "red-0", "red-1"]


def test_nodes_are_ranked_for_each_pod_by_its_own_score() -> None:
    """By what a starved job gets nodes set aside."""

    class Colours(Plugin):
        name = "colours"

        def open(self, session: Session) -> None:
            session.add_node_order_on_resource(lambda task: by_colour(session, task))

    def by_colour(session: Session, task: Task) -> Scores:
        mine = [one.labels.get(COLOUR) == by_annotation(task) for one in session.nodes.nodes]
        return np.where(mine, 100.0, 0.0)

    known = scene(gang=True)
    order = NodeOrder(opened := builders.session(known, tiers=[[Colours(Arguments())]]))
    tasks = {task.name: task for task in known.jobs["default/g"].tasks.values()}
    first = [opened.nodes.nodes[int(order.of(tasks[name])[0][0])].name for name in ("p0", "p1", "p2")]
    assert first == ["red-0", "blue-0", "red-0"]
