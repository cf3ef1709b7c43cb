"""Which Reservations a pod may use: those whose owners include it, of its own queue or of none, and of no higher
priority than it has. Those that are for such pods otherwise are remembered, too: people want to know why it waits.

There may be thousands of both. So Reservations are found by something that their owners name (a label, a UID, a name),
and only those found are compared in full. Pods that look the same to all owners share one answer: most pods are copies.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from stromboli.api import Pod, Reservation, ReservationOwner
from stromboli.api.quantity import amounts
from stromboli.api.reservations import may_use, may_use_elsewhere, reserved_amounts, serves_queue
from stromboli.cluster import PODS, Job, JobKey, Shape, Task, TaskKey
from stromboli.cluster.object_fields import creation_time
from stromboli.cluster.reservations import waits_for_eviction
from stromboli.scheduling.session import Session

_ANY: Hashable = ("any",)


class Usable(NamedTuple):
    """A Reservation that holds resources in this session."""

    name: str
    object: Reservation
    columns: tuple[int, ...]  # the resources that it has, without "pods"
    created: float
    least_priority: int | None  # of pods that may use it


def priority_of(pod: Pod, job: Job) -> int:
    """That of its group, by which it preempts, or its own, which the API server has checked; what users may write in
    annotations does not count."""
    own = pod.spec.priority
    return job.priority if own is None else max(own, job.priority)


class Bar(Enum):
    """Why a pod may not use a Reservation that is for pods like it."""

    QUEUE = "queue"
    NAMESPACE = "namespace"
    PRIORITY = "priority"


@dataclass(slots=True, eq=False)
class MatchSet:
    """The Reservations that pods of one kind may use, whether or not they have enough for a pod, and those that they
    would use but for something that has nothing to do with amounts. `by_shape`: what is known about those that have
    enough (see `room`)."""

    usable: list[Usable]
    barred: list[tuple[Usable, Bar]] = field(default_factory=list)
    by_shape: dict[int, Any] = field(default_factory=dict)


NO_MATCHES = MatchSet([])


class Matches:
    """As of the start of a session; nobody gets a new Reservation to use during one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index: dict[Hashable, list[Usable]] = {}
        # What owners look at: labels, references to owners, and the names of pods.
        self._label_keys: tuple[str, ...] = ()
        self._by_reference = False
        self._by_name = False
        self._by_priority = False
        self._sets: dict[Hashable, MatchSet] = {}
        self._known: dict[TaskKey, MatchSet] = {}
        self._of_jobs: dict[JobKey, tuple[MatchSet, Shape] | None] = {}
        self._columns: dict[Hashable, tuple[int, ...]] = {}
        keys: set[str] = set()
        for name in sorted(session.ledger.holdings):
            reservation = session.snapshot.reservations.get(name)
            if reservation is None or reservation.metadata.deletion_timestamp is not None:
                continue
            if not waits_for_eviction(session.nodes, reservation):
                self._add(reservation, keys)
        self._label_keys = tuple(sorted(keys))

    def __bool__(self) -> bool:
        return bool(self._index)

    def of(self, task: Task) -> MatchSet:
        known = self._known.get(task.key)
        if known is None:
            known = self._known[task.key] = self._find(task)
        return known

    def of_job(self, job: Job) -> tuple[MatchSet, Shape] | None:
        """What all tasks of a job may use, and their shape, if neither differs between them: most jobs consist of
        copies, and to look at each task costs more than to place it."""
        if job.key not in self._of_jobs:
            tasks = list(job.tasks.values())
            alike = bool(tasks) and self._are_alike(tasks)
            self._of_jobs[job.key] = (self.of(tasks[0]), tasks[0].shape) if alike else None
        return self._of_jobs[job.key]

    def _are_alike(self, tasks: Sequence[Task]) -> bool:
        shape, meta = tasks[0].shape, tasks[0].pod.metadata
        if len(tasks) > 1 and (self._by_name or [task.shape for task in tasks].count(shape) < len(tasks)):
            return False
        if self._by_priority and len({task.pod.spec.priority for task in tasks}) > 1:
            return False
        if self._by_reference and any(t.pod.metadata.owner_references != meta.owner_references for t in tasks):
            return False
        labels = [task.pod.metadata.labels for task in tasks]
        return all([own.get(key) for own in labels].count(labels[0].get(key)) == len(tasks) for key in self._label_keys)

    def _find(self, task: Task) -> MatchSet:
        job = task.job
        if task.stands_for or job is None or task.shape.best_effort:
            return NO_MATCHES
        meta = task.pod.metadata
        labels = [meta.labels.get(key) for key in self._label_keys]
        kind: tuple[Any, ...] = (job.queue.name, task.namespace, *labels)
        if self._by_reference:
            references = meta.owner_references
            kind = (*kind, *[(r.api_version, r.kind, r.name, r.uid, r.controller) for r in references])
        if self._by_name:
            kind = (*kind, meta.name, meta.uid)
        if self._by_priority:
            kind = (*kind, priority_of(task.pod, job))
        found = self._sets.get(kind)
        if found is None:
            found = self._sets[kind] = self.for_pod(task.pod, job)
        return found

    def for_pod(self, pod: Pod, job: Job) -> MatchSet:
        """By name. The pod need not exist yet."""
        found: dict[str, tuple[Usable, Bar | None]] = {}
        for place in self._places(pod):
            for usable in self._index.get(place, ()):
                if usable.name in found:
                    continue
                if may_use(usable.object, pod):
                    found[usable.name] = (usable, self._bar(usable, pod, job))
                elif may_use_elsewhere(usable.object, pod):
                    found[usable.name] = (usable, Bar.NAMESPACE)
        in_order = [found[name] for name in sorted(found)]
        return MatchSet(
            [usable for usable, bar in in_order if bar is None],
            [(usable, bar) for usable, bar in in_order if bar is not None],
        )

    def _bar(self, usable: Usable, pod: Pod, job: Job) -> Bar | None:
        if not serves_queue(usable.object, job.queue.name):
            return Bar.QUEUE
        least = usable.least_priority
        return Bar.PRIORITY if least is not None and priority_of(pod, job) < least else None

    def _add(self, reservation: Reservation, keys: set[str]) -> None:
        created = creation_time(reservation)
        least = self._session.snapshot.least_priority(reservation)
        self._by_priority = self._by_priority or least is not None
        usable = Usable(reservation.metadata.name, reservation, self._columns_of(reservation), created, least)
        for owner in reservation.spec.owners:
            here = self._index.setdefault(self._place(owner), [])
            if not here or here[-1] is not usable:
                here.append(usable)
            if owner.object is not None:
                self._by_name = True
            if owner.controller is not None:
                self._by_reference = True
            selector = owner.label_selector
            if selector is not None:
                keys.update(selector.match_labels)
                if selector.match_expressions:
                    keys.update([requirement.key for requirement in selector.match_expressions])

    def _columns_of(self, reservation: Reservation) -> tuple[int, ...]:
        given = reservation.status.allocatable
        known = self._columns.get(tuple(given))
        if known is None:
            axis = self._session.axis
            names = amounts(given) or reserved_amounts(reservation)
            columns = {axis.index[name] for name, amount in names.items() if amount and name in axis.index}
            known = tuple(sorted(columns - {PODS}))
            if given and all(amounts(given).values()):
                self._columns[tuple(given)] = known
        return known

    def _place(self, owner: ReservationOwner) -> Hashable:
        """Something that every pod of this owner has."""
        if owner.object is not None and (owner.object.uid or owner.object.name):
            return ("uid", owner.object.uid) if owner.object.uid else ("name", owner.object.name)
        if owner.controller is not None and (owner.controller.uid or owner.controller.name):
            controller = owner.controller
            return ("owner uid", controller.uid) if controller.uid else ("owner", controller.name)
        if owner.label_selector is not None and owner.label_selector.match_labels:
            return ("label", *min(owner.label_selector.match_labels.items()))
        return _ANY

    def _places(self, pod: Pod) -> Iterator[Hashable]:
        meta = pod.metadata
        yield _ANY
        yield ("uid", meta.uid)
        yield ("name", meta.name)
        for reference in meta.owner_references:
            yield ("owner uid", reference.uid)
            yield ("owner", reference.name)
        for key in self._label_keys:
            if key in meta.labels:
                yield ("label", key, meta.labels[key])
