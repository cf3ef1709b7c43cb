"""The shortest list of steps that still breaks the same rule.

Steps are taken away in halves, quarters and so on, and at last one by one, for as long as anything can go. A world is
deterministic, so a plan that fails once fails always; the one that is left is a plan like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .plan import Plan
from .step import Step


def shrink(plan: Plan, fails: Callable[[Plan], bool], tell: Callable[[str], None] = lambda text: None) -> Plan:
    steps = plan.steps
    size = max(1, len(steps) // 2)
    while True:
        steps, removed = _without(plan, steps, size, fails)
        tell(f"{len(steps)} steps are left")
        if size == 1 and not removed:
            return replace(plan, steps=steps)
        if not removed:
            size = max(1, size // 2)


def _without(plan: Plan, steps: list[Step], size: int, fails: Callable[[Plan], bool]) -> tuple[list[Step], bool]:
    removed, start = False, 0
    while start < len(steps):
        shorter = steps[:start] + steps[start + size :]
        if fails(replace(plan, steps=shorter)):
            steps, removed = shorter, True
        else:
            start += size
    return steps, removed
