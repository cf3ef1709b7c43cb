"""From objects to a picture: the scheduler runs one cycle on a copy.

What a queue deserves, and why a job waits, is known only to the code that decides. So that code runs, on a cluster of
its own made from the objects, and nothing that it decides is carried out. Amounts are taken before the cycle: they are
what is, not what is about to be. An object on which an error happens is put aside, as in the scheduler itself, and the
picture says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from stromboli.api import ApiError, KObject, key, names
from stromboli.api import Job as JobObject
from stromboli.cluster import Applied, Cluster, JobKey
from stromboli.scheduling.containment import CopiedScheduler
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle, Explanation, PatchGroup, PatchReservation
from stromboli.scheduling.explanation.orphans import orphans

from .job_view import job_pictures, name_of
from .node_view import node_pictures
from .picture import JobPicture, Picture, ReservationPicture
from .queue_view import divide, namespace_pictures, queue_pictures, with_locked, without_pods
from .reservation_view import reservation_pictures

P = TypeVar("P", JobPicture, ReservationPicture)


@dataclass(frozen=True, slots=True)
class State:
    """All objects that matter to the scheduler, at one time."""

    objects: Sequence[KObject]
    now: float
    scheduler_name: str = names.DEFAULT_SCHEDULER
    refused: Mapping[str, str] = field(default_factory=dict)  # why objects of a scenario do not exist, by key


@dataclass(frozen=True, slots=True)
class Inspection:
    picture: Picture
    cycle: Cycle


def inspect(state: State, scheduler: Scheduler) -> Inspection:
    cluster, ignored = load(state)
    jobs = [obj for obj in state.objects if isinstance(obj, JobObject)]
    before = take_picture(cluster, jobs, state.now, ignored, topology_keys=scheduler.configuration.topology_keys)
    cycle, cluster = CopiedScheduler(scheduler, lambda: load(state)[0]).run_on(cluster, state.now)
    return Inspection(_with_orphans(with_cycle(before, cycle), cluster), cycle)


def load(state: State) -> tuple[Cluster, list[str]]:
    """A cluster with these objects, and those that it cannot use."""
    cluster = Cluster(scheduler_name=state.scheduler_name)
    ignored = []
    for obj in state.objects:
        try:
            cluster.apply(Applied(obj))
        except (ApiError, ValueError) as error:
            ignored.append(f"{obj.kind} {key(obj)}: {error}")
    return cluster, ignored


def take_picture(
    cluster: Cluster, jobs: Sequence[JobObject], now: float, ignored: Sequence[str] = (), *,
    topology_keys: Sequence[str] = (),
) -> Picture:  # fmt: skip
    """What is known without a cycle; reasons are those that the scheduler wrote into statuses. `topology_keys`: of the
    configuration."""
    snapshot = cluster.snapshot()
    capacity = without_pods(cluster.axis, snapshot.total)
    table = cluster.ledger.table
    listed = job_pictures(cluster, jobs, now)
    return Picture(
        now=now,
        capacity=capacity,
        used=without_pods(cluster.axis, (table.used - table.held)[table.ready].sum(axis=0)),
        queues=queue_pictures(cluster, capacity, listed),
        namespaces=namespace_pictures(cluster, capacity, listed),
        jobs=listed,
        nodes=node_pictures(cluster, name_of, topology_keys),
        reservations=reservation_pictures(cluster, name_of),
        ignored=list(ignored),
    )


def with_cycle(picture: Picture, cycle: Cycle) -> Picture:
    """The picture with what a cycle on it found out."""
    return replace(
        picture,
        queues=divide(
            with_locked(picture.queues, cycle.idle_on_locked_nodes, picture.capacity), cycle.deserved, picture.capacity
        ),
        jobs=[_with_reason(job, cycle.reasons) for job in picture.jobs],
    )


def _with_orphans(picture: Picture, cluster: Cluster) -> Picture:
    """With reasons for those that no cycle considers, because their group or queue does not exist."""
    groups: dict[str, Explanation] = {}
    reservations: dict[str, Explanation] = {}
    for decision in orphans(cluster, picture.now):
        if isinstance(decision, PatchGroup):
            said = decision.conditions[0]
            groups[decision.job] = Explanation(said.reason, said.message)
        elif isinstance(decision, PatchReservation):
            why = decision.conditions[0]
            reservations[decision.reservation] = Explanation(why.reason, why.message)
    if not groups and not reservations:
        return picture
    return replace(
        picture,
        jobs=[_told(job, groups.get(job.group)) for job in picture.jobs],
        reservations=[_told(one, reservations.get(one.name)) for one in picture.reservations],
    )


def _told(one: P, why: Explanation | None) -> P:
    return one if why is None else replace(one, reason=why.code, message=why.message)


def _with_reason(job: JobPicture, reasons: Mapping[JobKey, Explanation]) -> JobPicture:
    return _told(job, reasons.get(JobKey(job.group)))
