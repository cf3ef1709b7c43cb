"""Nodes with scarce resources are kept for those who ask for them.

By score (`sra`): the more of the scarce resources a node offers, by their weights, the fewer of the 100 points it gets.
A pod that asks for one finds it on such nodes only, so for it this makes no difference; all others go elsewhere as long
as there is room.

By filter (`proportional`): a pod that asks for none of the scarce resources may not use a node where it would leave too
little CPU or memory beside those that are idle: so many cores, and so many gigabytes (10^9 bytes), for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stromboli.cluster import CPU, MEMORY, PODS, Matrix, Task, Vector
from stromboli.scheduling.callbacks import DependsOn, Horizon, NodeFilter, NodeScore, ReasonIds, Rows, Scope, Scores
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.explanation.node_reasons import kept_beside
from stromboli.scheduling.session import Session

_GIGABYTE = 1_000_000_000
_ENOUGH = 1 << 40  # tasks


@dataclass(frozen=True)
class ScarceResources:
    weight: float
    weights: Mapping[str, float]  # by resource

    @classmethod
    def read(cls, arguments: Arguments) -> ScarceResources:
        enabled = arguments.boolean("enable", False)
        listed = _listed(arguments)
        weight = arguments.number("weight", 1, minimum=0)
        given = arguments.section("resourceWeight")
        stated = {name: given.number(name, 1) for name in listed}
        weights = {name: one if one >= 0 else 1.0 for name, one in stated.items()}  # as Volcano does
        return cls(weight if enabled else 0.0, weights)

    def open(self, session: Session) -> None:
        total = sum(self.weights.values())
        if not self.weight or not total:
            return
        allocatable = session.nodes.allocatable
        has = np.zeros(len(session.nodes), dtype=np.float64)
        for name, weight in self.weights.items():
            if (column := session.axis.index.get(name)) is not None:
                has += weight * (allocatable[:, column] > 0)
        scores = (1.0 - has / total) * (100.0 * self.weight)

        def prepare(task: Task) -> NodeScore:
            requested = [column for _, column in session.axis.by_name() if task.request[column] > 0 and column != PODS]
            offers_all = (allocatable[:, requested] > 0).all(axis=1)
            return np.where(offers_all, scores, 0.0).__getitem__

        session.add_score(prepare, depends_on=DependsOn.SHAPE, scope=Scope.STATIC)


@dataclass(frozen=True)
class Proportions:
    """By scarce resource: thousandths of a core and bytes that are kept for each."""

    kept: Mapping[str, tuple[float, float]]

    @classmethod
    def read(cls, arguments: Arguments) -> Proportions:
        enabled = arguments.boolean("enable", False)
        listed = _listed(arguments)
        given = arguments.section("resourceProportion")

        def rate(name: str) -> float:
            stated = given.number(name, 1)
            return stated if stated >= 0 else 1.0  # as Volcano does

        kept = {name: (1000 * rate(f"{name}.cpu"), _GIGABYTE * rate(f"{name}.memory")) for name in listed}
        return cls(kept if enabled else {})

    def open(self, session: Session) -> None:
        index = session.axis.index
        kept = {index[name]: (name, *amounts) for name, amounts in self.kept.items() if name in index}
        if kept:
            rule = _Kept(session, kept)
            session.add_filter(
                rule.prepare, depends_on=DependsOn.SHAPE, scope=Scope.NODE,
                remaining=lambda task: _Remaining(rule, task.request) if rule.applies(task) else None,
            )  # fmt: skip


class _Kept:
    def __init__(self, session: Session, kept: Mapping[int, tuple[str, float, float]]) -> None:
        self._session = session
        self._kept = kept  # by column
        self._reasons = [
            [session.reason_id(kept_beside(what, name)) for what in ("cpu", "memory")] for name, _, _ in kept.values()
        ]

    def applies(self, task: Task) -> bool:
        return not any(task.request[column] > 0 for column in self._kept)

    def prepare(self, task: Task) -> NodeFilter | None:
        if not self.applies(task):
            return None

        def judge(rows: Rows) -> ReasonIds:
            room = self.room(rows)
            answers = np.zeros(len(rows), dtype=np.int32)
            for reasons, spare in zip(self._reasons, self._spare(room), strict=True):
                for reason, left, request in zip(reasons, spare, task.request[[CPU, MEMORY]].tolist(), strict=True):
                    answers[(answers == 0) & (left < request)] = reason
            return answers

        return judge

    def room(self, rows: Rows) -> Matrix:
        """What is there for pods, by the time that is looked at."""
        nodes, horizon = self._session.nodes, self._session.horizon
        if horizon is Horizon.DRAINED:
            return nodes.allocatable[rows]
        return nodes.idle[rows] if horizon is Horizon.NOW else nodes.future_idle[rows]

    def _spare(self, room: Matrix) -> list[tuple[Scores, Scores]]:
        """By scarce resource: how much CPU and memory is not kept for what is idle of it; all where there is none."""
        spare = []
        for column, (_, cpu, memory) in self._kept.items():
            idle = np.maximum(room[:, column], 0).astype(np.float64)
            spare.append((room[:, CPU] - idle * cpu, room[:, MEMORY] - idle * memory))
        return spare

    def number(self, rows: Rows, request: Vector) -> Rows:
        most = np.full(len(rows), _ENOUGH, dtype=np.int64)
        for cpu, memory in self._spare(self.room(rows)):
            for left, amount in ((cpu, int(request[CPU])), (memory, int(request[MEMORY]))):
                takes = np.floor(left / amount) if amount else np.where(left < 0, 0.0, _ENOUGH)
                most = np.minimum(most, np.maximum(takes, 0).astype(np.int64))
        return most


@dataclass(frozen=True)
class _Remaining:
    """How many tasks leave enough."""

    rule: _Kept
    request: Vector

    def at_least(self, rows: Rows) -> Rows:
        return self.rule.number(rows, self.request)

    exactly = at_least


def _listed(arguments: Arguments) -> list[str]:
    names = [item.strip() for item in arguments.text("resources", "").split(",")]
    return [name for name in dict.fromkeys(names) if name]
