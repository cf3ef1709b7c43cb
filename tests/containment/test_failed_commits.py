"""An error while decisions are made permanent. What was half done cannot be told from what was not done at all, so the
cycle fails and the state is built again. Before that, an error costs only the job on which it happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builders import cluster, group, node, pods, queue
from stromboli.cluster import Cluster, Ledger
from stromboli.scheduling.containment import NotContained, run_contained
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.registry import Registry


def two_gangs() -> Cluster:
    return cluster(
        node("n1", cpu=8),
        queue("default"),
        *[group(name, min_member=2) for name in ("bad", "good")],
        *[pods(name, 2, cpu=1, group=name) for name in ("bad", "good")],
    )


def failing_for(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(ledger: Ledger, tasks: Any, *more: Any) -> Any:
        if any(task.job.name == name for task in tasks):
            raise LookupError("no such shelf")
        return original(ledger, tasks, *more)

    return call


def scheduler() -> Scheduler:
    registry = Registry(installed_plugins=(), installed_actions=())
    return Scheduler(registry.default(), registry)


@pytest.mark.parametrize("step", ["place_many", "settle_binding"])
def test_only_an_error_in_a_commit_fails_the_cycle(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, step, failing_for("bad", getattr(Ledger, step)))
    if step == "settle_binding":
        with pytest.raises(NotContained):
            run_contained(scheduler(), two_gangs(), 1.0)
        return
    cycle = run_contained(scheduler(), two_gangs(), 1.0)
    assert [str(error.subject) for error in cycle.contained] == ["PodGroup default/bad"]
    assert [one.task for one in cycle.decisions if isinstance(one, Bind)] == ["default/good-0", "default/good-1"]
