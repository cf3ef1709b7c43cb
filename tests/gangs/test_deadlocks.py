"""Gangs that hold what each other needs: one is sent away after `gangDeadlockTimeout`, and the other is completed.

Each gang needs two pods of one CPU and has one, on a node that is full. Nothing ends by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangs.test_half_gangs import half
from starvation.scenes import Document, gang, node, pod, priority_class, queue, restart
from together.situations import Report, Situation, happened, situation, starts


def deadlock(
    *parts: Document | list[Document], timeout: float | str | None = None, until: float = 700, size: float = 2
) -> Situation:
    """Two queues, and a node of two CPUs. `timeout`: of the plugin `gang`."""
    story = situation(node("n1", size), queue("a"), queue("b"), *parts, until=until)
    if timeout is None:
        return story
    config: Document = {**story.config} if story.config is not None else {}
    first, *others = config["tiers"]
    plugins = [
        {**one, "arguments": {"gangDeadlockTimeout": timeout}} if one["name"] == "gang" else one
        for one in first["plugins"]
    ]
    return replace(story, config={**config, "tiers": [{"plugins": plugins}, *others]})


def sent_away(report: Report) -> list[tuple[float, str]]:
    return [(e["t"], e["object"]) for e in report["events"] if e["type"] == "Evicted" and e["reason"] == "GangDeadlock"]


def bound(report: Report) -> dict[str, float]:
    return {name.removeprefix("default/"): time for name, time in starts(report).items()}


TWO = [*half("first", queue="a"), *half("second", queue="b")]


def test_one_of_two_gangs_in_two_queues_is_sent_away() -> None:
    # Both wait since 0 s and started then; at a tie the last by name goes. 600 s are over in the cycle after 600 s.
    report = deadlock(TWO).run()
    assert sent_away(report) == [(601.0, "default/second-0")]
    assert bound(report) == {"first-1": 602.0}
    (told,) = [e["message"] for e in report["events"] if e["type"] == "Evicted"]
    assert "so that default/first can be completed" in told


@pytest.mark.parametrize("timeout", [60, "6s", 6000])
def test_the_time_is_an_argument_of_the_plugin(timeout: float | str) -> None:
    seconds = float(str(timeout).removesuffix("s"))
    report = deadlock(TWO, timeout=timeout, until=seconds + 10).run()
    assert sent_away(report) == [(seconds + 1, "default/second-0")]


def test_zero_means_never() -> None:
    assert sent_away(deadlock(TWO, timeout=0, until=7200).run()) == []


def test_restarts_change_nothing() -> None:
    story = deadlock(TWO, timeout=6, until=10)
    undisturbed = story.run()
    for second in range(11):
        assert story.run(restart(second, "scheduler")) == undisturbed, f"after a restart at {second}"
    assert story.run(*[restart(second) for second in range(11)]) == undisturbed


def test_the_lowest_priority_goes_first() -> None:
    parts = [priority_class("high", 10), *half("first", queue="a"), *half("second", queue="b", priority="high")]
    assert sent_away(deadlock(parts, timeout=6, until=20).run()) == [(7.0, "default/first-0")]


def test_then_the_one_that_started_last() -> None:
    # The pod of the gang that is first by name was started at 3 s. Another one had the place before.
    first, second = half("first", queue="a"), half("second", queue="b")
    first[1]["metadata"]["annotations"]["sim.stromboli.io/at"] = "3s"
    report = deadlock(pod("before", 1, on="n1", queue="a", until=3), first, second, timeout=6, until=20).run()
    assert [name for _, name in sent_away(report)] == ["default/first-0"]
    assert "second-1" in bound(report)


def test_a_gang_that_is_protected_stays() -> None:
    first, second = half("first", queue="a"), half("second", queue="b", preemptable=False)
    report = deadlock(first, second, timeout=6, until=20).run()
    assert sent_away(report) == [(7.0, "default/first-0")]
    assert bound(report) == {"second-1": 8.0}


def test_nobody_goes_in_vain() -> None:
    # What the first gang lacks is larger than the node.
    report = deadlock(half("first", cpu=3, queue="a"), half("second", cpu=3, queue="b"), timeout=6, until=20).run()
    assert sent_away(report) == []


def test_nobody_goes_while_others_are_leaving() -> None:
    # A pod on another node is asked to leave at 5 s and takes 10 s. When it is gone, the first gang is completed there.
    leaving = pod("leaving", 1, on="n2", queue="a", grace=10, until=5)
    report = deadlock(node("n2", 1), leaving, TWO, timeout=6, until=30).run()
    assert sent_away(report) == []
    assert bound(report) == {"first-1": 15.0}


# -- on reserved nodes ------------------------------------------------------------------------------------------------


def reserved(*, scope: str = "node", holder: str = "", until: float = 30, **options: Any) -> Situation:
    """A job that needs all 4 CPUs of the node starves from 0 s on, and holds the node from 4 s on. On it is a pod of a
    gang that lacks another since 6 s: the one that it had there was deleted. The small pods run until 10 s."""
    training = gang("training", 1, 1, **options)
    for one in training[1:]:
        one["spec"]["nodeName"] = "n1"
    training[2]["metadata"]["annotations"]["sim.stromboli.io/until"] = "6s"
    return situation(
        node("n1", 4), priority_class("high", 10), training, pod("training-2", 1, group="training", at=6),
        pod("small", 1, on="n1", run=10), pod("large", 4, priority=holder),
        until=until, reserve={"starvingJobTimeThreshold": 3, "reservedNodePercent": 100, "scope": scope},
    )  # fmt: skip


@pytest.mark.parametrize("scope", ["node", "amount"])
def test_a_gang_is_completed_on_a_node_that_is_reserved_for_another(scope: str) -> None:
    report = reserved(scope=scope).run()
    assert happened(report, "Reserved")
    assert bound(report) == {"training-2": 6.0}


def test_it_is_not_if_the_holder_has_a_higher_priority() -> None:
    report = reserved(holder="high").run()
    assert "training-2" not in bound(report)


def test_a_fresh_gang_is_not_let_in_there() -> None:
    assert "fresh-0" not in bound(reserved(until=9).run(*gang("fresh", 1, at=7)))


def test_nothing_of_this_depends_on_memory() -> None:
    story = reserved(until=12)
    undisturbed = story.run()
    for second in range(13):
        assert story.run(restart(second, "scheduler")) == undisturbed, f"after a restart at {second}"
