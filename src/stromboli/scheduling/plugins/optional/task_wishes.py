"""What a job says about its roles: which should be together on nodes, which apart, and which go first.

Three annotations of its PodGroup (the controllers copy those of a Job) have lists of roles, separated by semicolons:

    volcano.sh/task-topology-affinity: ps,worker;evaluator     ps and workers together; evaluators among themselves
    volcano.sh/task-topology-anti-affinity: ps;worker,chief    ps apart from each other; workers apart from chiefs
    volcano.sh/task-topology-task-order: ps,worker             ps first, then workers; one list

A role that the job does not have means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from stromboli.api import names
from stromboli.cluster import Job

# Whose pods choose their place first, where the job does not say it: the fewer choices, the sooner.
_APART_FROM_EACH_OTHER: Final = 4
_WITH_OTHERS: Final = 3
_WITH_EACH_OTHER: Final = 2
_APART_FROM_OTHERS: Final = 1

Pair = tuple[str, str]  # of roles, sorted; twice the same: among the pods of one role


@dataclass
class Wishes:
    together: set[Pair] = field(default_factory=set)
    apart: set[Pair] = field(default_factory=set)
    urgency: dict[str, int] = field(default_factory=dict)  # of roles that are in some list of the first two
    order: dict[str, int] = field(default_factory=dict)  # the later, the smaller

    def gain(self, role: str, others: Mapping[str, int]) -> int:
        """How good it is for a pod of this role to be with so many pods of other roles."""
        pairs = ((_pair(role, other), number) for other, number in others.items())
        return sum(((pair in self.together) - (pair in self.apart)) * number for pair, number in pairs)

    def loss(self, role: str, others: Mapping[str, int]) -> int:
        """From how many of them it should be apart."""
        return sum(number for other, number in others.items() if _pair(role, other) in self.apart)

    def rank(self, role: str) -> tuple[int, int]:
        """The smaller goes first."""
        return -self.order.get(role, 0), -self.urgency.get(role, 0)


def wishes_of(job: Job) -> Wishes | None:
    annotations = {} if job.object is None else job.object.metadata.annotations
    texts = [annotations.get(name) for name in _ANNOTATIONS]
    if not any(texts):
        return None
    together, apart, order = (_lists(text or "") for text in texts)
    wishes = Wishes()
    _add(wishes, wishes.together, together, alone=_WITH_EACH_OTHER, with_others=_WITH_OTHERS)
    _add(wishes, wishes.apart, apart, alone=_APART_FROM_EACH_OTHER, with_others=_APART_FROM_OTHERS)
    for roles in order[:1]:
        wishes.order = {role: len(roles) - position for position, role in enumerate(roles)}
    return wishes


def has_wishes(job: Job) -> bool:
    return job.object is not None and any(name in job.object.metadata.annotations for name in _ANNOTATIONS)


_ANNOTATIONS: Final = (names.TASK_AFFINITY, names.TASK_ANTI_AFFINITY, names.TASK_ORDER)


def _lists(text: str) -> list[list[str]]:
    lists = ([role.strip() for role in part.split(",")] for part in text.split(";"))
    return [found for part in lists if (found := [role for role in dict.fromkeys(part) if role])]


def _add(wishes: Wishes, pairs: set[Pair], lists: list[list[str]], *, alone: int, with_others: int) -> None:
    for roles in lists:
        pairs.update(combinations(sorted(roles), 2) if len(roles) > 1 else [(roles[0], roles[0])])
        for role in roles:
            urgency = alone if len(roles) == 1 else with_others
            wishes.urgency[role] = max(wishes.urgency.get(role, 0), urgency)


def _pair(one: str, other: str) -> Pair:
    return (one, other) if one <= other else (other, one)
