"""Every reason for which a node that was set aside is given back.

Always the same beginning: on n1 two of three CPUs are in use, a job of three CPUs has starved and n1 is set aside for
it at 3 s. A small pod comes at 3.5 s that would fit. At 6 s something happens, and the small pod has its room in that
cycle.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from starvation.scenes import (
    Document,
    Outcome,
    configuration,
    gang,
    group,
    node,
    patch,
    pod,
    queue,
    restart,
    scene,
)
from starvation.stories import EVERYWHERE, THRESHOLD
from stromboli.scheduling.configuration.configuration_file import Configuration
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.report import build_report, encode_report
from stromboli.simulation.scenario import check_scenario, read_scenario
from stromboli.simulation.virtual_time import microseconds

N1 = node("n1", 3, labels={"zone": "a"})
OLD = pod("old", 2, on="n1", run=30)
BIG = pod("big", 3)
SMALL = pod("small", at=3.5)


def given_up(outcome: Outcome, *, why: str, who: str = "big", at: float = 6) -> None:
    told = [event for event in outcome.report["events"] if event["type"] == "Unreserved"]
    assert told, "nothing was given up"
    assert {(event["t"], event["object"]) for event in told[:1]} == {(at, f"default/{who}")}
    assert why in told[0]["message"]


def test_the_beginning() -> None:
    outcome = scene(N1, OLD, BIG, SMALL, reserve=THRESHOLD, until=20).run()
    assert outcome.happened("Reserved") == [(3.0, "big")]
    assert outcome.happened("Unreserved") == []
    assert outcome.pending == {"big", "small"}


def test_the_job_is_deleted() -> None:
    outcome = scene(N1, OLD, pod("big", 3, until=6), SMALL, reserve=THRESHOLD).run()
    given_up(outcome, why="no longer waiting")
    assert outcome.started == {"small": 6}
    assert outcome.report["reservations"] == {}


def test_the_group_is_deleted() -> None:
    first, *pods = gang("big", 3)
    first["metadata"]["annotations"]["sim.stromboli.io/until"] = "6s"
    outcome = scene(N1, OLD, first, pods, SMALL, reserve=THRESHOLD).run()
    assert outcome.happened("Unreserved") == [(6.0, "big-0")]
    assert outcome.started == {"small": 6}


def test_too_few_pods_are_left_of_the_gang() -> None:
    pods = [pod("big-0", 1, group="big"), pod("big-1", 2, group="big", until=6)]
    outcome = scene(N1, OLD, group("big", 2), pods, SMALL, reserve=THRESHOLD).run()
    assert outcome.happened("Reserved") == [(3.0, "big-0"), (3.0, "big-1")]
    assert {(6.0, "big-0"), (6.0, "big-1")} == set(outcome.happened("Unreserved"))
    assert outcome.started == {"small": 6}


def test_the_gang_needs_less_and_finds_it_elsewhere() -> None:
    # n2 has one CPU, as much as the first pod wants; from 6 on that one is enough.
    change = patch("PodGroup", "big", {"spec": {"minMember": 1}}, at=6)
    both = gang("big", 1, 3)
    story = scene(N1, OLD, node("n2", 3), pod("old-2", 2, on="n2", run=30), both, change, reserve=EVERYWHERE)
    assert story.at(5).reserved == {"n1": ["big"], "n2": ["big"]}
    outcome = story.run()
    assert outcome.started == {"big-0": 6}
    assert outcome.reserved == {}


def test_the_gang_needs_more_than_can_be_had() -> None:
    # Of three nodes two may be set aside. From 6 on the job needs three, so what it has is of no use.
    nodes = [node(f"n{number}", 3) for number in (1, 2, 3)]
    olds = [pod(f"old-{number}", 2, on=f"n{number}", run=30) for number in (1, 2, 3)]
    more = patch("PodGroup", "big", {"spec": {"minMember": 3}}, at=6)
    story = scene(
        nodes, olds, gang("big", 3, 3, 3, least=2), more, pod("s-1", at=3.5), pod("s-2", at=3.5), pod("s-3", at=3.5),
        reserve=THRESHOLD,
    )  # fmt: skip
    assert story.at(5).reserved == {"n1": ["big"], "n2": ["big"]}
    outcome = story.run()
    assert outcome.reserved == {}
    assert outcome.warnings("ReservationLimitExceeded") == [(6.0, "big")]
    assert {"s-1", "s-2", "s-3"} <= outcome.started.keys()


def test_the_job_starts_elsewhere() -> None:
    outcome = scene(N1, OLD, BIG, SMALL, node("n2", 3, at=6), reserve=THRESHOLD).run()
    given_up(outcome, why="the pod starts")
    assert outcome.started == {"big": 6, "small": 6}
    assert outcome.nodes["big"] == "n2"
    assert outcome.nodes["small"] == "n1"


def test_the_queue_is_closed() -> None:
    close: Document = {
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
        "metadata": {"name": "close", "annotations": {"sim.stromboli.io/at": "6s"}},
        "action": "CloseQueue", "target": {"kind": "Queue", "name": "q"},
    }  # fmt: skip
    big = pod("big", 3, queue="q", preemptable=False)  # otherwise the queue of `small` would reclaim it
    outcome = scene(queue("q"), N1, OLD, big, SMALL, close, reserve=THRESHOLD).run()
    given_up(outcome, why="queue q is not open")
    assert outcome.started == {"small": 6}


def test_the_queue_has_more_than_it_deserves() -> None:
    # 6 CPUs and two queues that want all they can get: 3 for each. From 6 on q has 4, on a node of its own.
    more = pod("more", 4, queue="q", on="n2", at=6, run=30)
    wanted = [pod(f"wanted-{number}", 3, queue="other", selector={"zone": "z"}) for number in range(2)]
    story = scene(
        queue("q"), queue("other"), N1, node("n2", 3), pod("old", 2, queue="other", on="n1", run=30),
        pod("big", 3, queue="q", selector={"zone": "a"}), more, wanted,
        pod("small", queue="other", at=3.5, selector={"zone": "a"}), reserve=THRESHOLD,
    )  # fmt: skip
    assert story.at(5).reserved == {"n1": ["big"]}
    outcome = story.run()
    given_up(outcome, why="queue q has more than its deserved share")
    assert outcome.started == {"small": 6}
    assert outcome.reserved == {}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"unschedulable": True}}, "node n1 is cordoned or not ready"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "node n1 is cordoned or not ready"),
        ({"metadata": {"labels": {"zone": "b"}}}, "node n1 no longer matches the pod"),
        ({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, "node n1 no longer matches the pod"),
        ({"status": {"allocatable": {"cpu": 2.5}}}, "node n1 is now too small"),
    ],
)
def test_the_node_is_no_good_any_more(change: Document, why: str) -> None:
    # n2 has less idle, so n1 is chosen first; n2 takes its place in the same cycle. n3 does not suit: it is there so
    # that the queue does not have more than the cluster when n1 is lost.
    n2 = [node("n2", 3, labels={"zone": "a"}), pod("old-2", 3, on="n2", run=30), node("n3", 3)]
    big = pod("big", 3, selector={"zone": "a"})
    story = scene(N1, OLD, *n2, big, patch("Node", "n1", change, at=6), reserve=EVERYWHERE)
    assert story.at(5).reserved == {"n1": ["big"]}
    outcome = story.run()
    given_up(outcome, why=why)
    assert outcome.happened("Reserved") == [(3.0, "big"), (6.0, "big")]
    assert outcome.reserved == {"n2": ["big"]}


def test_the_node_is_removed() -> None:
    n2 = [node("n2", 3), pod("old-2", 3, on="n2", run=30)]
    outcome = scene(node("n1", 3, until=6), OLD, n2, BIG, reserve=EVERYWHERE).run()
    assert [time for time, _ in outcome.happened("Unreserved")] == [6.0]
    assert outcome.reserved == {"n2": ["big"]}
    assert len(outcome.report["reservations"]) == 1


def test_a_job_moves_from_a_node_that_does_not_drain_to_one_where_less_has_to() -> None:
    # n1 has more idle at 3, so it is set aside, but two CPUs there do not drain. At 7 that has been so for more than
    # three seconds, nobody else needs the place, and on n2 only one CPU is left to drain, until 8. Small pods would
    # keep n2 from ever being empty.
    n2 = [node("n2", 3), pod("short", 2, on="n2", run=4), pod("longer", 1, on="n2", run=8)]
    small = [pod(f"small-{number}", at=7.5 + 5 * number, run=6) for number in range(4)]
    story = scene(N1, OLD, n2, BIG, small, reserve={**EVERYWHERE, "reservationTimeout": 3}, until=20)
    assert story.at(6).reserved == {"n1": ["big"]}
    assert story.at(7).reserved == {"n2": ["big"]}
    outcome = story.run()
    given_up(outcome, why="the nodes did not drain", at=7)
    assert outcome.started["big"] == 8


def test_a_node_that_does_not_drain_goes_to_the_next_in_line() -> None:
    # Set aside at 3. Nothing drains for three seconds, so at 7 the node goes to `small`, which fits there.
    outcome = scene(N1, OLD, BIG, SMALL, reserve={**THRESHOLD, "reservationTimeout": 3}).run()
    given_up(outcome, why="the nodes did not drain", at=7)
    assert outcome.started == {"small": 8}


# -- the configuration changes --------------------------------------------------------------------------------------


def run_with(before: Document, after: Document | None, *documents: Document, tmp_path: Path) -> Outcome:
    """The scheduler is started again at 6 s, with other arguments of the action reserve (None: without the action)."""
    path = tmp_path / "scenario.yaml"
    path.write_text("\n---\n".join(json.dumps(d) for d in [*documents, restart(6)]), encoding="utf-8")
    scenario = read_scenario([str(path)])
    check_scenario(scenario)
    registry = Registry(installed_plugins=(), installed_actions=())
    settings: list[Configuration] = [
        registry.load(configuration(arguments, None), where="test") for arguments in (before, after)
    ]
    engine = Engine(
        scenario, Journal(), new_scheduler=lambda: Scheduler(settings.pop(0), registry),
        period=microseconds(1), until=microseconds(9),
    )  # fmt: skip
    engine.run()
    return Outcome(encode_report(build_report(engine)).decode())


def test_the_action_is_taken_out(tmp_path: Path) -> None:
    outcome = run_with(THRESHOLD, None, N1, OLD, BIG, SMALL, tmp_path=tmp_path)
    given_up(outcome, why="not configured")
    assert outcome.started == {"small": 6}
    assert outcome.report["reservations"] == {}


def test_nothing_may_be_set_aside_any_more(tmp_path: Path) -> None:
    for less in ({"reservedNodePercent": 0}, {"maxHolders": 0}):
        outcome = run_with(THRESHOLD, {**THRESHOLD, **less}, N1, OLD, BIG, SMALL, tmp_path=tmp_path)
        given_up(outcome, why="")
        assert outcome.started == {"small": 6}
        assert outcome.reserved == {}


def test_the_last_of_those_who_hold_loses_where_less_may_be_set_aside(tmp_path: Path) -> None:
    nodes = [node(f"n{number}", 3) for number in (1, 2)]
    olds = [pod(f"old-{number}", 2, on=f"n{number}", run=30) for number in (1, 2)]
    jobs = [pod("big-a", 3, at=1), pod("big-b", 3)]
    for less in ({"reservedNodePercent": 50}, {"maxHolders": 1}):
        outcome = run_with(EVERYWHERE, {**EVERYWHERE, **less}, *nodes, *olds, *jobs, tmp_path=tmp_path)
        assert outcome.happened("Reserved") == [(3.0, "big-b"), (4.0, "big-a")]
        assert outcome.happened("Unreserved") == [(6.0, "big-a")]
        assert outcome.reserved == {"n1": ["big-b"]}
