"""Host ports: two pods on one node cannot use the same one.

A port is used for a protocol and an address. The address 0.0.0.0, or none, stands for all addresses, so it conflicts
with every other one. With `hostNetwork`, all container ports are host ports.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stromboli.api import Pod
from stromboli.cluster import Shape, Task
from stromboli.scheduling.callbacks import NodeFilter, ReasonIds, Rows
from stromboli.scheduling.explanation.node_reasons import PORT_IN_USE
from stromboli.scheduling.session import Session

from .population import is_there

EVERY_ADDRESS = "0.0.0.0"

Port = tuple[int, str, str]
"""Number, protocol, address."""


def host_ports(pod: Pod) -> frozenset[Port]:
    spec = pod.spec
    # Init containers end before the others start, except sidecars.
    sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
    return frozenset(
        (number, port.protocol or "TCP", port.host_ip or EVERY_ADDRESS)
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )


def conflict(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    taken = list(taken)
    return any(
        number == other and protocol == other_protocol
        and (address == other_address or EVERY_ADDRESS in (address, other_address))
        for number, protocol, address in wanted
        for other, other_protocol, other_address in taken
    )  # fmt: skip


class HostPortsFilter:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = session.nodes.nodes
        self._ports: dict[int, frozenset[Port]] = {}  # by shape
        self._taken = session.reason_id(PORT_IN_USE)

    def prepare(self, task: Task) -> NodeFilter | None:
        wanted = self._of(task)
        if not wanted:
            return None

        def judge(rows: Rows) -> ReasonIds:
            answers = np.zeros(len(rows), dtype=np.int32)
            for position, row in enumerate(rows.tolist()):
                for other in self._nodes[row].tasks.values():
                    if other.shape.has_ports and is_there(self._session, other) and conflict(wanted, self._of(other)):
                        answers[position] = self._taken
                        break
                if ledger.holdings and conflict(wanted, self._kept_on(row)):
                    answers[position] = self._taken
            return answers

        ledger = self._session.ledger
        return judge

    def _kept_on(self, row: int) -> list[Port]:
        """The ports that Reservations keep on a node, but for the one that is tried now."""
        ledger = self._session.ledger
        kept = ledger.holdings_on.get(self._nodes[row].name, {})
        shapes = [held.shape for name, held in kept.items() if name != ledger.tried and held.shape is not None]
        return [port for shape in shapes for port in self._of_shape(shape)]

    def _of(self, task: Task) -> frozenset[Port]:
        return self._of_shape(task.shape)

    def _of_shape(self, shape: Shape) -> frozenset[Port]:
        if not shape.has_ports:
            return frozenset()
        ports = self._ports.get(shape.id)
        if ports is None:
            ports = self._ports[shape.id] = host_ports(shape.pod)
        return ports
