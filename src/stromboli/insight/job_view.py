"""Jobs: what users submitted, with the pods that came of it.

A user knows a job by the name of what they created: a Job, a PodGroup, a ReplicaSet, a pod. The scheduler knows
PodGroups, and controllers generate those where nobody wrote one. So a job is listed by its owner, and a finished Job,
whose group is gone, by its own object.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from stromboli.api import ApiError, OwnerReference, key
from stromboli.api import Job as JobObject
from stromboli.api.pod_requests import pod_requests
from stromboli.api.pod_timing import pod_timing
from stromboli.api.timestamps import parse_timestamp
from stromboli.api.upstream import shown_key
from stromboli.cluster import OCCUPYING, WAITING, Cluster, Job, Status, Task
from stromboli.cluster.ledger import SHARED
from stromboli.cluster.object_fields import creation_time, waiting_record
from stromboli.cluster.queue_index import unoffered_use
from stromboli.scheduling.backfill.estimates import estimate

from .picture import Amounts, JobPicture, PodCounts
from .queue_view import with_unoffered, without_pods

_ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
_NO_CODES = frozenset({"Unschedulable", "NotEnoughResources"})
"""Reasons of conditions that programs written for Kubernetes and Volcano look for. They say nothing about the cause."""


def name_of(job: Job, known: Container[str] = ()) -> str:
    """ "namespace/name" of what the user created. `known`: the keys of all groups, of which two may have one name."""
    owner = _owner(job)
    return shown_key(job.key, known) if owner is None else f"{job.namespace}/{owner.name}"


def _owner(job: Job) -> OwnerReference | None:
    if job.object is not None:
        metas = [job.object.metadata]
    else:
        metas = [task.pod.metadata for _, task in sorted(job.tasks.items())][:1]
    return next((owner for meta in metas for owner in meta.owner_references if owner.controller), None)


def job_pictures(cluster: Cluster, jobs: Iterable[JobObject], now: float) -> list[JobPicture]:
    objects = {key(job): job for job in jobs}
    found = [_job(cluster, cluster.jobs[name], objects, now) for name in sorted(cluster.jobs)]
    known = {picture.name for picture in found if picture.kind == "Job"}
    found += [_without_group(job) for name, job in objects.items() if name not in known]
    return sorted(found, key=lambda picture: (picture.name, picture.group))


def _job(cluster: Cluster, job: Job, objects: dict[str, JobObject], now: float) -> JobPicture:
    owner = _owner(job)
    name = name_of(job, cluster.jobs)
    kind = owner.kind if owner is not None else "PodGroup"
    user_job = objects.get(name) if kind == "Job" else None
    # A finished Job has no group that would say which queue it was in.
    queue = user_job.spec.queue if job.object is None and user_job is not None else ""
    tasks = [job.tasks[task] for task in sorted(job.tasks)]
    waiting = [task for task in tasks if task.status in WAITING]
    running = [task for task in tasks if _is_running(task)]
    created = min((creation_time(task.pod) for task in tasks), default=now) if job.object is None else job.created
    reason, message = _said(job, waiting)
    requested, wanted = _requested_and_wanted(cluster, job, tasks, user_job)
    return JobPicture(
        name=name,
        group=job.key,
        kind=kind,
        namespace=job.namespace,
        queue=queue or job.queue.name,
        priority=job.priority,
        phase=_phase(job, tasks, user_job),
        min_available=job.min_available if user_job is None else _minimum(user_job),
        pods=_counts(tasks),
        requested=requested,
        wanted=wanted,
        allocated=with_unoffered(without_pods(cluster.axis, job.allocated), unoffered_use(tasks, SHARED).items()),
        created=created if user_job is None else creation_time(user_job),
        waiting_since=_waiting_since(job, created, now) if waiting or _is_kept_out(job) else None,
        started=_first_start(running),
        ends=_end(running),
        reason=reason,
        message=message,
        nodes=_nodes(running),
        reserved_nodes=_nodes([task for task in waiting if task.status is Status.RESERVED]),
        backfilled=sum(task.lent_room for task in running),
    )


def _nodes(tasks: list[Task]) -> list[str]:
    return sorted({task.node.name for task in tasks if task.node is not None})


def _first_start(running: list[Task]) -> float | None:
    return min((start for task in running if (start := _start(task)) is not None), default=None)


def _without_group(job: JobObject) -> JobPicture:
    """A Job that has no PodGroup: not yet, or not any more."""
    status = job.status
    return JobPicture(
        name=key(job),
        group="",
        kind="Job",
        namespace=job.metadata.namespace,
        queue=job.spec.queue or "default",
        priority=0,
        phase=status.state.phase or "Pending",
        min_available=_minimum(job),
        pods=PodCounts(status.pending, status.running, status.terminating, status.succeeded, status.failed),
        requested=_requested_by(job),
        wanted=_requested_by(job) if status.state.phase in ("", "Pending") else {},
        allocated={},
        created=creation_time(job),
        reason=status.state.reason,
        message=status.state.message,
    )


def _minimum(job: JobObject) -> int:
    """Also of a Job that is suspended and has no group, or whose group is not updated yet."""
    if job.spec.min_available is not None:
        return job.spec.min_available
    return sum(task.replicas if task.min_available is None else task.min_available for task in job.spec.tasks)


def _phase(job: Job, tasks: list[Task], user_job: JobObject | None) -> str:
    """Of the Job, which knows more; but only the group knows whether a pending Job was admitted. Volcano's groups have
    no phase for failure: a group of pods without a Job has failed if it ended with fewer successes than it needs."""
    group = job.phase if job.object is not None else "Completed"
    if user_job is None:
        succeeded = sum(task.status is Status.SUCCEEDED for task in tasks)
        failed = any(task.status is Status.FAILED for task in tasks)
        return "Failed" if group == "Completed" and failed and succeeded < max(1, job.min_available) else group
    phase = user_job.status.state.phase or "Pending"
    return group if phase == "Pending" else phase


def _is_kept_out(job: Job) -> bool:
    """Its pods are not created before it is admitted."""
    return job.object is not None and job.phase == "Pending" and not job.tasks


def _counts(tasks: list[Task]) -> PodCounts:
    return PodCounts(
        waiting=sum(task.status in WAITING for task in tasks),
        running=sum(_is_running(task) for task in tasks),
        terminating=sum(task.status is Status.RELEASING for task in tasks),
        succeeded=sum(task.status is Status.SUCCEEDED for task in tasks),
        failed=sum(task.status is Status.FAILED for task in tasks),
    )


def _requested_and_wanted(
    cluster: Cluster, job: Job, tasks: list[Task], user_job: JobObject | None
) -> tuple[Amounts, Amounts]:
    """In all, and what the job still waits for: also by pods that are not created yet."""
    no_pods_yet = user_job is not None and not tasks
    requested = _requested_by(user_job) if user_job is not None and not tasks else _requested(cluster, job, tasks)
    if _is_kept_out(job) or (no_pods_yet and job.phase == "Inqueue"):
        return requested, requested
    return requested, _requested(cluster, job, [task for task in tasks if task.status in WAITING])


def _requested(cluster: Cluster, job: Job, tasks: list[Task]) -> Amounts:
    """By all pods that wait or run; by the minimum of a group that has no pods yet."""
    if _is_kept_out(job):
        return with_unoffered(without_pods(cluster.axis, job.min_resources), job.unoffered)
    active = [task for task in tasks if task.status in WAITING or _is_running(task)]
    offered = without_pods(cluster.axis, sum((task.request for task in active), start=cluster.axis.zeros()))
    return with_unoffered(offered, [one for task in active for one in task.shape.unoffered])


def _requested_by(job: JobObject) -> Amounts:
    """By all pods of a Job that has none: not yet, or not any more."""
    total: Amounts = {}
    if job.status.state.phase in _ENDED:
        return total
    for task in job.spec.tasks:
        for resource, amount in pod_requests(task.template.spec).items():
            if resource != "pods" and amount * task.replicas:
                total[resource] = total.get(resource, 0) + amount * task.replicas
    return dict(sorted(total.items()))


def _is_running(task: Task) -> bool:
    return task.status in OCCUPYING or task.status is Status.UNKNOWN


def _waiting_since(job: Job, created: float, now: float) -> float:
    record = None if job.object is None else waiting_record(job.object)
    return created if record is None else record.at(now)


def _start(task: Task) -> float | None:
    started = task.pod.status.start_time
    return None if started is None else parse_timestamp(started)


def _end(running: list[Task]) -> float | None:
    """When all of its running pods have ended, if they say how long they run."""
    ends = []
    for task in running:
        start, runs = _start(task), _duration(task)
        if start is None or runs is None:
            return None
        ends.append(start + runs)
    return max(ends, default=None)


def _duration(task: Task) -> float | None:
    """How long it runs: as it says, or on a hollow node as it pretends to."""
    try:
        run = pod_timing(task.pod.metadata.annotations).run
    except ApiError:
        run = None
    return estimate(task) if run is None else run


def _said(job: Job, waiting: list[Task]) -> tuple[str, str]:
    """The reason that the scheduler wrote into the status of its pods, or else of the group."""
    for task in waiting:
        for condition in task.pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
                return _code(condition.reason), condition.message
    if job.object is not None and _is_kept_out(job):
        for group_condition in job.object.status.conditions:
            if group_condition.type == "Unschedulable" and group_condition.status == "True":
                return _code(group_condition.reason), group_condition.message
    return "", ""


def _code(reason: str) -> str:
    return "" if reason in _NO_CODES else reason
