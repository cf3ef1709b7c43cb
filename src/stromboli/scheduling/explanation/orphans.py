"""Explains pods, groups and Reservations that no session considers, because their group or queue does not exist.

A session considers groups whose queue exists, and pods whose group exists. With a misspelt queue a pod would wait
forever without a reason. Finding these takes a look at all objects, so a world does it now and then, not in every
cycle.
"""

from __future__ import annotations

from collections.abc import Iterator

from stromboli.api import Condition, PodGroup, PodGroupCondition, Reservation, group_name_of, names_two_groups
from stromboli.api.reservations import PENDING, queue_of
from stromboli.api.timestamps import format_timestamp
from stromboli.api.upstream import UpstreamGroup
from stromboli.cluster import Cluster, Job, JobKey, Status, Task
from stromboli.containment import ObjectRef
from stromboli.scheduling.decisions import Decision, Explanation, PatchGroup, PatchPod, PatchReservation

from . import gang_reasons, reasons
from .conditions import SCHEDULED, UNSCHEDULABLE
from .reasons import Code
from .upstream_conditions import with_own

_CODES = {
    "invalid": Code.INVALID_OBJECT,
    "missing": Code.NO_POD_GROUP,
    "incomplete": Code.NOT_ENOUGH_PODS,
    "later": Code.GANG_SHORT,
}
"""By what is wrong with a group of scheduling.k8s.io."""


def orphans(cluster: Cluster, now: float) -> Iterator[Decision]:
    """The statuses to write, sorted by name; none for objects that already have them."""
    for job_key in sorted(key for key, job in cluster.jobs.items() if job.object and job.queue.object is None):
        if not _is_put_aside(cluster, cluster.jobs[job_key]):  # otherwise the cycle has said so
            yield from _group(cluster.jobs[job_key], now)
    yield from upstream_statuses(cluster, now)
    for reservation in cluster.reservations_without_queue():
        if ObjectRef("Reservation", reservation.metadata.name) not in cluster.put_aside:
            yield from _reservation(reservation, now)
    for task_key in sorted(key for key, task in cluster.tasks.items() if task.true_status is Status.PENDING):
        task = cluster.tasks[task_key]
        why = _why_not_considered(cluster, task)
        if why is not None and not _says(task, why.message):
            yield PatchPod(task.key, why.code, why.message, task.nominated)


def _is_put_aside(cluster: Cluster, job: Job) -> bool:
    """After an error, with its group or its queue."""
    refs = (ObjectRef("PodGroup", job.key), ObjectRef("Queue", job.queue.name))
    return any(ref in cluster.put_aside for ref in refs)


def _why_not_considered(cluster: Cluster, task: Task) -> Explanation | None:
    job = task.job
    if job is None and names_two_groups(task.pod):
        return Explanation(Code.INVALID_OBJECT, gang_reasons.two_groups(group_name_of(task.pod), _upstream_name(task)))
    if job is None:
        return Explanation(Code.NO_POD_GROUP, reasons.no_group(""))
    if cluster.put_aside and _is_put_aside(cluster, job):
        return None
    if (refused := cluster.upstream.refused.get(job.key)) is not None:
        return Explanation(_CODES[refused.trouble], refused.why)
    if job.object is None:
        return Explanation(Code.NO_POD_GROUP, reasons.no_group(job.key))
    if job.queue.object is None:
        return Explanation(Code.NO_QUEUE, reasons.no_queue(job.queue.name))
    return None


def _upstream_name(task: Task) -> str:
    group = task.pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def upstream_statuses(cluster: Cluster, now: float) -> Iterator[Decision]:
    """The groups of scheduling.k8s.io that are no job, but part of one, or that something is wrong with."""
    index = cluster.upstream
    for group_key in sorted(index.groups):
        group = index.groups[group_key]
        job_key = index.job_of(group_key)
        refused = index.refused.get(job_key)
        if refused is not None:
            why = Explanation(_CODES[refused.trouble], refused.why)
            yield from unschedulable(group_key, group, why, now)
        elif job_key != group_key:
            yield from _part_of_job(cluster, group_key, group, cluster.jobs.get(job_key), now)


def _part_of_job(
    cluster: Cluster, group_key: JobKey, group: UpstreamGroup, job: Job | None, now: float
) -> Iterator[PatchGroup]:
    """It has what its job has, apart from whether its own pods have nodes."""
    if job is None or job.object is None:
        return
    status = group.status
    waits = [c for c in job.object.status.conditions if c.type == UNSCHEDULABLE]
    placed = cluster.upstream.members(group_key).placed >= group.least
    why = Explanation(waits[0].reason, waits[0].message) if waits and not placed else None
    kept = [] if why is None else waits
    conditions = with_own(group, kept, now, why, placed=placed, queue=job.queue.name)
    if (list(conditions), job.phase) != (status.conditions, status.phase):
        yield PatchGroup(group_key, job.phase, conditions, 0, 0, 0)


def _says(task: Task, message: str) -> bool:
    return any(c.type == "PodScheduled" and c.message == message for c in task.pod.status.conditions)


def _group(job: Job, now: float) -> Iterator[Decision]:
    assert job.object is not None
    yield from unschedulable(job.key, job.object, Explanation(Code.NO_QUEUE, reasons.no_queue(job.queue.name)), now)


def unschedulable(job: JobKey, group: PodGroup, why: Explanation, now: float) -> Iterator[PatchGroup]:
    """What becomes of the status of a group that no session considers, if it does not say so already."""
    status = group.status
    if any(c.type == UNSCHEDULABLE and c.message == why.message for c in status.conditions):
        return
    stamp = format_timestamp(now)
    said = PodGroupCondition(
        type=UNSCHEDULABLE, status="True", reason=why.code, message=why.message,
        last_transition_time=stamp, transition_id=stamp,
    )  # fmt: skip
    conditions = (said, *(condition for condition in status.conditions if condition.type != UNSCHEDULABLE))
    if isinstance(group, UpstreamGroup):
        conditions = with_own(group, conditions, now, why, placed=False, queue=group.spec.queue)
    yield PatchGroup(job, status.phase, conditions, status.running, status.succeeded, status.failed)


def _reservation(reservation: Reservation, now: float) -> Iterator[Decision]:
    message = reasons.no_queue(queue_of(reservation))
    if why_reservation_waits(reservation)[1] != message:
        yield not_scheduled(reservation, Explanation(Code.NO_QUEUE, message), now)


def not_scheduled(reservation: Reservation, why: Explanation, now: float) -> PatchReservation:
    said = Condition(
        type=SCHEDULED, status="False", reason=why.code, message=why.message, last_transition_time=format_timestamp(now)
    )
    return PatchReservation(reservation.metadata.name, reservation.metadata.uid, PENDING, "", {}, (said,))


def why_reservation_waits(reservation: Reservation) -> tuple[str, str]:
    """The reason and the sentence in its status; empty if it does not wait for a node."""
    for condition in reservation.status.conditions:
        if condition.type == SCHEDULED and condition.status == "False" and reservation.status.phase in ("", PENDING):
            return condition.reason, condition.message
    return "", ""
