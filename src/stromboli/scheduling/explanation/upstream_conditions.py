"""The conditions that a group of `scheduling.k8s.io` has besides those of every group.

    PodGroupInitiallyScheduled   True for ever once its minimum had nodes for the first time; until then False, and why
    DisruptionTarget             True when all its pods were evicted, until its minimum has nodes again
    Queue                        ours: the queue that was chosen, so that it stays the same

The first says nothing about now, and so nothing about how long the group waits. That is in conditions of ours, which
such a group has, too (`waiting_clock`). It becomes True when the API server shows the nodes of the pods: a bind that is
only sent may be refused, and there is no way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stromboli.api import PodGroup, PodGroupCondition
from stromboli.api.timestamps import format_timestamp
from stromboli.api.upstream import (
    COMPOSITE_INITIALLY_SCHEDULED,
    DISRUPTION_TARGET,
    INITIALLY_SCHEDULED,
    QUEUE,
    UpstreamGroup,
    said_queue,
)
from stromboli.api.upstream.reading import PREFIX
from stromboli.cluster import Job, Status
from stromboli.scheduling.decisions import Explanation

from .reasons import Code

_QUEUE: Final = QUEUE.removeprefix(PREFIX)
_OWN: Final = (INITIALLY_SCHEDULED, COMPOSITE_INITIALLY_SCHEDULED, DISRUPTION_TARGET, _QUEUE)
_ERRORS: Final = (Code.INVALID_OBJECT, Code.INTERNAL_ERROR)
_PLACED: Final = (Status.BOUND, Status.RUNNING, Status.SUCCEEDED)

Conditions = tuple[PodGroupCondition, ...]


def of_job(job: Job, conditions: Conditions, now: float, why: Explanation | None, evicted: str = "") -> Conditions:
    """The conditions of a job, with these. `why`: the reason if it waits. `evicted`: the sentence if all its pods are
    evicted in this cycle."""
    group = job.object
    if not isinstance(group, UpstreamGroup):
        return conditions
    least = max(1, job.min_available)
    placed = sum(job.counts[status] for status in _PLACED) >= least
    if evicted and not placed:  # perhaps in the first cycle that sees the nodes of its pods
        placed = sum(bool(task.pod.spec.node_name) for task in job.tasks.values()) >= least
    queue = job.queue.name if job.tasks or _known(group, _QUEUE) else ""
    return with_own(group, conditions, now, why, placed=placed, queue=queue, evicted=evicted)


def says_evicted(group: UpstreamGroup, sentence: str) -> bool:
    known = _known(group, DISRUPTION_TARGET)
    return known is not None and (known.status, known.message) == ("True", sentence)


def with_own(
    group: UpstreamGroup, conditions: Sequence[PodGroupCondition], now: float, why: Explanation | None, *,
    placed: bool, queue: str = "", evicted: str = "",
) -> Conditions:  # fmt: skip
    """In the order of their types: the server keeps them in its own."""
    found = [one for one in conditions if one.type not in _OWN]
    found += filter(None, (_scheduled(group, now, why, placed), _target(group, now, placed, evicted)))
    if queue:
        found.append(_condition(group, now, _QUEUE, "True", "Chosen", said_queue(queue)))
    return tuple(sorted(found, key=lambda one: one.type))


def _scheduled(group: UpstreamGroup, now: float, why: Explanation | None, placed: bool) -> PodGroupCondition | None:
    kind = COMPOSITE_INITIALLY_SCHEDULED if group.is_composite else INITIALLY_SCHEDULED
    known = _known(group, kind)
    if known is not None and known.status == "True":
        return known
    if placed:
        return _condition(group, now, kind, "True", "Scheduled", _said_minimum(group))
    if why is None:
        return known
    reason = "SchedulerError" if why.code in _ERRORS else "Unschedulable"
    return _condition(group, now, kind, "False", reason, why.message)


def _target(group: UpstreamGroup, now: float, placed: bool, evicted: str) -> PodGroupCondition | None:
    if evicted:
        return _condition(group, now, DISRUPTION_TARGET, "True", "PreemptionByScheduler", evicted)
    known = _known(group, DISRUPTION_TARGET)
    if known is not None and known.status == "True" and placed:
        return _condition(group, now, DISRUPTION_TARGET, "False", "Scheduled", _said_minimum(group))
    return known


def _said_minimum(group: UpstreamGroup) -> str:
    if group.is_basic and not group.is_composite:
        return "One of its pods has a node; they start one by one."
    what = "group" if group.is_composite else "pod"
    number = f"{group.least} {what}s" if group.least > 1 else f"One {what}"
    return f"{number}, as many as must start together, {'have' if group.least > 1 else 'has'} nodes."


def _known(group: PodGroup, kind: str) -> PodGroupCondition | None:
    return next((one for one in group.status.conditions if one.type == kind), None)


def _condition(
    group: UpstreamGroup, now: float, kind: str, status: str, reason: str, message: str
) -> PodGroupCondition:
    """Its time is when its status changed last."""
    known = _known(group, kind)
    since = known.last_transition_time if known is not None and known.status == status else None
    since = since or format_timestamp(now)
    return PodGroupCondition(
        type=kind, status=status, reason=reason, message=message, last_transition_time=since, transition_id=since
    )
