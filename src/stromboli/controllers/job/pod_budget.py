"""How many pods the Job controller creates and deletes in one pass, and which jobs come first.

A job of 50,000 pods must not keep the others waiting. So a pass has a budget, counted in pods, and each job has a limit
within it. A job that was cut off continues in the next pass. There it comes after the jobs that got fewer turns, so
that every job gets its turn. Only as many pods are built as the budget allows, which also bounds the memory of a pass.

Counted in pods and not in time, the changes of a pass follow from the objects alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodLimits:
    per_pass: int
    per_job: int
    visits: int | None = None  # how many objects of a kind one pass looks at


class PodBudget:
    """What is left of the budget in this pass."""

    def __init__(self, limits: PodLimits | None) -> None:
        """Without limits, each job gets all it needs."""
        self._limits = limits
        self._left = limits.per_pass if limits is not None else 0
        self.cut_off = False  # whether a job needs another pass

    def allowance(self) -> JobAllowance:
        """What the next job may create and delete."""
        pods = None if self._limits is None else min(self._left, self._limits.per_job)
        return JobAllowance(self, pods)

    def spend(self, pods: int) -> None:
        self._left -= pods


class JobAllowance:
    def __init__(self, budget: PodBudget, pods: int | None) -> None:
        self._budget = budget
        self._left = pods
        self.spent = 0
        self.cut_off = False

    def take(self) -> bool:
        """Whether one more pod may be created or deleted. The first that may not marks the job as cut off."""
        if self._left is not None and self.spent >= self._left:
            self.cut_off = self._budget.cut_off = True
            return False
        self.spent += 1
        self._budget.spend(1)
        return True
