"""Worlds with faults, each from its seed."""

from __future__ import annotations

import gc

import pytest

from .__main__ import failure
from .plan import draw
from .run import judge

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
