"""The tree of queues, and what each queue in it may have.

With a hierarchy, `spec.parent` puts queues below others and finally below `root`, which is the whole cluster. Without
one, every queue is a child of the root, and the same rules hold. Pods are in the leaves. What a queue has is the sum
over itself and all queues below it.

The amounts are computed from the top, for each resource:

    guarantee        what no other queue may use, even while it is idle
    real capability  the parent's real capability minus the guarantees of siblings, and at most the queue's own
                     `capability`, if it states one
    deserved         what the queue can always reclaim, between its guarantee and its real capability

An inner queue that states no guarantee or deserved amount has the sum of its children's. If it states one and its
children together state more, it is divided by weight (see `sharing.division`), and no child gets more than it states.
The root divides nothing: the amounts of queues must not change because the cluster is smaller for an hour.

Queues are edited one at a time, so they may not form a tree. A queue whose parent does not exist, and every queue in a
cycle of parents, is a child of the root. There is no warning: the scheduler keeps no state between cycles, so it would
repeat the warning every second. The deserved amount of each queue is visible.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stromboli.api import names
from stromboli.cluster import PODS, UNLIMITED, Queue, QueueName, Vector
from stromboli.scheduling.queue_books import QueueBooks
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import Claim, divide


class Place:
    """A queue's place in the tree. Amounts are by column, as lists of int, because they are read thousands of times."""

    __slots__ = (
        "children", "deserved", "guarantee", "held", "line", "members", "name", "names", "own", "queue",
        "real_capability",
    )  # fmt: skip

    def __init__(self, queue: Queue | None, amount: list[int]) -> None:
        self.queue = queue  # None: the root
        self.name = names.ROOT_QUEUE if queue is None else queue.name
        self.children: list[Place] = []
        self.line: tuple[Place, ...] = ()  # itself and its ancestors, nearest first, without the root
        self.members: list[Queue] = []  # the queues at or below it
        self.names: set[QueueName] = set()  # theirs
        self.guarantee = list(amount)
        self.deserved = list(amount)
        self.real_capability = list(amount)
        self.held = list(amount)  # what the queues at or below it had at the last look, and it alone
        self.own = list(amount)


class QueueTree:
    def __init__(self, session: Session, *, hierarchy: bool, books: QueueBooks | None = None) -> None:
        self._changed = session.ledger.views.queues()
        self._changed.renew()
        self._books = session.books if books is None else books
        self._nothing = session.axis.zeros()
        # Sorted by name, so that the first exceeded resource is always the same one.
        self.columns = [(name, column) for name, column in session.axis.by_name() if column != PODS]
        self.root = Place(None, session.divisible.tolist())
        self.places: dict[QueueName, Place] = {}
        self._hierarchy = hierarchy
        from_the_top = self._build(session.queues)
        for place in reversed(from_the_top):
            self._fill_in(place)
        for _, column in self.columns:
            for place in from_the_top:
                self._limit_children(place, column)

    def deserved(self) -> dict[QueueName, Vector]:
        return {name: np.array(place.deserved, dtype=np.int64) for name, place in self.places.items()}

    def line(self, queue: Queue) -> tuple[Place, ...]:
        return self.places[queue.name].line

    def is_leaf(self, queue: Queue) -> bool:
        if not self._hierarchy:
            return True
        return queue.name != names.ROOT_QUEUE and not self.places[queue.name].children

    def held(self, place: Place) -> list[int]:
        """What a place has now. Sums are kept, and what changed since the last look is added."""
        for queue in dict.fromkeys(self._changed.news()):
            self._count(queue)
        return place.held

    def _count(self, queue: Queue) -> None:
        place = self.places.get(queue.name)
        if place is not None:
            has: list[int] = queue.allocated.tolist()
            for above in place.line:
                above.held = [held + now - then for held, now, then in zip(above.held, has, place.own, strict=True)]
            place.own = has

    def sum(self, place: Place, amount: Callable[[Queue], Vector]) -> Vector:
        return sum((amount(queue) for queue in place.members), start=self._nothing)

    # -- building -----------------------------------------------------------------------------------------------

    def _build(self, queues: dict[QueueName, Queue]) -> list[Place]:
        """Add every queue to the tree. Returns all places with the root, parents before children."""
        for queue in sorted(queues.values(), key=lambda q: (-q.priority, q.created, q.name)):
            place = self.places[queue.name] = Place(queue, self._nothing.tolist())
            place.guarantee = self._books.guarantee(queue).tolist()
            if queue.deserved is not None:
                place.deserved = queue.deserved.tolist()
        for name, place in self.places.items():
            parent = self._parent(queues, name)
            (self.root if parent is None else self.places[parent]).children.append(place)
        from_the_top = [self.root]
        for place in from_the_top:  # grows while it is walked
            for child in place.children:
                child.line = (child, *place.line)
                assert child.queue is not None
                for above in child.line:
                    above.members.append(child.queue)
                    above.names.add(child.queue.name)
            from_the_top.extend(place.children)
        for queue in queues.values():
            self._count(queue)
        return from_the_top

    def _parent(self, queues: dict[QueueName, Queue], name: QueueName) -> QueueName | None:
        """None: the root."""
        if not self._hierarchy or name == names.ROOT_QUEUE:
            return None
        parent = _named_parent(queues, name)
        step, seen = parent, {name}
        while step is not None and step not in seen:
            seen.add(step)
            step = _named_parent(queues, step)
        return None if step == name else parent

    # -- what each may have -------------------------------------------------------------------------------------

    def _fill_in(self, place: Place) -> None:
        """What an inner queue does not state is the sum of its children's."""
        if place.queue is not None:
            for _, column in self.columns:
                below = sum(c.guarantee[column] for c in place.children)
                if place.children:
                    place.guarantee[column] = self._books.guarantee_with(place.queue, below, column)
                place.deserved[column] = place.deserved[column] or sum(c.deserved[column] for c in place.children)

    def _limit_children(self, place: Place, column: int) -> None:
        """First guarantees, then the limits that follow from them, then deserved amounts between the two."""
        children = place.children
        limit = place.real_capability[column]
        own_limits = [min(limit, _capability(child, column)) for child in children]
        for child, own_limit in zip(children, own_limits, strict=True):
            child.guarantee[column] = min(child.guarantee[column], own_limit)
        if place.queue is not None:
            claims = [Claim(_weight(child), 0, child.guarantee[column]) for child in children]
            for child, amount in zip(children, _shared_out(place.guarantee[column], claims), strict=True):
                child.guarantee[column] = amount
        free = max(limit - sum(child.guarantee[column] for child in children), 0)
        for child, own_limit in zip(children, own_limits, strict=True):
            real = child.real_capability[column] = min(free + child.guarantee[column], own_limit)
            child.deserved[column] = max(min(child.deserved[column], real), child.guarantee[column])
        if place.queue is not None:
            claims = [Claim(_weight(child), child.guarantee[column], child.deserved[column]) for child in children]
            for child, amount in zip(children, _shared_out(place.deserved[column], claims), strict=True):
                child.deserved[column] = amount


def _shared_out(amount: int, claims: list[Claim]) -> list[int]:
    stated = [claim.most for claim in claims]
    return stated if sum(stated) <= amount else divide(amount, claims)


def _capability(place: Place, column: int) -> int:
    assert place.queue is not None
    return UNLIMITED if place.queue.capability is None else int(place.queue.capability[column])


def _named_parent(queues: dict[QueueName, Queue], name: QueueName) -> QueueName | None:
    parent = QueueName(queues[name].parent)
    return parent if parent in queues and parent != names.ROOT_QUEUE else None


def _weight(place: Place) -> int:
    assert place.queue is not None
    return place.queue.weight
