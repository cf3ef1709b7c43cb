"""What pods will use that no measurement shows yet, because they have just been placed or started.

A pod is expected to use a part of its requests, and a part of what its limits allow beyond; one that requests nothing
is expected to use fixed amounts. Where the load is high, more is expected. But never more than the limits of a pod, nor
than its requests if it has none above them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from stromboli.api import Pod
from stromboli.api.quantity import QuantityError, amounts
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import CPU, MEMORY, NodeUse, Status, Task
from stromboli.scheduling.callbacks import Rows
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.session import Session

Floats = npt.NDArray[np.float64]

_PLACED: Final = frozenset({Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.PIPELINED})


@dataclass(frozen=True)
class EstimateRules:
    request_ratio: float
    burst_ratio: float
    risk_threshold: float
    risk_factor: float
    best_effort: tuple[int, int]  # thousandths of a core, bytes

    @classmethod
    def read(cls, arguments: Arguments) -> EstimateRules:
        return cls(
            request_ratio=arguments.number("request_ratio", 0.7, minimum=0, maximum=1),
            burst_ratio=arguments.number("burst_ratio", 0, minimum=0, maximum=1),
            risk_threshold=arguments.number("risk_threshold", 0.6, minimum=0, maximum=1),
            risk_factor=arguments.number("risk_factor", 1.2, minimum=1),
            best_effort=(
                arguments.quantity("be_cpu", "250m", resource="cpu", unit=1),
                arguments.quantity("be_mem", "200Mi", resource="memory", unit=1 << 20),
            ),
        )

    def of(self, task: Task) -> Floats:
        """CPU and memory that the pod is expected to use, and the same where the load is high."""
        if task.best_effort:
            usual = np.array(self.best_effort, dtype=np.float64)
            return np.concatenate([usual, usual * self.risk_factor])
        requests = np.array([task.request[CPU], task.request[MEMORY]], dtype=np.float64)
        most = np.maximum(requests, _limits(task.pod))
        usual = requests * self.request_ratio + (most - requests) * self.burst_ratio
        return np.concatenate([np.minimum(usual, most), np.minimum(usual * self.risk_factor, most)])


def _limits(pod: Pod) -> tuple[int, int]:
    """Of CPU and memory, the sum over the containers; 0 if one of them has none."""
    stated = []
    for container in pod.spec.containers:
        try:
            stated.append(amounts(container.resources.limits))
        except QuantityError:
            return 0, 0
    cpu, memory = ([limits.get(name, 0) for limits in stated] for name in ("cpu", "memory"))
    return (sum(cpu) if all(cpu) else 0), (sum(memory) if all(memory) else 0)


class Estimates:
    """The estimates of pods that are not measured yet, as of now. Nothing is added up until somebody asks."""

    def __init__(self, session: Session, rules: EstimateRules, measured: dict[int, NodeUse]) -> None:
        self._rules = rules
        self._measured = measured  # by row
        self._nodes = session.nodes.nodes
        self._changed = session.ledger.views.rows()
        self._by_shape: dict[int, Floats] = {}
        self._sums: Floats = np.zeros((4, len(self._nodes)))  # as of `EstimateRules.of`, by row

    def of(self, rows: Rows) -> tuple[Floats, Floats]:
        """CPU and memory by row, and the same where the load is high."""
        is_first, changed = self._changed.is_new, self._changed.news()
        for row in self._measured if is_first else sorted(set(changed)):
            if row in self._measured:
                self._add_up(row)
        return self._sums[:2, rows], self._sums[2:, rows]

    def _add_up(self, row: int) -> None:
        use = self._measured[row]
        self._sums[:, row] = 0.0
        for task in self._nodes[row].tasks.values():
            if _is_missing(task, use):
                self._sums[:, row] += self._estimate(task)

    def _estimate(self, task: Task) -> Floats:
        known = self._by_shape.get(task.shape.id)
        if known is None:
            known = self._by_shape[task.shape.id] = self._rules.of(task)
        return known


def _is_missing(task: Task, use: NodeUse) -> bool:
    """Whether the measurement of its node does not show a pod, or only in part."""
    if task.status in _PLACED:
        return True
    started = task.pod.status.start_time
    return task.status is Status.RUNNING and started is not None and parse_timestamp(started) > use.at - use.window
