"""Which node is best, by resource: nodes are filled up with some resources, and others are spread.

The score of a node is the weighted mean over the resources that the pod requests and a strategy is given for, times 100
and `resourceStrategyFitWeight`: with MostAllocated how full the node would be with the pod on it, with LeastAllocated
how empty. A node that would be too full of one of them gets nothing.

    resourceStrategyFitWeight: 10                                    0 turns these scores off
    resources:                                                       CPU and memory, LeastAllocated, by default
      nvidia.com/gpu: {type: MostAllocated, weight: 2}
      example.com/*: {type: MostAllocated}                           all whose names begin like this
    sra: {enable: true, resources: nvidia.com/gpu, weight: 10, resourceWeight: {nvidia.com/gpu: 1}}
    proportional: {enable: true, resources: nvidia.com/gpu, resourceProportion: {nvidia.com/gpu.cpu: 8}}

For a name that several patterns match, the longest one counts. `scarce_resources` has `sra` and `proportional`.

A pod can bring its own strategy, in two annotations: `volcano.sh/resource-strategy-scoring-type` is MostAllocated or
LeastAllocated, and `volcano.sh/resource-strategy-weight` has the weights of resources as a map in JSON. It changes only
where that pod goes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from stromboli.api import names
from stromboli.cluster import PODS, Task
from stromboli.scheduling.callbacks import DependsOn, NodeScore, Rows, Scope, Scores
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

from .scarce_resources import Proportions, ScarceResources

_MOST: Final = "MostAllocated"
_LEAST: Final = "LeastAllocated"
_TYPES: Final = (_MOST, _LEAST)
_DEFAULT_WEIGHT: Final = 10.0
_LARGEST: Final = 1_000_000  # larger weights of a pod would only be rounded


class Strategy(NamedTuple):
    fills: bool
    weight: float


_DEFAULT: Final = {"cpu": Strategy(fills=False, weight=1), "memory": Strategy(fills=False, weight=1)}


class ResourceStrategyFit(Plugin):
    name = "resource-strategy-fit"

    def __init__(self, arguments: Arguments) -> None:
        weight = arguments.number("resourceStrategyFitWeight", _DEFAULT_WEIGHT)
        self._weight = weight if weight >= 0 else _DEFAULT_WEIGHT  # as Volcano does, so that its files remain valid
        self._strategies = _read_strategies(arguments.section("resources"))
        self._scarce = ScarceResources.read(arguments.section("sra"))
        self._proportions = Proportions.read(arguments.section("proportional"))

    def open(self, session: Session) -> None:
        self._session = session
        if self._weight:
            if any(_own_strategy(task) for job in session.waiting for task in job.tasks.values()):
                session.add_score(self._by_pod, depends_on=_own_strategy, scope=Scope.NODE)
            else:
                session.add_score(self._by_resource, depends_on=DependsOn.SHAPE, scope=Scope.NODE)
        self._scarce.open(session)
        self._proportions.open(session)

    def _by_pod(self, task: Task) -> NodeScore | None:
        own = _own_strategy(task)
        return self._by_resource(task) if own is None else self._score(task, _strategies_of(*own))

    def _by_resource(self, task: Task) -> NodeScore | None:
        requested = [name for name, column in self._session.axis.by_name() if task.request[column] > 0]
        found = {name: strategy for name in requested if (strategy := _find(self._strategies, name)) is not None}
        return self._score(task, found)

    def _score(self, task: Task, strategies: Mapping[str, Strategy]) -> NodeScore | None:
        index, nodes = self._session.axis.index, self._session.nodes
        requested = {name: index[name] for name in strategies if name in index and task.request[index[name]] > 0}
        counted = {column: strategies[name] for name, column in requested.items() if column != PODS}
        total = sum(strategy.weight for strategy in counted.values())
        if not total:
            return None
        parts = [
            (column, int(task.request[column]), one.fills, 100.0 * self._weight * one.weight / total)
            for column, one in counted.items()
        ]

        def score(rows: Rows) -> Scores:
            scores, fits = np.zeros(len(rows)), np.ones(len(rows), dtype=np.bool_)
            for column, request, fills, weight in parts:
                offered, after = nodes.allocatable[rows, column], nodes.used[rows, column] + request
                there = offered > 0
                full = np.divide(after, offered, out=np.zeros(len(rows)), where=there)
                fits &= full <= 1.0
                scores += np.where(there, weight * (full if fills else 1.0 - full), 0.0)
            return np.where(fits, scores, 0.0)

        return score


def _read_strategies(arguments: Arguments) -> dict[str, Strategy]:
    found: dict[str, Strategy] = {}
    for name in arguments:
        if "*" in name and (name == "*" or name.index("*") != len(name) - 1):
            raise arguments.error(name, 'must be named by a resource, or by its first letters and one "*" at the end')
        given = arguments.section(name)
        weight = given.number("weight", 1)
        fills = given.text("type", _LEAST, choices=_TYPES) == _MOST
        found[name] = Strategy(fills, weight if weight > 0 else 1.0)  # as Volcano does
    return found or dict(_DEFAULT)


def _find(strategies: Mapping[str, Strategy], resource: str) -> Strategy | None:
    exact = strategies.get(resource)
    if exact is not None:
        return exact
    patterns = [name for name in strategies if name.endswith("*") and resource.startswith(name[:-1])]
    return strategies[max(patterns, key=len)] if patterns else None


def _own_strategy(task: Task) -> tuple[str, str] | None:
    annotations = task.pod.metadata.annotations
    kind = annotations.get(names.RESOURCE_STRATEGY)
    return (kind, annotations.get(names.RESOURCE_STRATEGY_WEIGHT, "")) if kind else None


def _strategies_of(kind: str, weights: str) -> Mapping[str, Strategy]:
    """What a pod's annotations say; nothing if they cannot be read: they must not keep the pod from starting."""
    try:
        stated: Any = json.loads(weights)
    except (ValueError, RecursionError):
        return {}
    if kind not in _TYPES or not isinstance(stated, dict):
        return {}
    return {
        name: Strategy(kind == _MOST, float(weight))
        for name, weight in stated.items()
        if isinstance(weight, int) and not isinstance(weight, bool) and 0 < weight <= _LARGEST
    }
