"""Gangs of which some pods have a node, and others that are needed do not.

A gang starts as a whole, and can still be left with a half: the scheduler was killed while it bound the pods, or a node
was lost. Its pods hold resources and do no work, so it goes before gangs that hold nothing.

Only a gang that once had all the pods which it needs counts, or one that was just being bound. Whoever raises
`minMember` of a running group gains nothing: the condition `Scheduled` of the group says which minimum it has reached,
and schedulers alone write it. Without that condition, pods on nodes say that the gang was being bound. (Pods may also
be put on nodes by hand. Who may do that needs no scheduler to take resources from others.)
"""

from __future__ import annotations

import re

from stromboli.cluster import Job, JobKey, Status
from stromboli.scheduling.explanation.conditions import SCHEDULED
from stromboli.scheduling.session import Session

from .readiness import complete

_BINDING = int(Status.BINDING)
_BOUND = int(Status.BOUND)
_RUNNING = int(Status.RUNNING)
_NUMBER = re.compile(r"\d+")


class HalfGangs:
    """Those that go before gangs that hold nothing, found when the session is opened."""

    def __init__(self, session: Session) -> None:
        self.first: frozenset[JobKey] = frozenset()


def holds_nodes(job: Job) -> bool:
    """Whether pods of it are on nodes, or on the way there."""
    counts = job.counts
    return bool(counts[_RUNNING] or counts[_BOUND] or counts[_BINDING] > job.held)


def is_half_gang(job: Job) -> bool:
    return holds_nodes(job) and not complete(job) and reached_minimum(job) >= job.min_available


def reached_minimum(job: Job) -> int:
    """With how many pods the gang has started, as far as its group says; one that was being bound counts as if it
    had."""
    if job.object is None:
        return 0
    for condition in job.object.status.conditions:
        if condition.type == SCHEDULED:
            found = _NUMBER.search(condition.message)
            return int(found[0]) if found else 1
    return job.min_available
