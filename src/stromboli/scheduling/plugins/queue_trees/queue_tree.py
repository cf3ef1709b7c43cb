"""Queues as a tree, and what each place in it may have.

A company is not a flat list of teams. With a hierarchy, `spec.parent` puts queues below others and finally below
`root`, which is the cluster itself; without one, every queue stands directly below the root, and all that follows
holds just the same. Pods are in the leaves. What a queue has is what all queues at or below it have.

What a place may have is worked out from the top, per resource:

    guarantee        what nobody else may take, even while it lies idle
    real capability  what the parent really may have, less what is guaranteed to brothers and sisters, and no more than
                     the queue's own `capability`. One that is not stated is thereby the parent's.
    deserved         what the queue can always get back, between its guarantee and its real capability

An inner queue that does not state a guarantee or a deserved amount has the sum of its children's. If it states one
and its children together state more, theirs is divided by weight (see `dividing`), nobody getting more than stated.
Below the root nothing is divided: a cluster may shrink for an hour, and nobody's numbers should change for that.

People edit queues one at a time, so the tree cannot be trusted to be one. A queue whose parent does not exist, and
every queue on a circle of parents, stands below the root. Nothing is announced about it: the scheduler remembers
nothing from one cycle to the next, so it would repeat itself every second; what each queue deserves is there to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stromboli.api import names
from stromboli.cluster import PODS, UNLIMITED, Queue, QueueName, Vector
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import Claim, divide


class Place:
    """A queue's place in the tree. Its amounts are by column, as plain integers: they are read thousands of times."""

    __slots__ = ("children", "deserved", "guarantee", "line", "members", "name", "queue", "real_capability")

    def __init__(self, queue: Queue | None, amount: list[int]) -> None:
        self.queue = queue  # None: the root
        self.name = names.ROOT_QUEUE if queue is None else queue.name
        self.children: list[Place] = []
        self.line: tuple[Place, ...] = ()  # itself and the places above it, nearest first, without the root
        self.members: list[Queue] = []  # the queues at or below it
        self.guarantee = list(amount)
        self.deserved = list(amount)
        self.real_capability = list(amount)


class QueueTree:
    def __init__(self, session: Session, *, hierarchy: bool) -> None:
        self._log = session.ledger.log
        self._nothing = session.axis.zeros()
        # By name, so that the first resource found short is the same whoever was first to mention it.
        self.columns = [(name, column) for name, column in session.axis.by_name() if column != PODS]
        self.root = Place(None, session.total.tolist())
        self.places: dict[QueueName, Place] = {}
        self._hierarchy = hierarchy
        self._held: dict[str, tuple[int, list[int]]] = {}  # (length of the log when it was added up, amounts)
        from_the_top = self._grow(session.queues)
        for place in reversed(from_the_top):
            self._fill_in(place)
        for _, column in self.columns:
            for place in from_the_top:
                self._limit_children(place, column)

    def line(self, queue: Queue) -> tuple[Place, ...]:
        return self.places[queue.name].line

    def is_leaf(self, queue: Queue) -> bool:
        if not self._hierarchy:
            return True
        return queue.name != names.ROOT_QUEUE and not self.places[queue.name].children

    def held(self, place: Place) -> list[int]:
        """What a place has now; sums are made again only if a pod was moved since."""
        if len(place.members) == 1:
            amounts: list[int] = place.members[0].allocated.tolist()
            return amounts
        known = self._held.get(place.name)
        if known is None or known[0] != len(self._log):
            total = self.sum(place, lambda queue: queue.allocated)
            known = self._held[place.name] = (len(self._log), total.tolist())
        return known[1]

    def sum(self, place: Place, amount: Callable[[Queue], Vector]) -> Vector:
        return sum((amount(queue) for queue in place.members), start=self._nothing)

    # -- growing ------------------------------------------------------------------------------------------------

    def _grow(self, queues: dict[QueueName, Queue]) -> list[Place]:
        """Put every queue in its place; all places with the root, none before its parent."""
        for queue in sorted(queues.values(), key=lambda q: (-q.priority, q.created, q.name)):
            place = self.places[queue.name] = Place(queue, self._nothing.tolist())
            if queue.guarantee is not None:
                place.guarantee = queue.guarantee.tolist()
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
            from_the_top.extend(place.children)
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
                place.guarantee[column] = place.guarantee[column] or sum(c.guarantee[column] for c in place.children)
                place.deserved[column] = place.deserved[column] or sum(c.deserved[column] for c in place.children)

    def _limit_children(self, place: Place, column: int) -> None:
        """Guarantees first, as the limits follow from them; then limits; then what lies between the two."""
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


def common(one: Iterable[Place], other: Iterable[Place]) -> int:
    """How many places two lines share: the more, the nearer related."""
    known = {place.name for place in other}
    return sum(place.name in known for place in one)


def _named_parent(queues: dict[QueueName, Queue], name: QueueName) -> QueueName | None:
    parent = QueueName(queues[name].parent)
    return parent if parent in queues and parent != names.ROOT_QUEUE else None


def _weight(place: Place) -> int:
    assert place.queue is not None
    return place.queue.weight
