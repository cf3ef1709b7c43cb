"""Worlds with faults, each from its seed."""

from __future__ import annotations

import gc

import pytest

from .__main__ import failure
from .plan import Plan, draw
from .run import judge
from .step import REPLICAS, Step

SEEDS = 200
CHUNK = 10


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_no_fault_breaks_a_rule(first: int) -> None:
    failures = []
    for seed in range(first, first + CHUNK):
        verdict = judge(draw(seed))
        if verdict.findings:
            failures.append(failure(verdict))
    gc.collect()
    assert not failures, "\n".join(failures)


def test_after_ten_minutes_one_of_two_half_gangs_gives_way_although_schedulers_were_killed() -> None:
    """Each of two gangs has two pods on n0, and the other two were on n1, which is gone."""
    gang = {"queue": "q-a", "replicas": 4, "least": 4, "cpu": 1, "run": None, "priority": "", "grace": 1,
            "fails": False, "restarts": ""}  # fmt: skip
    steps = [
        Step(0.0, "settings", {"guarantee": False, "weight": 1}),
        Step(4.0, "job", {"name": "job0", **gang}),
        Step(4.0, "job", {"name": "job1", **gang}),
        Step(9.0, "delete-node", {"name": "n1"}),
        Step(200.0, "kill", {"who": "scheduler-a"}),
        Step(203.0, "restart", {"who": "scheduler-a"}),
        Step(400.0, "kill", {"who": "scheduler-b"}),
        Step(403.0, "restart", {"who": "scheduler-b"}),
    ]
    verdict = judge(Plan(1, {"n0": 4, "n1": 4}, steps, calm=640.0, period=3.0, replicas=REPLICAS[:4]))
    assert verdict.findings == []
    evicted = [line for line in verdict.lines if "reason=GangDeadlock" in line]
    assert len(evicted) == 2
    assert all(600 < float(line.split()[0]) < 640 for line in evicted)
