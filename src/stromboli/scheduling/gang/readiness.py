"""How far a gang is from starting, as one ladder.

    ready                as many tasks as it needs have a node
    pipelined            … or a promised place, once leaving pods are gone (`Session.job_pipelined`)
    conditionally ready  … or a place on room that is lent to others
    condition ready      … or room set aside for them

Counts include the rungs below; comparisons are "at least".
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from stromboli.cluster import OCCUPYING, Job, Status, Task
from stromboli.cluster.topology import sub_groups

_STARTED = OCCUPYING | {Status.SUCCEEDED}
_PROMISED = _STARTED | {Status.PIPELINED}
_LENT = _PROMISED | {Status.CONDITIONAL}
_SET_ASIDE = _LENT | {Status.RESERVED}


def sub_groups_reach(job: Job, *, with_pipelined: bool = False) -> bool:
    """Whether as many sub-groups are whole as the policies of a job demand. Pods without requests that still wait
    count: there is always room for them."""
    return _whole_enough(job, _PROMISED if with_pipelined else _STARTED, with_waiting=True)


def _whole_enough(job: Job, counted: Collection[Status], *, with_waiting: bool = False) -> bool:
    if job.layout is None:
        return True
    for policy in job.layout.policies:
        if policy.least:
            whole = (
                group
                for group in sub_groups(job).of_policy(policy)
                if sum(t.status in counted or (with_waiting and t.best_effort and not t.gated) for t in group.tasks)
                >= max(1, group.size)
            )
            if sum(1 for _ in islice(whole, policy.least)) < policy.least:
                return False
    return True


def complete(job: Job) -> bool:
    """At or above every minimum, counting only tasks that have a node (or have done their work)."""
    if job.ready_count < job.min_available or not _whole_enough(job, _STARTED):
        return False
    return not job.roles_matter or all(
        job.role_occupied(role) - job.role_pending_best_effort.get(role, 0) >= minimum
        for role, minimum in job.role_minimums.items()
    )


def conditionally_ready(job: Job) -> bool:
    """Whether a job could start if it had all lent room that it counts on."""
    if not job.counts[Status.CONDITIONAL] or not job.is_conditionally_ready or not _whole_enough(job, _LENT):
        return False
    return not job.roles_matter or all(
        job.role_occupied(role, with_pipelined=True) + _of_role(job, role, Status.CONDITIONAL) >= least
        for role, least in job.role_minimums.items()
    )


def condition_ready(job: Job) -> bool:
    """Whether a job could start if it had all that is set aside for it."""
    if not job.is_ready_with_reserved or not _whole_enough(job, _SET_ASIDE):
        return False
    return not job.roles_matter or all(
        job.role_occupied(role, with_pipelined=True)
        + _of_role(job, role, Status.CONDITIONAL)
        + _of_role(job, role, Status.RESERVED)
        >= least
        for role, least in job.role_minimums.items()
    )


def reserved_tasks(job: Job) -> list[Task]:
    """Tasks of a job that room is set aside for, by name."""
    if not job.counts[Status.RESERVED]:
        return []
    return sorted((t for t in job.tasks.values() if t.status is Status.RESERVED), key=lambda task: task.key)


def _of_role(job: Job, role: str, status: Status) -> int:
    counts = job.role_counts.get(role)
    return 0 if counts is None else counts[status]
