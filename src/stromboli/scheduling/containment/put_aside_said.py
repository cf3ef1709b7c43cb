"""What users are told about objects that are put aside, and about jobs that a cycle did not get to.

A job that is put aside has no part in a session, so nothing there explains it. Here its pods and its group get their
reason. It does not say for how long: a sentence that changes is written again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from stromboli.api import PodGroup, Reservation
from stromboli.cluster import Cluster, Job, JobKey, QueueName, Status
from stromboli.containment import ContainedError, ObjectRef
from stromboli.scheduling.decisions import Cycle, Explanation, Notice, PatchPod
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.error_reasons import internal_error
from stromboli.scheduling.explanation.orphans import not_scheduled, unschedulable

_WAITS = frozenset({Status.PENDING, Status.RESERVED})


class _Aside(Protocol):
    @property
    def error(self) -> str: ...


def say_put_aside(cycle: Cycle, cluster: Cluster, put_aside: Mapping[ObjectRef, _Aside], now: float) -> None:
    """Add the reasons of all jobs that have no part in the cycle because of these."""
    for ref, aside in sorted(put_aside.items()):
        why = Explanation(Code.INTERNAL_ERROR, internal_error(ref.kind, ref.key, aside.error))
        withdrawn = cluster.put_aside.get(ref)
        if withdrawn is not None and isinstance(withdrawn.object, Reservation):
            _say_of_reservation(cycle, withdrawn.object, why, now)
        for job_key, group in _groups(cluster, ref):
            _say(cycle, cluster.jobs.get(job_key), job_key, group, why, now)


def _say_of_reservation(cycle: Cycle, reservation: Reservation, why: Explanation, now: float) -> None:
    """One that waits gets it as the reason why it has no node. One that holds room says so in its Ready condition only
    as long as nothing else is true of it, so there is an event instead (see `notices`)."""
    if not reservation.status.node_name and all(c.message != why.message for c in reservation.status.conditions):
        cycle.decisions.append(not_scheduled(reservation, why, now))


def notices(errors: Iterable[ContainedError]) -> Iterator[Notice]:
    """An event for each object that was put aside in this cycle."""
    for error in errors:
        ref = error.subject
        message = internal_error(ref.kind, ref.key, error.error)
        yield Notice(ref.kind, ref.key, Code.INTERNAL_ERROR, message, warning=True)


def _groups(cluster: Cluster, ref: ObjectRef) -> Iterator[tuple[JobKey, PodGroup]]:
    """The groups that are put aside with an object."""
    if ref.kind == "Queue":
        queue = cluster.queues.get(QueueName(ref.key))
        for job_key in sorted(queue.jobs if queue is not None else ()):
            group = cluster.jobs[job_key].object
            if group is not None:
                yield job_key, group
    else:
        withdrawn = cluster.put_aside.get(ref)
        if withdrawn is not None and isinstance(withdrawn.object, PodGroup):
            yield JobKey(ref.key), withdrawn.object


def _say(cycle: Cycle, job: Job | None, job_key: JobKey, group: PodGroup, why: Explanation, now: float) -> None:
    tasks = [] if job is None else [job.tasks[key] for key in sorted(job.tasks)]
    waiting = [task for task in tasks if task.true_status in _WAITS]
    for task in waiting:
        cycle.waiting[task.key] = why
        if task.said is None or task.said != (why.message, task.nominated, task.refusals):
            cycle.decisions.append(PatchPod(task.key, why.code, why.message, task.nominated, task.refusals))
    starts = job is not None and job.ready_count >= max(1, group.spec.min_member)
    if starts or group.status.phase in ("Completed", "Running"):
        return
    cycle.reasons[job_key] = why
    cycle.decisions += unschedulable(job_key, group, why, now)
