"""Plans that failed are not made again until something has changed.

The planner is deterministic: in the same cluster it makes the same plan. A place or an eviction that was refused once
would be refused again, in every interval. So a plan that failed leaves a mark on the nodes that its pods were to leave:
a hash of the plan and of what such a verdict depends on, as it was when the plan failed. A plan with such a mark is not
made. Whatever of it changes, the hash is another one. Not everything is an object that we see (the configuration of the
scheduler is none), so the day is part of it, too: once a day, a plan may be tried again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import msgspec

from stromboli.api import Node, Pod, PodDisruptionBudget, PodGroup, Queue, Reservation, group_name_of, key, names
from stromboli.api.reservations import is_over
from stromboli.cluster.object_fields import is_ready

from .plan_objects import Objects

KEPT: Final = 4  # marks on a node; the oldest goes
_FINISHED: Final = ("Succeeded", "Failed")


class PlannedMove(Protocol):
    @property
    def pod(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def target(self) -> str: ...


def marks_of(node: Node) -> list[str]:
    return [mark for mark in node.metadata.annotations.get(names.FAILED_PLANS, "").split(",") if mark]


def with_mark(node: Node, marks: Sequence[str]) -> str:
    """The annotation of a node with new marks."""
    return ",".join(list(dict.fromkeys([*marks, *marks_of(node)]))[:KEPT])


class Circumstances:
    """The cluster as it is at one moment, as far as moves depend on it."""

    def __init__(self, objects: Objects, now: float) -> None:
        self._objects = objects
        self._day = int(now // 86400)

    def has_failed(self, moves: Iterable[PlannedMove]) -> bool:
        """Whether these moves were planned before, failed, and nothing has changed since."""
        planned = list(moves)
        nodes = [self._objects.get(Node, name) for name in sorted({move.source for move in planned})]
        known = [mark for node in nodes if node is not None for mark in marks_of(node)]
        return bool(known) and self.mark_of(planned) in known

    def mark_of(self, moves: Iterable[PlannedMove], *, plan: str = "") -> str:
        """`plan`: the name of a plan that is being carried out; what it holds itself does not count."""
        planned = sorted(moves, key=lambda move: move.uid)
        nodes = sorted({name for move in planned for name in (move.source, move.target)})
        groups = sorted({group for move in planned if (group := self._group_of(move))})
        namespaces = {move.pod.partition("/")[0] for move in planned}
        seen = {
            "day": self._day,
            "moves": [(move.uid, move.source, move.target) for move in planned],
            "nodes": [self._node(name, plan) for name in nodes],
            "groups": [self._group(name) for name in groups],
            "budgets": [
                (key(budget), budget.spec, budget.status.disruptions_allowed)
                for budget in sorted(self._objects.list(PodDisruptionBudget), key=key)
                if budget.metadata.namespace in namespaces
            ],
        }
        encoded = msgspec.json.encode(seen, order="deterministic")
        return hashlib.sha256(encoded).hexdigest()[:12]

    def _node(self, name: str, plan: str) -> Any:
        node = self._objects.get(Node, name)
        if node is None:
            return None
        holding = [
            (each.metadata.uid, each.status.phase)
            for each in self._reservations.get(name, ())
            if not plan or each.metadata.annotations.get(names.MIGRATION_PLAN) != plan
        ]
        offered = node.status.allocatable or node.status.capacity
        return (
            node.metadata.uid, node.metadata.labels, node.spec, is_ready(node), offered, sorted(holding),
            sorted(_state(pod) for pod in self._pods_on.get(name, ())), self._locks.get(name, []),
        )  # fmt: skip

    def _group_of(self, move: PlannedMove) -> str:
        pod = self._objects.get(Pod, move.pod)
        name = None if pod is None else group_name_of(pod)
        return f"{move.pod.partition('/')[0]}/{name}" if name else ""

    def _group(self, name: str) -> Any:
        group = self._objects.get(PodGroup, name)
        least = None if group is None else (group.spec.min_member, group.spec.min_task_member)
        return name, least, sorted(_state(pod) for pod in self._members.get(name, ()))

    @cached_property
    def _pods_on(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self._objects.list(Pod):
            if pod.spec.node_name and pod.status.phase not in _FINISHED:
                found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    @cached_property
    def _locks(self) -> dict[str, list[str]]:
        """By node: the queues for which it is locked."""
        found: dict[str, list[str]] = {}
        for queue in sorted(self._objects.list(Queue), key=key):
            for node in queue.status.reservation.nodes:
                found.setdefault(node, []).append(queue.metadata.name)
        return found

    @cached_property
    def _members(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self._objects.list(Pod):
            group = group_name_of(pod)
            if group:
                found.setdefault(f"{pod.metadata.namespace}/{group}", []).append(pod)
        return found

    @cached_property
    def _reservations(self) -> dict[str, list[Reservation]]:
        """By node: those that hold something there, or keep it for a job."""
        found: dict[str, list[Reservation]] = {}
        for each in self._objects.list(Reservation):
            node = each.status.node_name or each.spec.node_name
            if node and not is_over(each):
                found.setdefault(node, []).append(each)
        return found


def _state(pod: Pod) -> tuple[str, str, str, bool]:
    return (
        pod.metadata.uid, pod.spec.node_name, pod.status.phase, pod.metadata.deletion_timestamp is not None
    )  # fmt: skip
