"""Gangs: pods that start together or not at all, and of which none is evicted alone later.

A job states how many of its pods it needs at once (`minMember`), and perhaps how many of each role. This plugin says
when a job is valid, ready, pipelined and starving. Jobs below their minimum go before jobs that only want more, and
first of all those that have lost some of their pods, because every pod that waits for the rest of its gang holds
resources without doing work.

It also protects running gangs. Pods above the minimum may be evicted one by one. At the minimum a single pod may not,
because the others would hold their resources for nothing; the whole gang may. A gang that is already below its minimum
is not protected, and neither is a job without a minimum.

Pods of a generated group are no gang. Each of them may have others evicted for it, whatever the others have.

All counts are those of the session at that moment, without the victims chosen so far. So nothing is counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stromboli.api.upstream import UpstreamGroup
from stromboli.cluster import Job, Task
from stromboli.cluster.topology import SubGroupPolicy, sub_groups
from stromboli.scheduling.callbacks import Refusal, Verdict, Vote
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.topology_reasons import too_few_sub_groups
from stromboli.scheduling.gang import STARTED, HalfGangs, can_spare, is_whole, sub_groups_reach
from stromboli.scheduling.half_gangs import read_deadlock_timeout
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

# Looked up once: it takes long to find members of an enumeration.
_NO = Verdict.NO
_NOTHING = Verdict.NOTHING


class Gang(Plugin):
    name = "gang"

    def __init__(self, arguments: Arguments) -> None:
        read_deadlock_timeout(arguments)  # the feature `half_gangs` acts by it

    def open(self, session: Session) -> None:
        session.add_job_valid(_missing_pods)
        session.add_job_ready(_is_ready, by_minimum=True)
        session.add_job_pipelined(_is_pipelined)
        session.add_job_starving(_is_starving)
        session.add_job_order(partial(_rank, session.state(HalfGangs)))
        session.add_preemptable(_protect_minimum, protects=True, by_shares=True)
        session.add_reclaimable(_protect_minimum, protects=True, by_shares=True)


def _missing_pods(job: Job) -> Refusal | None:
    """Too few pods exist for the gang to start, so there is no need to look for nodes."""
    is_composite = isinstance(job.object, UpstreamGroup) and job.object.is_composite
    if job.valid_count < job.min_available and not is_composite:
        return Refusal(
            Code.NOT_ENOUGH_PODS, need=job.min_available, have=job.valid_count, creator=_creator(job),
            minimum="minCount" if isinstance(job.object, UpstreamGroup) else "minMember",
        )  # fmt: skip
    if job.roles_matter:
        minimums = job.role_minimums
        for role in sorted(minimums) if len(minimums) > 1 else minimums:
            minimum, have = minimums[role], job.role_valid(role)
            if have < minimum:
                return Refusal(
                    Code.NOT_ENOUGH_PODS, need=minimum, have=have, subject=role or '""', creator=_creator(job),
                    minimum="minCount" if is_composite else "minMember",
                )  # fmt: skip
    return None if job.layout is None else _missing_sub_groups(job, job.layout.policies)


def _missing_sub_groups(job: Job, policies: Sequence[SubGroupPolicy]) -> Refusal | None:
    """Too few sub-groups have all their pods."""
    for policy in policies:
        have = sum(0 < one.size <= one.members for one in sub_groups(job).of_policy(policy) if not one.is_too_large)
        if have < policy.least:
            unclear = sub_groups(job)
            beside = next(iter([*unclear.refused.values(), *unclear.reported.values()]), "")
            said = too_few_sub_groups(policy, have, beside, _creator(job))
            return Refusal(Code.NOT_ENOUGH_SUB_GROUPS, need=policy.least, have=have, subject=said)
    return None


def _creator(job: Job) -> str:
    """Whose controller creates the pods of the group; "" if its user does."""
    owners = [] if job.object is None else job.object.metadata.owner_references
    return next((f"{owner.kind} {owner.name}" for owner in owners if owner.controller), "")


def _is_ready(job: Job) -> bool:
    return job.is_ready and (not job.role_minimums or _roles_filled(job)) and _sub_groups_whole(job)


def _rank(halves: HalfGangs, job: Job) -> int:
    if _is_ready(job):
        return 2
    return 0 if job.key in halves.first else 1


def _is_pipelined(job: Job) -> Vote:
    filled = job.is_pipelined and _roles_filled(job, with_pipelined=True)
    filled = filled and (job.layout is None or sub_groups_reach(job, with_pipelined=True))
    return Vote.PERMIT if filled else Vote.REJECT


def _roles_filled(job: Job, *, with_pipelined: bool = False) -> bool:
    return not job.roles_matter or all(
        job.role_occupied(role, with_pipelined=with_pipelined) >= minimum for role, minimum in job.role_minimums.items()
    )


def _is_starving(job: Job) -> bool:
    return job.is_starving or (job.layout is not None and not sub_groups_reach(job, with_pipelined=True))


def _keeps_sub_group_whole(job: Job, candidate: Task) -> bool:
    """Whether a sub-group would be left in part without this task, or the job with too few of them."""
    group = sub_groups(job).of_task.get(candidate.key)
    if group is None or not is_whole(group, STARTED):
        return False
    return group.size > 1 or not can_spare(job, group)


def _sub_groups_whole(job: Job) -> bool:
    return job.layout is None or sub_groups_reach(job)


def _protect_minimum(evictor: Task, candidate: Task, whole: bool) -> Verdict:
    job = candidate.job
    if whole or job is None:
        return _NOTHING
    ready = job.ready_count
    if job.goes_whole and ready > 1:
        return _NO
    if job.layout is not None and _keeps_sub_group_whole(job, candidate):
        return _NO
    if ready + job.pending_best_effort < job.min_available or (job.role_minimums and not _roles_filled(job)):
        return _NOTHING  # it is not ready anyway
    if ready - 1 < job.min_available:
        return _NO
    if job.role_minimums and job.roles_matter and candidate.role in job.role_minimums:
        waiting = job.role_pending_best_effort.get(candidate.role, 0)
        if job.role_occupied(candidate.role) - waiting - 1 < job.role_minimums[candidate.role]:
            return _NO
    return _NOTHING
