"""How long a job has waited.

A job waits while nothing but the scheduler keeps it from starting: the pods that must start together exist without
scheduling gates, and its queue is open. Pods of a job that is not admitted are not created, so it waits without them,
if there is a controller that will create them. Otherwise the clock stops, and goes on later from where it stopped. It
begins anew only after the job has run. A promise does not stop it: a job that has to give it back has waited all along.

A condition of the job's PodGroup stores it, so a restart does not reset it (see `cluster.object_fields`).
"""

from __future__ import annotations

from stromboli.cluster import Job, Status
from stromboli.cluster.object_fields import waiting_record
from stromboli.scheduling.framework import Framework

from . import SCHEDULED


def waiting_since(framework: Framework, job: Job) -> float:
    """When a job began to wait, as if it had waited all the time from then on."""
    known = framework.waiting_times.get(job.key)
    if known is None:
        known = framework.waiting_times[job.key] = _waiting_since(framework, job)
    return known


def _waiting_since(framework: Framework, job: Job) -> float:
    assert job.object is not None
    record = waiting_record(job.object)
    if record is not None:
        return record.at(framework.now)
    ran = any(condition.type == SCHEDULED for condition in job.object.status.conditions)
    if ran or not waiting_counts(job):
        return framework.now
    return _came(job)


def waiting_counts(job: Job) -> bool:
    """Whether the time that passes now counts as waiting."""
    if not job.queue.open:
        return False
    return _is_complete(job) or _waits_for_admission(job)


def _is_complete(job: Job) -> bool:
    """Whether the pods that must start together exist, and may be placed."""
    if job.valid_count - job.gated < max(1, job.min_available):
        return False
    if not job.roles_matter:
        return True
    if not job.gated:
        return all(job.role_valid(role) >= least for role, least in job.role_minimums.items())
    open_ = [task.role for task in job.tasks.values() if not task.gated and task.status not in _GONE]
    return all(open_.count(role) >= least for role, least in job.role_minimums.items())


_GONE = frozenset({Status.RELEASING, Status.FAILED, Status.UNKNOWN})


def _waits_for_admission(job: Job) -> bool:
    """Its pods do not exist, and a controller will create them. Also in the cycle that admits it: they come right after
    that."""
    group = job.object
    if group is None or job.valid_count >= job.min_available or group.status.phase not in ("", "Pending"):
        return False
    return any(owner.controller for owner in group.metadata.owner_references)


def _came(job: Job) -> float:
    """When the last of the pods that it needs was created; its group, if that is younger or there are no pods yet."""
    times = sorted(task.created for task in job.tasks.values() if not task.gated and task.status not in _GONE)
    least = max(1, job.min_available)
    return max(job.created, times[least - 1]) if len(times) >= least else job.created
