"""Jobs that should start within an agreed time: who goes first, who is let in, and for whom nodes are set aside."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from builders import START, cluster, group, node, plugin, pod, pods, queue, session
from stromboli.api import KObject, PodGroup
from stromboli.cluster import Cluster, Job
from stromboli.scheduling.actions.enqueue import Enqueue
from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.plugins.optional.sla import Sla
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation import ReserveRules, has_starved

OWN = "volcano.sh/sla-waiting-time"


def agreed(obj: KObject, time: str, *, annotation: str = OWN) -> KObject:
    return replace(obj, metadata=replace(obj.metadata, annotations={annotation: time}))


def opened(known: Cluster, now: float, arguments: Mapping[str, object] | None = None) -> Session:
    """At `now` seconds after the first object was created."""
    tiers = [[plugin("sla", arguments)], ["gang", "overcommit"]]
    return session(known, tiers=tiers, actions=["enqueue"], now=START + now)


def order(known: Cluster, arguments: Mapping[str, object] | None = None) -> str:
    return " ".join(job.name for job in sorted(known.jobs.values(), key=opened(known, 0, arguments).job_key))


def admitted(known: Cluster, now: float, arguments: Mapping[str, object] | None = None) -> tuple[bool, float | None]:
    """Whether the job g is let in at this time, and when the scheduler should look again."""
    current = opened(known, now, arguments)
    Enqueue(Arguments()).execute(current)
    due = current.cycle.next_due
    job: Job = known.jobs["default/g"]  # type: ignore[index]
    return job.phase == "Inqueue", None if due is None else round(due - START, 3)


def too_large(**facts: object) -> PodGroup:
    """On ten CPUs overcommit admits twelve."""
    return group("g", phase="Pending", min_resources={"cpu": 20}, created=0, **facts)  # type: ignore[arg-type]


# -- who goes first -------------------------------------------------------------------------------------------------


# Their times are over at: none, 1 h after 0 s, 30 min after 60 s, and again 1 h after 0 s, which ties with `slow`.
def test_the_job_whose_time_is_over_first_goes_first_and_one_without_a_time_last() -> None:
    known = cluster(
        node("n1", cpu=10),
        group("none", created=0),
        agreed(group("slow", created=0), "1h"),
        agreed(group("fast", created=60), "30m"),
        agreed(group("twin", created=0), "3600"),
    )
    assert order(known) == "fast slow twin none"


def test_the_argument_is_for_jobs_that_say_nothing() -> None:
    known = cluster(node("n1", cpu=10), agreed(group("own", created=0), "1h"), group("other", created=0))
    assert order(known) == "own other"
    assert order(known, {"sla-waiting-time": "3m"}) == "other own"
    assert order(known, {"sla-waiting-time": "0s"}) == "own other"  # none


# The queue has agreed on 10 min. Its jobs ask for 5 min, which is less, for 20 min, and for nothing.
def test_a_queue_states_the_shortest_time_of_its_jobs() -> None:
    known = cluster(
        node("n1", cpu=10),
        agreed(queue("q"), "10m"),
        agreed(group("greedy", queue="q", created=1), "5m"),
        agreed(group("modest", queue="q", created=0), "20m"),
        group("plain", queue="q", created=0),
        agreed(group("elsewhere", created=0), "9m"),
    )
    assert order(known, {"sla-waiting-time": "1h"}) == "elsewhere plain greedy modest"


# -- who is let in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotation", [OWN, "sla-waiting-time"])
def test_a_job_is_let_in_once_its_time_is_over_although_there_is_no_room(annotation: str) -> None:
    known = cluster(node("n1", cpu=10), agreed(too_large(), "1h", annotation=annotation))
    assert admitted(known, 3599) == (False, 3600)
    assert admitted(known, 3600) == (True, None)


def test_no_time_keeps_a_job_out_that_has_room() -> None:
    room = group("g", phase="Pending", min_resources={"cpu": 12}, created=0)
    assert admitted(cluster(node("n1", cpu=10), agreed(room, "1h")), 0) == (True, None)


@pytest.mark.parametrize("time", ["soon", "-1h", "0s"])
def test_a_time_that_is_none_is_ignored(time: str) -> None:
    known = cluster(node("n1", cpu=10), agreed(too_large(), time))
    assert admitted(known, 100_000) == (False, None)
    assert admitted(known, 100_000, {"sla-waiting-time": "1h"})[0]


def test_who_refuses_in_the_same_tier_is_not_overruled() -> None:
    known = cluster(node("n1", cpu=10), agreed(too_large(), "1h"))
    current = session(known, tiers=[["sla", "overcommit"]], actions=["enqueue"], now=START + 7200)
    Enqueue(Arguments()).execute(current)
    assert known.jobs["default/g"].phase == "Pending"  # type: ignore[index]


# -- for whom nodes are set aside -----------------------------------------------------------------------------------

CONFIGURATION = """
actions: "allocate, reserve"
tiers:
- plugins: [{name: sla}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}]
"""


def late(known: Cluster, now: float) -> tuple[list[str], float | None]:
    """The pods that are bound, or nodes are set aside for."""
    registry = Registry(installed_plugins=(), installed_actions=())
    cycle = Scheduler(registry.load(CONFIGURATION), registry).run(known, START + now)
    decisions = [f"{type(d).__name__} {d.task}" for d in cycle.decisions if hasattr(d, "task")]
    assert not any(isinstance(d, Bind) for d in cycle.decisions)
    due = cycle.next_due
    return [d for d in decisions if d.startswith("Reserve")], None if due is None else round(due - START, 3)


# Two of four CPUs are in use, and the gang needs three. The threshold of the action reserve is two days.
def test_nodes_are_set_aside_for_a_job_whose_time_is_over() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("old"), pods("o", 2, group="old", cpu=1, node="n1"),
        agreed(group("g", min_member=3, created=0), "1h"), pods("p", 3, group="g", cpu=1),
    )  # fmt: skip
    assert late(known, 3599) == ([], 3600)
    assert late(known, 3600)[0] == ["Reserve default/p-0", "Reserve default/p-1", "Reserve default/p-2"]


# It was to start an hour ago, but one of its pods has a gate. Neither nodes nor others of its namespace wait for that.
@pytest.mark.parametrize("gated", [True, False])
def test_a_gang_that_may_not_start_is_not_late(gated: bool) -> None:
    known = cluster(
        node("n1", cpu=4), agreed(group("g", min_member=3, created=0), "1h"),
        pods("p", 2, group="g", cpu=1), pod("p-2", group="g", cpu=1, gated=gated),
    )  # fmt: skip
    gang: Job = known.jobs["default/g"]  # type: ignore[index]
    assert has_starved(opened(known, 7200), gang, ReserveRules()) is not gated


# Two days from its last pod, which was created 6 s after the group.
def test_without_a_time_the_threshold_of_the_action_counts() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("old"), pod("o", group="old", cpu=2, node="n1"),
        group("g", min_member=3, created=0), pods("p", 3, group="g", cpu=1),
    )  # fmt: skip
    assert late(known, 3600) == ([], 172_806)


# -- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["later", "-1h", True, ["1h"]])
def test_an_argument_that_is_no_time_is_an_error(value: object) -> None:
    with pytest.raises(ConfigurationError, match="sla-waiting-time"):
        Sla(Arguments({"sla-waiting-time": value}))
