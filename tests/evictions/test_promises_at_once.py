"""Many tasks that wait for leaving pods are promised their rooms at once: the outcome is that of one promise each."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from evictions.crowded_clusters import CONFIGURATIONS, decisions
from stromboli.cluster import Task
from stromboli.scheduling.eviction import nominations
from stromboli.scheduling.gang import promise_rooms, task_placement
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

CYCLES = 4
SEEDS = range(100, 125)


def replace_promises(monkeypatch: pytest.MonkeyPatch, promise: object) -> None:
    for module in (nominations, task_placement):
        monkeypatch.setattr(module, "promise_rooms", promise)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_promises_at_once_are_those_of_each_alone(configuration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIGURATIONS[configuration]
    promised = 0

    def counted(session: Session, statement: Statement, tasks: Iterable[Task], *, unless_idle: bool) -> int:
        nonlocal promised
        number = promise_rooms(session, statement, tasks, unless_idle=unless_idle)
        promised += number
        return number

    replace_promises(monkeypatch, counted)
    at_once = {seed: decisions(seed, text, cycles=CYCLES) for seed in SEEDS}
    assert promised, "no rooms were promised at once, so nothing was compared"
    replace_promises(monkeypatch, lambda *_, **__: 0)
    for seed in SEEDS:
        assert at_once[seed] == decisions(seed, text, cycles=CYCLES), f"seed {seed}"
