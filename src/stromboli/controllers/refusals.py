"""Objects that break the rules, where no admission has kept them out.

A new API server refuses them itself: the rules are part of the CRDs. An older one stores whatever fits the schema.
Then it is the controller that refuses. It says why, in the object and in an event; it does not act upon the object;
and it goes on as soon as the object is corrected.

    Job            status.state.reason Invalid, with the message; a new one is Pending and stays so
    Queue, PodGroup    condition Accepted: False
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from stromboli.api import ApiError, Condition, Job, JobStatus, PodGroup, PodGroupCondition, Queue, validate
from stromboli.api.timestamps import format_timestamp
from stromboli.controllers.job.pod_decoration import check_furniture
from stromboli.controllers.job.pods import check_names
from stromboli.controllers.job.state_machine import PENDING
from stromboli.controllers.job.status import with_phase

from .changes import Change, Notify, Update

ACCEPTED = "Accepted"
INVALID = "Invalid"

Line = TypeVar("Line", bound=Condition)


class Refusals:
    """Why objects may not be acted upon. Each version of an object is checked once."""

    def __init__(self, *, checks: bool) -> None:
        self._checks = checks
        self._known: dict[str, tuple[Job | Queue | PodGroup, str]] = {}  # by uid
        self._before = self._known

    def start_pass(self) -> None:
        """Only what this pass asks for is remembered until the next."""
        self._before, self._known = self._known, {}

    def why_not(self, obj: Job | Queue | PodGroup) -> str:
        """"" for an object that may be acted upon."""
        if not self._checks:
            return ""
        uid = obj.metadata.uid
        known = self._before.get(uid)
        if known is None or known[0] is not obj:
            known = (obj, _problem(obj))
        self._known[uid] = known
        return known[1]

    def of_job(self, job: Job, why: str, now: float) -> list[Change]:
        status: JobStatus = job.status
        if not status.state.phase:
            status = with_phase(status, PENDING, now=now)
        status = replace(status, state=replace(status.state, reason=INVALID, message=why))
        return _told(job, replace(job, status=status), why)

    def of_group(self, group: PodGroup, now: float) -> list[Change]:
        """The scheduler writes conditions, too, and keeps only its own. So this one is written when it is news, and
        not fought for."""
        if not self._checks:
            return []
        before = self._before.get(group.metadata.uid)
        if before is not None and before[0] is group:
            self._known[group.metadata.uid] = before
            return []
        why = self.why_not(group)
        if before is not None and before[1] == why:
            return []
        conditions = with_verdict(group.status.conditions, PodGroupCondition, why, now)
        return _told(group, replace(group, status=replace(group.status, conditions=conditions)), why)


def pardoned(status: JobStatus) -> JobStatus:
    """The status of a job that keeps the rules (again)."""
    if status.state.reason != INVALID:
        return status
    acquitted: JobStatus = replace(status, state=replace(status.state, reason="", message=""))
    return acquitted


def with_verdict(conditions: Sequence[Line], kind: type[Line], why: str, now: float) -> list[Line]:
    """The conditions, with a refusal or without one."""
    others = [condition for condition in conditions if condition.type != ACCEPTED]
    if not why:
        return others
    said = next((condition for condition in conditions if condition.type == ACCEPTED), None)
    if said is None or said.message != why:
        stamp = format_timestamp(now)
        said = kind(type=ACCEPTED, status="False", reason=INVALID, message=why, last_transition_time=stamp)
    return [*others, said]


def refusal_of_queue(queue: Queue, why: str, now: float) -> list[Change]:
    conditions = with_verdict(queue.status.conditions, Condition, why, now)
    return _told(queue, replace(queue, status=replace(queue.status, conditions=conditions)), why)


def _told(before: Job | Queue | PodGroup, after: Job | Queue | PodGroup, why: str) -> list[Change]:
    if after == before:
        return []
    changes: list[Change] = [Update(after)]
    if why:
        changes.append(Notify(before, INVALID, why, warning=True))
    return changes


def _problem(obj: Job | Queue | PodGroup) -> str:
    try:
        validate(obj)
        if isinstance(obj, Job):
            check_names(obj)
            check_furniture(obj)
    except ApiError as error:
        return f"{error.field}: {error.message}"
    return ""
