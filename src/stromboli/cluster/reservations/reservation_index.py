"""What Reservations hold on nodes, and the Reservations that wait for a node.

Nothing is remembered but objects and decisions that the API server has not shown yet (`Ledger.assumed`). What a
Reservation holds is derived:

    remainder = what it was given, minus the requests of the pods on its node that it lists, in the resources it has;
                at most what the node has left beside its pods, older Reservations first

So a scheduler that has just started finds the same, a bind that failed gives everything back, and a node that shrank
never has more held and used than it offers. What a terminating pod of a Reservation leaves goes back to it: until then
it is promised to the Reservation, and not to anybody else.

It is derived again at each snapshot, for Reservations that changed and for nodes on which something changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stromboli.api import ObjectReference, Reservation
from stromboli.api.quantity import QuantityError, amounts
from stromboli.api.reservations import (
    AVAILABLE,
    PENDING,
    expires_at,
    is_over,
    namespace_of,
    preemptor_class,
    queue_of,
    reservation_id,
    reserved_amounts,
)
from stromboli.api.waiting_reservations import waiting_pod_of
from stromboli.cluster.holdings import Holding
from stromboli.cluster.ledger import Ledger
from stromboli.cluster.model import Job, Node, QueueName, Shape, Status, Task, TaskKey
from stromboli.cluster.object_fields import creation_time
from stromboli.cluster.queue_index import QueueIndex
from stromboli.cluster.resources import Vector
from stromboli.cluster.shapes import ShapeRegistry

from .listed_users import FormerUsers, ListedUsers
from .stand_in import stand_in, stand_in_pod

_FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED})


class _Facts(NamedTuple):
    """What is read from an object once, when it comes."""

    queue: QueueName
    namespace: str
    id: str
    has_ports: bool
    created: float


class ReservationIndex:
    def __init__(
        self,
        shapes: ShapeRegistry,
        ledger: Ledger,
        nodes: Mapping[str, Node],
        tasks: Mapping[TaskKey, Task],
        queues: QueueIndex,
        *,
        listed: ListedUsers,
        scheduler_name: str | None,
    ) -> None:
        """`scheduler_name`: whose Reservations to place; None means all of them."""
        self.jobs: dict[str, Job] = {}  # by Reservation: the stand-ins of those that wait for a node
        self._objects: dict[str, Reservation] = {}
        self._facts: dict[str, _Facts] = {}
        self._shapes = shapes
        self._ledger = ledger
        self._nodes = nodes
        self._tasks = tasks
        self._queues = queues
        self._listed = listed
        self._scheduler_name = scheduler_name
        self._changed: set[str] = set()
        self._on: dict[str, set[str]] = {}  # by node: the Reservations there
        self._node_of: dict[str, str] = {}
        self._migrations: set[str] = set()  # of those on nodes
        self._expired: set[str] = set()  # those on nodes whose time was over in the last session
        self._shape_of: dict[str, Shape] = {}
        self._vectors: dict[tuple[tuple[str, Any], ...], Vector] = {}  # by amounts as they are written

    # -- in -----------------------------------------------------------------------------------------------------

    def apply(self, obj: Reservation) -> None:
        name = obj.metadata.name
        known = self._objects.get(name)
        if waiting_pod_of(obj) is not None or (known is not None and known.metadata.uid != obj.metadata.uid):
            self.delete(name)
        if waiting_pod_of(obj) is not None:
            return
        self._objects[name] = obj
        self._facts[name] = _facts_of(obj)
        self._note_users(self._listed.apply(obj))
        # It holds some, whether or not its node still offers any.
        held = obj.status.allocatable if obj.status.phase == AVAILABLE else ()
        self._ledger.axis.use("Reservation", name, held)
        assumed = self._ledger.assumed.get(name)
        if assumed is not None and (is_over(obj) or _state(obj) == assumed):
            del self._ledger.assumed[name]
        self._changed.add(name)

    def delete(self, name: str) -> None:
        if self._objects.pop(name, None) is not None:
            del self._facts[name]
            self._ledger.axis.use("Reservation", name, ())
            self._note_users(self._listed.delete(name))
            self._ledger.assumed.pop(name, None)
            self._shape_of.pop(name, None)
            self._changed.add(name)

    def _note_users(self, listed: Iterable[ObjectReference]) -> None:
        for user in listed:
            task = self._tasks.get(TaskKey(f"{user.namespace}/{user.name}"))
            # What we have decided about a task that is being bound is not to be seen in its pod yet.
            if task is not None and task.uid == user.uid and task.true_status is not Status.BINDING:
                self._ledger.set_use(task, self._listed.used_by(task.pod))

    def lists_users(self) -> bool:
        return bool(self._listed.lists)

    def former_users(self) -> list[FormerUsers]:
        """Pods that are listed and have ended, are gone, or got another place: at the end of a session."""
        found: list[FormerUsers] = []
        for name, listed in self._listed.users.items():
            users = self._ledger.users.get(self._facts[name].id, {})
            others = [
                owner for key, owner in listed
                if (task := users.get(key)) is None or task.uid != owner.uid or task.true_status in _FINISHED
            ]  # fmt: skip
            obj = self._objects[name]
            node = obj.status.node_name
            if others and self._node_of.get(name) == node and node in self._nodes:
                seen = [owner for owner in others if self._is_known(owner)]
                found.append(FormerUsers(obj, tuple(seen), tuple(owner for owner in others if owner not in seen)))
        return sorted(found, key=lambda one: one.reservation.metadata.name)

    def _is_known(self, user: ObjectReference) -> bool:
        task = self._tasks.get(TaskKey(f"{user.namespace}/{user.name}"))
        return task is not None and task.uid == user.uid

    def write_failed(self, name: str) -> None:
        """What was decided about a Reservation could not be written: it is as its object says."""
        if self._ledger.assumed.pop(name, None) is not None:
            self._changed.add(name)

    # -- at a snapshot ------------------------------------------------------------------------------------------

    def refresh(self, *, everywhere: bool) -> None:
        """Derive everything that may have changed since the last time; all tasks are in their true state.
        `everywhere`: rows have changed, so the ledger's log does not say where."""
        if not self._objects and not self._changed:
            return
        nodes = {self._node_of[name] for name in self._migrations}
        for name in sorted(self._changed | self._ledger.assumed.keys()):
            if name in self._node_of:
                nodes.add(self._node_of[name])
            self._place(name)
            if name in self._node_of:
                nodes.add(self._node_of[name])
        self._changed.clear()
        for name in sorted(self.jobs):
            self._refresh_stand_in(name)
        table = self._ledger.table
        if everywhere:
            nodes.update(self._on)
        elif self._on:
            nodes.update(name for row in set(self._ledger.log) if (name := table.nodes[row].name) in self._on)
        several = [node for node in nodes if not self._is_simple(node)]
        for node in sorted(several):
            self._hold_on(node)
        if len(several) < len(nodes):
            self._hold_alone(sorted(nodes.difference(several)))

    def _is_simple(self, node_name: str) -> bool:
        """Whether a node has one Reservation, which nobody has used: then it holds what the node has left."""
        names, node = self._on.get(node_name, ()), self._nodes.get(node_name)
        if len(names) != 1 or node is None or node.row < 0:
            return False
        (name,) = names
        return name not in self._expired and self._facts[name].id not in self._ledger.users

    def _hold_alone(self, node_names: list[str]) -> None:
        """`_hold_on` for nodes with one unused Reservation each, all at once: there may be thousands."""
        found = [(self._objects[name], self._nodes[node]) for node in node_names for name in self._on[node]]
        given = [self._given(obj) for obj, _ in found]
        unreadable = [obj.metadata.name for (obj, _), amount in zip(found, given, strict=True) if amount is None]
        changes: dict[str, Holding | None] = dict.fromkeys(unreadable)
        found = [one for one, amount in zip(found, given, strict=True) if amount is not None]
        if found:
            rows, table, known = [node.row for _, node in found], self._ledger.table, self._ledger.holdings
            left = np.maximum(table.allocatable[rows] - table.used[rows] + table.held[rows], 0)
            left = np.minimum(left, [amount for amount in given if amount is not None])
            for (obj, node), remainder in zip(found, left, strict=True):
                name = obj.metadata.name
                holding, before = self._unused(obj, node, remainder), known.get(name)
                if before is None or not _is_same(holding, before):
                    changes[name] = holding
        self._ledger.set_holdings(changes)

    def expire(self, now: float) -> float | None:
        """From now on those whose time is over hold nothing, even if the controllers are late: others on their nodes
        may have used what they left, and must not lose theirs for it. Returns when the next one's time is over."""
        ends = {name: expires_at(self._objects[name]) for name in self._node_of}
        expired = {name for name, end in ends.items() if end is not None and now >= end}
        changed = expired ^ self._expired
        self._expired = expired
        for node in sorted({self._node_of[name] for name in changed if name in self._node_of}):
            self._hold_on(node)
        return min((end for end in ends.values() if end is not None and now < end), default=None)

    def _place(self, name: str) -> None:
        """Note where a Reservation is, or that it waits for a node."""
        obj = self._objects.get(name)
        phase, node = self._state_of(obj)
        before = self._node_of.get(name)
        if before is not None and (phase != AVAILABLE or node != before):
            del self._node_of[name]
            self._migrations.discard(name)
            self._on[before].discard(name)
            if not self._on[before]:
                del self._on[before]
        held = self._ledger.holdings.get(name)
        if held is not None and (phase != AVAILABLE or held.node.name != node):
            self._ledger.set_holding(name, None)  # perhaps of the last session: then it was on no node before
        if phase == AVAILABLE and obj is not None:
            self._node_of[name] = node
            self._on.setdefault(node, set()).add(name)
            if obj.spec.replaces is not None:
                self._migrations.add(name)
        if phase != PENDING or name in self.jobs:
            self._drop_stand_in(name)
        if phase == PENDING and obj is not None and self._is_ours(obj):
            self._add_stand_in(obj, node)

    def _state_of(self, obj: Reservation | None) -> tuple[str, str]:
        if obj is None or is_over(obj) or obj.metadata.deletion_timestamp is not None:
            return "", ""
        return self._ledger.assumed.get(obj.metadata.name) or _state(obj)

    def _is_ours(self, obj: Reservation) -> bool:
        template = obj.spec.template
        if template is None:
            return False
        return self._scheduler_name is None or template.spec.scheduler_name in ("", self._scheduler_name)

    # -- what they hold -----------------------------------------------------------------------------------------

    def hold_on(self, node_names: Iterable[str]) -> None:
        """Derive again what is held on these nodes: their tasks have changed since the snapshot."""
        for node_name in sorted(self._on.keys() & set(node_names)):
            self._hold_on(node_name)

    def _hold_on(self, node_name: str) -> None:
        names = self._on.get(node_name, set())
        node = self._nodes.get(node_name)
        if node is None or node.row < 0:
            for name in names:
                self._ledger.set_holding(name, None)
            return
        table = self._ledger.table
        left = table.allocatable[node.row] - (table.used[node.row] - table.held[node.row])
        oldest_first = list(names)
        if len(names) > 1:
            oldest_first.sort(key=lambda name: (self._facts[name].created, name))
        for name in oldest_first:
            holding = self._holding(self._objects[name], node, np.maximum(left, 0))
            before = self._ledger.holdings.get(name)
            if holding is None or before is None or not _is_same(holding, before):
                self._ledger.set_holding(name, holding)
            if holding is not None:
                left = left - holding.remainder

    def _holding(self, obj: Reservation, node: Node, left: Vector) -> Holding | None:
        given = self._given(obj)
        if given is None or obj.metadata.name in self._expired:
            return None
        users = self._ledger.users.get(self._facts[obj.metadata.name].id)
        if not users:
            return self._unused(obj, node, np.minimum(given, left))
        here = [task for task in users.values() if task.true_node is node and task.true_status not in _FINISHED]
        if here and obj.spec.allocate_once:
            return None
        leaving = [task for task in here if task.true_status is Status.RELEASING]
        zeros = self._ledger.axis.zeros()
        used = np.minimum(sum((task.request for task in here), start=zeros), given)
        staying = sum((task.request for task in here if task not in leaving), start=zeros)
        returning = used - np.minimum(staying, given) if leaving else None
        holding = self._unused(obj, node, np.minimum(given - used, left))
        holding.returning = returning
        return holding

    def _unused(self, obj: Reservation, node: Node, remainder: Vector) -> Holding:
        facts = self._facts[obj.metadata.name]
        free = obj.spec.replaces is not None and self._costs_nobody(obj)
        queue = None if free else self._queues.queue(facts.queue)
        # Nothing of the template matters while it is on a node, except ports.
        shape = self._shape(obj) if facts.has_ports else None
        return Holding(node, remainder, queue, facts.namespace, None, shape, facts.id)

    def _given(self, obj: Reservation) -> Vector | None:
        """What it was given on its node; None if the amounts cannot be read."""
        written = tuple(obj.status.allocatable.items()) if obj.status.phase == AVAILABLE else ()
        known = self._vectors.get(written)
        if known is not None:
            return known
        try:
            given = amounts(obj.status.allocatable) if written else reserved_amounts(obj)
        except QuantityError:
            return None
        vector = self._ledger.axis.vector(given)
        if written:
            self._vectors[written] = vector
        return vector

    def _costs_nobody(self, obj: Reservation) -> bool:
        """The pod that a migration replaces is still counted, until it is evicted."""
        replaced = obj.spec.replaces
        if replaced is None:
            return False
        task = self._tasks.get(TaskKey(f"{replaced.namespace}/{replaced.name}"))
        return task is not None and task.uid == replaced.uid and task.true_status not in (*_FINISHED, Status.RELEASING)

    def free_of_charge(self) -> Vector:
        """What is held for pods that are moved, and still counted elsewhere."""
        held = (self._ledger.holdings.get(name) for name in self._migrations)
        free = (holding.remainder for holding in held if holding is not None and holding.queue is None)
        return sum(free, start=self._ledger.axis.zeros())

    def _shape(self, obj: Reservation) -> Shape:
        name = obj.metadata.name
        shape = self._shape_of.get(name)
        if shape is None:
            shape = self._shape_of[name] = self._shapes.of(stand_in_pod(obj))
        return shape

    # -- those that wait ----------------------------------------------------------------------------------------

    def _add_stand_in(self, obj: Reservation, nominated: str) -> None:
        """`nominated`: the node from which pods are evicted for it, or ""."""
        queue = self._queues.queue(self._facts[obj.metadata.name].queue)
        shape = self._shape(obj)
        job = stand_in(obj, stand_in_pod(obj), shape, queue, self._ledger.axis.zeros(), nominated)
        self.jobs[obj.metadata.name] = job
        for task in job.tasks.values():
            self._ledger.enter(task)
            if nominated:
                self._ledger.nominated[task.key] = task

    def _drop_stand_in(self, name: str) -> None:
        job = self.jobs.pop(name, None)
        if job is not None:
            for task in job.tasks.values():
                self._ledger.leave(task)
                self._ledger.tentative.pop(task.key, None)
                self._ledger.nominated.pop(task.key, None)
            self._ledger.forget(job)
            if name not in self._objects:
                self._queues.check_class_of_reservation(name, None)

    def _refresh_stand_in(self, name: str) -> None:
        """Queues and PriorityClasses may have come or gone."""
        job, obj = self.jobs[name], self._objects[name]
        if job.queue is not self._queues.queues.get(self._facts[name].queue):
            self._drop_stand_in(name)
            self._add_stand_in(obj, self._state_of(obj)[1])
            job = self.jobs[name]
        job.priority = self.priority_of(obj)
        for task in job.tasks.values():
            task.may_preempt = self._may_preempt(obj)
        self._queues.check_class_of_reservation(name, preemptor_class(obj))
        self._ledger.forget(job)

    def priority_of(self, obj: Reservation) -> int:
        """That of its template. A pod that is moved has the number already; nobody else writes it for a class."""
        spec = obj.spec.template.spec if obj.spec.template is not None else None
        if spec is None:
            return 0
        named = spec.priority_class_name and obj.spec.replaces is None
        return self._queues.priority_of(spec.priority_class_name) if named or spec.priority is None else spec.priority

    def _may_preempt(self, obj: Reservation) -> bool:
        named, template = preemptor_class(obj), obj.spec.template
        if named is None or template is None:
            return False
        policy = template.spec.preemption_policy or self._queues.preemption_policy_of(named)
        return policy is not None and policy != "Never"

    def least_priority_of(self, obj: Reservation) -> int | None:
        """Of pods that may use it: it may have preempted others with the class that its template names. None if it
        names none; successors of pods that are moved have the same class."""
        named = preemptor_class(obj)
        return None if named is None else self._queues.priority_of(named)

    def columns_changed(self, stale: frozenset[int]) -> None:
        """Read again what names resources that became columns, or ceased to be."""
        self._vectors.clear()
        changed = [name for name, shape in self._shape_of.items() if shape.id in stale]
        for name in changed:
            del self._shape_of[name]
        self._changed.update(changed, self._node_of)

    def widen(self) -> None:
        """Pad all vectors to the width of the axis."""
        self._vectors.clear()
        for job in self.jobs.values():
            job.allocated = self._ledger.axis.pad(job.allocated)


def _facts_of(obj: Reservation) -> _Facts:
    template = obj.spec.template
    containers = [] if template is None else [*template.spec.containers, *template.spec.init_containers]
    return _Facts(
        queue=QueueName(queue_of(obj)),
        namespace=namespace_of(obj),
        id=reservation_id(obj),
        has_ports=any(container.ports for container in containers),
        created=creation_time(obj),
    )


def _state(obj: Reservation) -> tuple[str, str]:
    """Its phase, and the node where it is, or from which pods are evicted for it."""
    phase = obj.status.phase or PENDING
    return (phase, obj.status.node_name) if phase in (AVAILABLE, PENDING) else (phase, "")


def _is_same(one: Holding, other: Holding) -> bool:
    if one.node is not other.node or one.queue is not other.queue or one.namespace != other.namespace:
        return False
    if (one.returning is None) != (other.returning is None):
        return False
    same_returning = one.returning is None or bool((one.returning == other.returning).all())
    return same_returning and bool((one.remainder == other.remainder).all())
