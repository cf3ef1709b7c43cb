"""Which nodes have real load, as measurements show: busy nodes take no more pods, and idle ones are better.

    usage.weight: 5                     times 0..100, by how much of the node is not in use; 0 turns the score off
    cpu.weight: 1                       the weights of CPU and memory in that mean
    memory.weight: 1
    thresholds: {cpu: 80, mem: 80}      percent of a node in use from which it takes no more pods
    estimator: {request_ratio: 0.7, …}  what pods will use that are not measured yet: `load_estimates`

The thresholds are about measurements alone. For the score, pods that are not measured yet count by estimates, and where
the load would then be `risk_threshold` or more, these count `risk_factor` times. A node whose last measurement is too
old, or that has none, is closed to nobody and gets no points.

Measurements are facts that a world provides (`NodeTable.use`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stromboli.api.quantity import QuantityError, amount
from stromboli.cluster import Node, NodeUse, Task
from stromboli.scheduling.callbacks import DependsOn, NodeFilter, NodeScore, ReasonIds, Rows, Scope, Scores
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.explanation.node_reasons import too_much_load
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

from .load_estimates import EstimateRules, Estimates

_RESOURCES: Final = ("cpu", "memory")


class Usage(Plugin):
    name = "usage"

    def __init__(self, arguments: Arguments) -> None:
        def weight(key: str, default: float) -> float:
            stated = arguments.number(key, default)
            return stated if stated >= 0 else default  # as Volcano does, so that its files remain valid

        self._weight = weight("usage.weight", 5)
        self._weights = (weight("cpu.weight", 1), weight("memory.weight", 1))
        limits = arguments.section("thresholds")
        self._thresholds = tuple(limits.number(key, 80, minimum=0, maximum=100) for key in ("cpu", "mem"))
        self._rules = EstimateRules.read(arguments.section("estimator"))

    def open(self, session: Session) -> None:
        known = session.nodes.use
        measured = {
            node.row: use
            for node in session.nodes.nodes
            if (use := known.get(node.name)) is not None and (use.until is None or session.now <= use.until)
        }
        if not measured:
            return
        for use in measured.values():
            if use.until is not None:
                session.due(use.until)
        offered = np.array([_capacity(node) for node in session.nodes.nodes], dtype=np.float64).T
        used = np.zeros(offered.shape)
        for row, use in measured.items():
            used[:, row] = [use.amounts.get(resource, 0) for resource in _RESOURCES]
        load = np.divide(used, offered, out=np.zeros(offered.shape), where=offered > 0)
        self._open_filter(session, load)
        if self._weight and sum(self._weights):
            self._open_score(session, measured, load, offered)

    def _open_filter(self, session: Session, load: Scores) -> None:
        reasons: ReasonIds = np.zeros(load.shape[1], dtype=np.int32)
        for resource, part, limit in zip(_RESOURCES, load, self._thresholds, strict=True):
            reasons[(reasons == 0) & (part * 100.0 > limit)] = session.reason_id(too_much_load(resource, limit))

        def prepare(task: Task) -> NodeFilter | None:
            return reasons.__getitem__ if reasons.any() else None

        session.add_filter(prepare, depends_on=DependsOn.SHAPE, scope=Scope.STATIC)

    def _open_score(self, session: Session, measured: dict[int, NodeUse], load: Scores, offered: Scores) -> None:
        estimates, rules = Estimates(session, self._rules, measured), self._rules
        is_measured = np.zeros(len(session.nodes), dtype=np.bool_)
        is_measured[sorted(measured)] = True
        total = sum(self._weights)

        def mean(parts: Scores) -> Scores:
            weighted: Scores = (parts[0] * self._weights[0] + parts[1] * self._weights[1]) / total
            return weighted

        def with_estimates(estimated: Scores, rows: Rows) -> Scores:
            there = offered[:, rows]
            more = np.divide(estimated, there, out=np.zeros(there.shape), where=there > 0)
            return mean(np.minimum(load[:, rows] + more, 1.0))

        def score(rows: Rows) -> Scores:
            usual, risky = (with_estimates(estimated, rows) for estimated in estimates.of(rows))
            busy = np.where(usual >= rules.risk_threshold, risky, usual)
            return np.where(is_measured[rows], (1.0 - busy) * (100.0 * self._weight), 0.0)

        def prepare(task: Task) -> NodeScore:
            return score

        session.add_score(prepare, depends_on=DependsOn.SHAPE, scope=Scope.NODE)


def _capacity(node: Node) -> tuple[int, int]:
    """CPU and memory of the machine; what it offers to pods, if its object does not say more."""
    stated = node.object.status.capacity
    try:
        cpu, memory = (amount(name, stated[name]) if name in stated else 0 for name in _RESOURCES)
    except QuantityError:
        cpu = memory = 0
    return max(cpu, node.allocatable.get("cpu", 0)), max(memory, node.allocatable.get("memory", 0))
