"""Errors in callbacks, one extension point after the other.

A plugin registers a callback at every extension point that there is; each has no opinion. Then one of them fails
whenever it is asked about the odd job, its tasks or its queue, and all other jobs start all the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from containment.contained_worlds import Played, World, configuration, huge, is_odd, is_odd_name, play
from containment.fault_injection import InjectedError
from reservations.reservation_scenes import reservation
from starvation.scenes import gang, node, pod, priority_class, queue
from stromboli.cluster import Queue
from stromboli.scheduling import callbacks as cb
from stromboli.scheduling.callbacks import Verdict, Vote
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.extension_points import ExtensionPoints
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

NO_OPINION: dict[str, Callable[[Session], tuple[tuple[Any, ...], dict[str, Any]]]] = {}
"""By extension point: the callbacks of a plugin without an opinion, as positional and named arguments."""


def point(name: str, *calls: Any, **named: Any) -> None:
    NO_OPINION[f"add_{name}"] = lambda session: (calls, named)


point("job_order", lambda job: 0)
point("queue_order", lambda queue: 0, falls=lambda: 0)
point("namespace_order", lambda queue, namespace: 0)
point("task_order", lambda task: 0)
point("victim_queue_order", lambda victim, preemptor: 0)
point("pre_filter", lambda task: None)
point("filter", lambda task: None)
point("node_filter", lambda task, node: None)
point("score", lambda task: None)
point("node_score", lambda task, node: 0.0)
point("best_node", lambda task, rows, scores: None)
point("preemptable", lambda evictor, candidate, whole: Verdict.NOTHING, protects=True)
point("reclaimable", lambda evictor, candidate, whole: Verdict.NOTHING, protects=True)
point("overused", lambda queue: False)
point("allocatable", lambda queue, request, credit, lending: None)
point("allocatable_on_own_rows", lambda queue, request, credit: None)
point("startable", lambda queue, request: None)
point("shared_limits", lambda queue, request, credit, kept: None)
point("preemptive", lambda queue, request, credit: None)
point("job_ready", lambda job: True)
point("job_pipelined", lambda job: Vote.ABSTAIN)
point("job_enqueueable", lambda job: Vote.ABSTAIN)
point("job_enqueued", lambda job: None)
point("job_valid", lambda job: None)
point("job_starving", lambda job: True)
point("backfill_eligible", lambda job: True)
point("victim_tasks", lambda tasks: [])
point("handlers", allocate=lambda task: None, deallocate=lambda task: None)
point("kept_places", lambda tasks: [], lambda statement, task, promised: False, lambda statement, tasks: 0)
point("admission_credit", lambda job, everywhere: None)
point("kept_room", lambda job, charged: {})
point("remark", lambda job: "")
point("stand_in_conditions", lambda job: [])
point("outlook", lambda task: None)
point("preparation", lambda job, tasks: True, lambda job: None)
point("narrow", lambda job, tasks: ())
point("concessions", lambda kind, task: [], lambda kind: True)
point("room", lambda room, job: room)
point("hold", lambda job, tasks: False)
point("operations", start=lambda operation, tasks: False, eviction=lambda statement, task, reason, message: None)
point("withdrawal", lambda task, reason, message: None)
point("fallback_placement", lambda statement, task: False, lambda task, job: False)
point("closed_to_evictions", lambda task: [])
point("job_allocatable", lambda job, request, credit: None, differs=lambda job: False)
point("displacement", lambda job, evicting: [])
point("group_conditions", lambda job: [])
point("close", lambda: None)
NO_OPINION["add_deserved_amounts"] = lambda session: ((lambda queue, less: session.total.tolist(),), {})
NO_OPINION["add_resource_score"] = lambda session: ((cb.ResourceScore(),), {})
NO_OPINION["add_node_order_on_resource"] = lambda session: ((lambda task: np.zeros(len(session.nodes)),), {})

NOT_ABOUT_JOBS = {
    "add_close": "it is asked once, about nobody",
    "add_resource_score": "weights, no callback",
}
NEVER_ASKED = {
    "add_victim_tasks": "for actions of other distributions",
    "add_withdrawal": "for tasks whose bind waits for volumes",
    "add_allocatable_on_own_rows": "for queues with nodes of their own, or Reservations",
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
            for add, callbacks in NO_OPINION.items():
                calls, named = callbacks(session)
                wrapped = [fault.wrap(add, call) for call in calls]
                shares = {"shares": session.namespace_shares} if add == "add_namespace_order" else {}
                getattr(session, add)(*wrapped, **{k: fault.wrap(add, c) for k, c in named.items()}, **shares)

    registry = Registry(installed_plugins=(), installed_actions=())
    registry.register_plugin("everything", Everything)
    return play(world(), registry=registry)


@cache
def healthy() -> tuple[dict[str, float], frozenset[str]]:
    fault = Fault()
    played = run(fault)
    assert not played.errors
    return played.others(), frozenset(fault.asked)


def all_points() -> Iterator[str]:
    return (name for name, _ in inspect.getmembers(ExtensionPoints, inspect.isfunction) if name.startswith("add_"))


def test_every_extension_point_has_a_callback() -> None:
    assert set(all_points()) == set(NO_OPINION)


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
