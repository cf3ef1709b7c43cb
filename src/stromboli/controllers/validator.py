"""Validation of objects in the controllers, for API servers that do not validate them.

A recent API server rejects invalid objects itself: the rules are part of the CRDs. An older one stores whatever fits
the schema. Then the controller rejects the object: it reports the error in the object's status and in an event, takes
no action on it, and continues as soon as the object is corrected.

    Job                         status.state.reason Invalid, with the message; a new job is Pending and stays so
    Queue, PodGroup, CronJob    condition Accepted: False
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from stromboli.api import ApiError, Condition, Job, KObject, PodGroup, PodGroupCondition, Queue, validate
from stromboli.api.timestamps import format_timestamp
from stromboli.api.validation.acceptance import ACCEPTED
from stromboli.api.validation.limits import MAX_JOB_REPLICAS

from .changes import Change, Notify, Update

INVALID = "Invalid"

AnyCondition = TypeVar("AnyCondition", bound=Condition)


class Validator:
    """Validates each version of an object once. If it is not `enabled`, every object counts as valid."""

    def __init__(
        self, *, enabled: bool, check_job: Callable[[Job], None], max_job_replicas: int = MAX_JOB_REPLICAS
    ) -> None:
        """`check_job` raises an ApiError for a job that is valid by itself but that the Job controller cannot run."""
        self._max_job_replicas = max_job_replicas
        self._enabled = enabled
        self._check_job = check_job
        self._results: dict[str, tuple[Job | Queue | PodGroup, str]] = {}  # by uid: the object and its error

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        """Forget what no longer exists."""
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._results.pop(before.metadata.uid, None)

    def error_in(self, obj: Job | Queue | PodGroup) -> str:
        """What is wrong with an object; "" for a valid one."""
        if not self._enabled:
            return ""
        uid = obj.metadata.uid
        known = self._results.get(uid)
        if known is None or known[0] is not obj:
            known = self._results[uid] = (obj, self._validate(obj))
        return known[1]

    def review_group(self, group: PodGroup, now: float) -> list[Change]:
        """Write the condition of a group whose result is new.

        The scheduler writes the conditions of groups, too, and keeps only its own. So ours is written when the result
        changes, and not again when the scheduler removes it.
        """
        if not self._enabled:
            return []
        before = self._results.get(group.metadata.uid)
        if before is not None and before[0] is group:
            return []
        error = self.error_in(group)
        if before is not None and before[1] == error:
            return []
        conditions = with_accepted_condition(group.status.conditions, PodGroupCondition, error, now)
        return rejection(group, replace(group, status=replace(group.status, conditions=conditions)), error)

    def _validate(self, obj: Job | Queue | PodGroup) -> str:
        try:
            validate(obj, max_job_replicas=self._max_job_replicas)
            if isinstance(obj, Job):
                self._check_job(obj)
        except ApiError as error:
            return f"{error.field}: {error.message}"
        return ""


def with_accepted_condition(
    conditions: Sequence[AnyCondition], kind: type[AnyCondition], error: str, now: float
) -> list[AnyCondition]:
    """The conditions with `Accepted: False` if there is an error, and without that condition if there is none."""
    others = [condition for condition in conditions if condition.type != ACCEPTED]
    if not error:
        return others
    accepted = next((condition for condition in conditions if condition.type == ACCEPTED), None)
    if accepted is None or accepted.message != error:
        timestamp = format_timestamp(now)
        accepted = kind(type=ACCEPTED, status="False", reason=INVALID, message=error, last_transition_time=timestamp)
    return [*others, accepted]


def reject_queue(queue: Queue, error: str, now: float) -> list[Change]:
    conditions = with_accepted_condition(queue.status.conditions, Condition, error, now)
    return rejection(queue, replace(queue, status=replace(queue.status, conditions=conditions)), error)


def rejection(before: KObject, after: KObject, error: str) -> list[Change]:
    """The update of an object's status with an event about the error; nothing if the status is the same already."""
    if after == before:
        return []
    changes: list[Change] = [Update(after)]
    if error:
        changes.append(Notify(before, INVALID, error, warning=True))
    return changes
