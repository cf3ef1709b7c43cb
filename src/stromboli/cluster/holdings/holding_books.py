"""What Reservations hold on nodes, as a part of the ledger.

A holding counts as used on its node, and in the allocation of its queue. A session takes from it tentatively with
`draw`; `settle_draw` makes that permanent, and `restore_holdings` undoes the rest. What a holding should be is derived
elsewhere (see `reservations`); here it is only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stromboli.cluster.model import Lock, Node, Queue, Shape, Task, TaskKey
from stromboli.cluster.node_table import NodeTable
from stromboli.cluster.resources import PODS, ResourceAxis, Vector


@dataclass(slots=True)
class Holding:
    """The unused part of a Reservation on a node, and the queue it counts for (None: no queue). `returning`: what it
    gets back from terminating pods, so that nobody else is promised it. `shape`: of its template, for host ports.
    `id`: its name and UID (`reservation_id`)."""

    node: Node
    remainder: Vector
    queue: Queue | None
    namespace: str = ""
    returning: Vector | None = None
    shape: Shape | None = None
    id: str = ""

    @property
    def charged(self) -> Vector:
        """What counts in the allocation of its queue: also what it gets back, which a terminating pod's queue has
        not."""
        return self.remainder if self.returning is None else self.remainder + self.returning


class HoldingBooks:
    """The half of the ledger that knows no statuses of tasks."""

    def __init__(self, axis: ResourceAxis) -> None:
        self.axis = axis
        self.table = NodeTable(axis)
        self.holdings: dict[str, Holding] = {}  # by the name of the Reservation
        self.held_epoch = 0  # grows whenever they change
        self.holdings_on: dict[str, dict[str, Holding]] = {}  # the same, by the name of the node
        # What a session has tentatively taken from holdings, by Reservation.
        self.drawn: dict[str, Vector] = {}
        # By Reservation: the phase and the node that a session gave it and that its object does not show yet.
        self.assumed: dict[str, tuple[str, str]] = {}
        # The Reservation that is tried for a pod at this moment: its host ports are open to that pod.
        self.tried = ""
        # The tasks that use each Reservation, by its name and UID; on any node.
        self.users: dict[str, dict[TaskKey, Task]] = {}
        # Changed rows in the order of the changes: caches over the columns remember how far they have read.
        self.log: list[int] = []
        # Queues whose allocation changed, in the order of the changes; read like the log of rows.
        self.queue_log: list[Queue] = []
        # Grows whenever resources may have become free: a failed search need not be repeated before that.
        self.freed = 0
        # The number of releasing and pipelined tasks. If it is 0, future idle equals idle everywhere.
        self.in_transit = 0

    def set_use(self, task: Task, reservation: str) -> None:
        """Record which Reservation a task uses, by its name and UID ("": none)."""
        if task.uses == reservation:
            return
        if task.uses:
            users = self.users[task.uses]
            del users[task.key]
            if not users:
                del self.users[task.uses]
        task.uses = reservation
        if reservation:
            self.users.setdefault(reservation, {})[task.key] = task
        if task.node is not None:
            self.log.append(task.node.row)

    def _occupy(self, lock: Lock, queue: Queue | None, amount: Vector) -> None:
        """A task takes this much of a locked node (or gives it back, if negative). What is left counts as its owner's.
        `queue`: whose the task is, if anybody's."""
        lock.taken += amount
        if queue is not None and queue.name in lock.opens_to:
            has = lock.by_queue.get(queue.name)
            if has is None:
                has = lock.by_queue[queue.name] = self.axis.zeros()
            has += amount
        unused = np.maximum(lock.offers - lock.taken, 0)
        unused[PODS] = 0
        change = unused - lock.unused
        lock.unused = unused
        lock.owner.unused += change
        self._charge_queue(lock.owner, change)

    def _occupy_by_holding(self, holding: Holding, sign: int) -> None:
        """What a Reservation of another queue gets back from a terminating pod is taken by that pod."""
        lock = holding.node.lock
        if lock is not None:
            is_own = holding.queue is not None and holding.queue.name in lock.opens_to
            self._occupy(lock, holding.queue, sign * (holding.charged if is_own else holding.remainder))

    def _charge_queue(self, queue: Queue, amount: Vector) -> None:
        queue.allocated += amount
        self.queue_log.append(queue)

    # -- holdings -----------------------------------------------------------------------------------------------

    def set_holding(self, name: str, holding: Holding | None) -> Holding | None:
        """Set what a Reservation holds, permanently (None: nothing); returns what it held before."""
        self.drawn.pop(name, None)
        return self._replace_holding(name, holding)

    def set_holdings(self, changes: Mapping[str, Holding | None]) -> None:
        """`set_holding` for several Reservations, each on a node where it is the only one."""
        plain: list[tuple[Holding, Holding | None]] = []
        for name, holding in changes.items():
            before = self.holdings.get(name)
            if holding is None or holding.returning is not None or holding.node.lock is not None:
                self.set_holding(name, holding)
                continue
            if before is not None and (before.returning is not None or before.node is not holding.node):
                self.set_holding(name, holding)
                continue
            self.drawn.pop(name, None)
            self.holdings[name] = holding
            self.holdings_on.setdefault(holding.node.name, {})[name] = holding
            plain.append((holding, before))
        if plain:
            self._add_holdings(plain)

    def _add_holdings(self, pairs: Sequence[tuple[Holding, Holding | None]]) -> None:
        """Count holdings instead of those before, all on different nodes."""
        rows = [holding.node.row for holding, _ in pairs]
        amounts = np.stack([new.remainder if old is None else new.remainder - old.remainder for new, old in pairs])
        table = self.table
        table.idle[rows] -= amounts
        table.used[rows] += amounts
        table.held[rows] += amounts
        self.log.extend(rows)
        self.freed += 1
        self.held_epoch += 1
        counted: dict[tuple[int, str], tuple[Queue, list[Vector]]] = {}  # most are of few queues
        for new, old in pairs:
            for holding, amount in ((new, new.remainder), (old, None if old is None else -old.remainder)):
                if holding is not None and holding.queue is not None and amount is not None:
                    key = (id(holding.queue), holding.namespace)
                    counted.setdefault(key, (holding.queue, []))[1].append(amount)
        for (_, namespace), (queue, changes) in counted.items():
            change = np.sum(changes, axis=0)
            self._charge_queue(queue, change)
            if namespace:
                inside = queue.by_namespace.get(namespace)
                if inside is None:
                    inside = queue.by_namespace[namespace] = self.axis.zeros()
                inside += change

    def draw(self, name: str, amount: Vector) -> None:
        """Take an amount from a holding tentatively, or put it back with a negative amount."""
        held = self.holdings.get(name)
        if held is None:
            return  # the Reservation was given up meanwhile, with all that it held
        node, queue, namespace = held.node, held.queue, held.namespace
        drawn = Holding(
            node, held.remainder - amount, queue, namespace, held.returning, held.shape, held.id
        )  # fmt: skip
        self.held_epoch += 1
        self.holdings[name] = self.holdings_on[node.name][name] = drawn
        table, row = self.table, node.row
        table.idle[row] += amount
        table.used[row] -= amount
        table.held[row] -= amount
        self.log.append(row)
        self.freed += 1
        if queue is not None:
            self._charge_queue(queue, -amount)
            if namespace:
                queue.by_namespace[namespace] -= amount
        if node.lock is not None:
            self._occupy(node.lock, queue, -amount)
        self._add_drawn(name, amount)

    def draw_many(self, amounts: Mapping[str, Vector]) -> None:
        """`draw` from several holdings of one queue and namespace, none of them on the same node as another."""
        holdings, drawn = self.holdings, self.drawn
        before = [holdings[name] for name in amounts]
        matrix = np.array(list(amounts.values()))
        left = np.array([held.remainder for held in before]) - matrix
        for name, amount, held, remainder in zip(amounts, amounts.values(), before, left, strict=True):
            node = held.node
            holdings[name] = self.holdings_on[node.name][name] = Holding(
                node, remainder, held.queue, held.namespace, held.returning, held.shape, held.id
            )  # fmt: skip
            if name in drawn:
                self._add_drawn(name, amount)
            else:
                drawn[name] = amount
            if node.lock is not None:
                self._occupy(node.lock, held.queue, -amount)
        first, table = before[0], self.table
        self.log.extend([held.node.row for held in before])
        rows = np.array(self.log[-len(before) :])
        table.idle[rows] += matrix
        table.used[rows] -= matrix
        table.held[rows] -= matrix
        self.held_epoch += 1
        self.freed += 1
        if first.queue is not None:
            total = matrix.sum(axis=0)
            self._charge_queue(first.queue, -total)
            if first.namespace:
                first.queue.by_namespace[first.namespace] -= total

    def settle_draw(self, name: str, amount: Vector) -> None:
        """Make a draw permanent."""
        if self.drawn.get(name) is amount:
            del self.drawn[name]  # all that was drawn
        elif name in self.holdings:
            self._add_drawn(name, -amount)

    def _add_drawn(self, name: str, amount: Vector) -> None:
        known = self.drawn.pop(name, None)
        drawn = amount if known is None else known + amount
        if drawn.any():
            self.drawn[name] = drawn

    def _replace_holding(self, name: str, holding: Holding | None) -> Holding | None:
        self.held_epoch += 1
        before = self.holdings.pop(name, None)
        if before is not None:
            self._add_holding(before, -1)
            self.holdings_on[before.node.name].pop(name)
        if holding is not None:
            self.holdings[name] = holding
            self.holdings_on.setdefault(holding.node.name, {})[name] = holding
            self._add_holding(holding, +1)
        return before

    def _add_holding(self, holding: Holding, sign: int) -> None:
        row = holding.node.row
        table = self.table
        amount = sign * holding.remainder
        table.idle[row] -= amount
        table.used[row] += amount
        table.held[row] += amount
        if holding.returning is not None:
            table.pipelined[row] += sign * holding.returning
            self.in_transit += sign
        self.log.append(row)
        self.freed += 1
        if holding.queue is not None:
            queue, charged = holding.queue, sign * holding.charged
            self._charge_queue(queue, charged)
            if holding.namespace:
                inside = queue.by_namespace.setdefault(holding.namespace, self.axis.zeros())
                inside += charged
        self._occupy_by_holding(holding, sign)

    def restore_holdings(self) -> None:
        """Put back what was taken tentatively."""
        for name in sorted(self.drawn):
            self.draw(name, -self.drawn[name])
        self.drawn.clear()

    def widen_holdings(self) -> None:
        """Pad everything to the width of the axis."""
        for holding in self.holdings.values():
            holding.remainder = self.axis.pad(holding.remainder)
            if holding.returning is not None:
                holding.returning = self.axis.pad(holding.returning)
        self.drawn = {name: self.axis.pad(amount) for name, amount in self.drawn.items()}
