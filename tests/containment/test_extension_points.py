"""Errors in callbacks, one extension point after the other; and who may use which.

A plugin registers a callback at every extension point that there is; each has no opinion. Then one of them fails
whenever it is asked about the odd job, its tasks or its queue, and all other jobs start all the same.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import pytest

from builders import cluster, session
from containment.contained_worlds import Played, World, configuration, huge, is_odd, is_odd_name, play
from containment.fault_injection import InjectedError
from reservations.reservation_scenes import reservation
from starvation.scenes import gang, node, pod, priority_class, queue
from stromboli.cluster import Queue
from stromboli.scheduling import callbacks as cb
from stromboli.scheduling.callbacks import Verdict, Vote
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.extension_points import FORMER_METHODS, ExtensionPoints
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.points import NotForPlugins, Point, Points, Verdicts
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

Register = Callable[[Session, Callable[[Any], Any]], None]

NO_OPINION: dict[str, Register] = {}
"""By extension point: registers a callback without an opinion, wrapped as the test wants it."""


def method(name: str, call: Any, **named: Any) -> None:
    """A point of plugins, which has a method."""

    def register(session: Session, wrap: Callable[[Any], Any]) -> None:
        getattr(session, f"add_{name}")(wrap(call), **{key: wrap(value) for key, value in named.items()})

    NO_OPINION[name] = register


def point(name: str, call: Any) -> None:
    """A point that is registered at without a method of its own."""
    NO_OPINION[name] = lambda session, wrap: getattr(session.points, name).add(wrap(call))


method("job_order", lambda job: 0)
method("queue_order", lambda queue: 0)
point("queue_key_falls", lambda: 0)
method("task_order", lambda task: 0)
method("victim_queue_order", lambda victim, preemptor: 0)
method("pre_filter", lambda task: None)
method("filter", lambda task: None)
method("node_filter", lambda task, node: None)
method("score", lambda task: None)
method("node_score", lambda task, node: 0.0)
method("best_node", lambda task, rows, scores: None)
method("preemptable", lambda evictor, candidate, whole: Verdict.NOTHING, protects=True)
method("reclaimable", lambda evictor, candidate, whole: Verdict.NOTHING, protects=True)
method("overused", lambda queue: False)
method("allocatable", lambda queue, request, credit, lending: None)
method("preemptive", lambda queue, request, credit: None)
method("job_ready", lambda job: True)
method("job_pipelined", lambda job: Vote.ABSTAIN)
method("job_enqueueable", lambda job: Vote.ABSTAIN)
method("job_enqueued", lambda job: None)
method("job_valid", lambda job: None)
method("job_starving", lambda job: True)
method("backfill_eligible", lambda job: True)
method("resource_score", cb.ResourceScore())
NO_OPINION["namespace_order"] = lambda session, wrap: session.add_namespace_order(
    wrap(lambda queue, namespace: 0), shares=session.namespace_shares
)
NO_OPINION["node_order_on_resource"] = lambda session, wrap: session.add_node_order_on_resource(
    wrap(lambda task: np.zeros(len(session.nodes)))
)
NO_OPINION["allocate"] = lambda session, wrap: session.add_handlers(allocate=wrap(lambda task: None))
NO_OPINION["deallocate"] = lambda session, wrap: session.add_handlers(deallocate=wrap(lambda task: None))
NO_OPINION["deserved_amounts"] = lambda session, wrap: session.points.deserved_amounts.add(
    wrap(lambda queue, less: session.total.tolist())
)
point("allocatable_on_own_rows", lambda queue, request, credit: None)
point("startable", lambda queue, request: None)
point("latest_start", lambda job: None)
point("shared_limits", lambda queue, request, credit, kept: None)
point("kept_places", lambda tasks: [])
point("kept_rows", lambda tasks: {})
point("domain_score", lambda tree, domains, tasks: np.zeros(len(domains)))
point("kept_place", lambda statement, task, promised: False)
point("kept_places_of_many", lambda statement, tasks: 0)
point("admission_credit", lambda job, everywhere: None)
point("kept_room", lambda job, charged: {})
point("remark", lambda job: "")
point("stand_in_conditions", lambda job: [])
point("outlook", lambda task: None)
point("prepare", lambda job, tasks: True)
point("why_no_nodes", lambda job: None)
point("narrow", lambda job, tasks: ())
point("concessions", lambda kind, task: [])
point("concessions_possible", lambda kind: True)
point("room", lambda room, job: room)
point("hold", lambda job, tasks: False)
point("start", lambda operation, tasks: False)
point("eviction", lambda statement, task, reason, message: None)
point("withdrawal", lambda task, reason, message: None)
point("fallback_placement", lambda statement, task: False)
point("fallback_possible", lambda task, job: False)
point("closed_to_evictions", lambda task: [])
point("job_allocatable", lambda job, request, credit: None)
point("job_allocatable_differs", lambda job: False)
point("displacement", lambda job, evicting: [])
point("group_conditions", lambda job: [])
point("close", lambda: None)

WITH_ANOTHER = {
    "queue_path": "with queue_order, by plugins with a tree of queues",
    "node_order_signature": "with node_order_on_resource",
    "all_enqueueable": "with job_enqueueable",
}
NOT_ABOUT_JOBS = {
    "close": "it is asked once, about nobody",
    "queue_key_falls": "it is asked about nobody",
    "concessions_possible": "it is asked about a kind of evictions",
    "resource_score": "weights, no callback",
}
NEVER_ASKED = {
    "withdrawal": "for tasks whose bind waits for volumes",
    "allocatable_on_own_rows": "for queues with nodes of their own, or Reservations",
    "eviction": "no pod of the odd job is evicted",
    "domain_score": "for groups that must be close together",
    "kept_rows": "for groups that must be close together",
    "kept_places_of_many": "only about pods for which kept_places found places",
    "fallback_possible": "places are counted only if none are kept for single pods",
    "job_allocatable_differs": "jobs are of a kind only if nobody asks about single pods",
}


@dataclass
class Fault:
    """Where errors happen: at which extension point, and in which of its callbacks."""

    at: str = ""
    asked: set[str] = field(default_factory=set)  # extension points that were asked about the odd job

    def wrap(self, name: str, call: Any) -> Any:
        if not callable(call):
            return call

        def asked(*arguments: Any) -> Any:
            if any(concerns_odd(argument) for argument in arguments):
                self.asked.add(name)
                if self.at == name:
                    raise InjectedError(name)
            return call(*arguments)

        return asked


def concerns_odd(value: object) -> bool:
    if isinstance(value, Queue):
        return is_odd_name(value.name)
    if isinstance(value, list | tuple):
        return any(is_odd(one) for one in value)
    return is_odd(value)


def world() -> World:
    """The odd job has a queue of its own, and comes into the way of all others: it is admitted, evicts and is evicted,
    starves, and has pods without requests. So does another job, which is not odd."""
    minimum = {"minResources": {"cpu": "2"}}
    odd, y = gang("odd", 1, 1, 0, least=2, queue="odd-q", at=2, run=4), gang("y", 1, 1, queue="q2", at=2, run=4)
    for document in (odd[0], y[0]):
        document["spec"].update(minimum)
    elsewhere = pod("odd-elsewhere", 1, queue="odd-q", at=2, run=3)
    elsewhere["metadata"]["namespace"] = "elsewhere"
    return World(
        "all extension points",
        [
            *[node(f"n{number}", 4) for number in (1, 2, 3)], queue("q1"), queue("q2"), queue("odd-q"),
            priority_class("high", 10), priority_class("low", 1),
            *[pod(f"old-{n:02}", 1, queue="q1", priority="low", at=0, run=9) for n in range(12)],
            *odd, *y, *gang("odd-big", 4, 4, queue="odd-q", at=3, run=2), *gang("big", 4, queue="q2", at=3, run=2),
            *gang("odd-urgent", 1, 1, queue="q1", priority="high", at=4, run=2),
            *gang("urgent", 1, 1, queue="q1", priority="high", at=4, run=2),
            *[pod(f"late-{n}", 1, queue="q2", at=5 + n, run=2) for n in range(3)], elsewhere,
            huge("odd-huge", queue="odd-q"), reservation("odd-r", 50, queue="odd-q"),
        ],
        _configuration(),
        until=24,
    )  # fmt: skip


def _configuration() -> str:
    text = configuration(
        reserve={"starvingJobTimeThreshold": "3s", "reservedNodePercent": 100},
        backfill={"backfillNonBestEffort": True},
    )
    return text.replace('{"name": "pdb"}', '{"name": "pdb"}, {"name": "everything"}')


def run(fault: Fault) -> Played:
    class Everything(Plugin):
        name: ClassVar[str] = "everything"

        def __init__(self, arguments: Arguments) -> None:
            """It has none."""

        def open(self, session: Session) -> None:
            session.points.desk.is_ours = True  # it also registers where plugins of others cannot
            for name, register in NO_OPINION.items():
                register(session, partial(fault.wrap, name))

    registry = Registry(installed_plugins=(), installed_actions=())
    registry.register_plugin("everything", Everything)
    return play(world(), registry=registry)


@cache
def healthy() -> tuple[dict[str, float], frozenset[str]]:
    fault = Fault()
    played = run(fault)
    assert not played.errors
    return played.others(), frozenset(fault.asked)


def methods() -> set[str]:
    functions = inspect.getmembers(ExtensionPoints, inspect.isfunction)
    return {name.removeprefix("add_") for name, _ in functions if name.startswith("add_")}


def all_points() -> set[str]:
    """Those with methods, and those without."""
    found = {name for name, value in vars(Points()).items() if isinstance(value, Point | Verdicts)}
    return (found | methods()) - {"handlers"}  # this is allocate and deallocate


def test_every_extension_point_has_a_callback() -> None:
    assert all_points() == NO_OPINION.keys() | WITH_ANOTHER.keys()


def test_plugins_have_few_methods() -> None:
    """What only features of Stromboli need is not part of what others rely on."""
    assert len(methods()) <= 26
    ours = {name for name, value in vars(Points()).items() if isinstance(value, Point) and value.ours}
    assert ours == all_points() - methods() - WITH_ANOTHER.keys() - {"allocate", "deallocate", "queue_key_falls"}


def of_another_distribution(use: Callable[[Session], None]) -> Session:
    class Foreign(Plugin):
        name: ClassVar[str] = "foreign"

        def __init__(self, arguments: Arguments) -> None:
            """It has none."""

        def open(self, session: Session) -> None:
            use(session)

    return session(cluster(), tiers=[[Foreign(Arguments())]])


@pytest.mark.parametrize("name", sorted(FORMER_METHODS))
def test_a_plugin_is_told_what_to_use_instead_of_a_former_method(name: str) -> None:
    with pytest.raises(AttributeError, match=f"plugins cannot use {name} any more: ") as told:
        of_another_distribution(lambda session: getattr(session, name)(lambda: None))
    known = methods()
    assert all(word.removeprefix("add_") in known for word in re.findall(r"add_\w+", str(told.value).partition(":")[2]))


def test_a_plugin_of_another_distribution_cannot_answer_for_features() -> None:
    with pytest.raises(NotForPlugins, match="plugin foreign uses"):
        of_another_distribution(lambda session: session.points.remark.add(lambda job: ""))


def test_a_wrong_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="add_job_ordr"):
        of_another_distribution(lambda session: session.add_job_ordr(lambda job: 0))  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="remarks"):
        of_another_distribution(lambda session: session.points.remarks.add(lambda job: ""))  # type: ignore[attr-defined]


def test_every_extension_point_is_asked_about_the_odd_job() -> None:
    """A new one needs a world in which it matters, or a reason why not."""
    _, asked = healthy()
    assert set(NO_OPINION) - asked == NOT_ABOUT_JOBS.keys() | NEVER_ASKED.keys()


@pytest.mark.parametrize("name", sorted(NO_OPINION.keys() - NOT_ABOUT_JOBS.keys() - NEVER_ASKED.keys()))
def test_others_start_although_one_callback_fails(name: str) -> None:
    expected, _ = healthy()
    fault = Fault(at=name)
    played = run(fault)
    assert played.errors, "nothing went wrong"
    missing = {other: played.bound.get(other) for other in expected if other not in played.bound}
    assert not missing, played.charged
