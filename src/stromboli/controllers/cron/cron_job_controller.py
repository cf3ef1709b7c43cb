"""The CronJob controller: it creates a Job whenever the schedule of a CronJob says so.

A pass over a CronJob asks three questions.

    1. Which time has come last?    after the last one with a Job, and not longer ago than `startingDeadlineSeconds`;
                                    of several that were missed only the last one gets a Job, as in Kubernetes
    2. May its Job start?           `suspend`; `concurrencyPolicy`, if another Job of the CronJob still runs
    3. Which Jobs are kept?         `successfulJobsHistoryLimit` and `failedJobsHistoryLimit`

The name of a Job follows from its time, so that a time has one Job, whoever asks for it how often. That it was created
is written into the status only when it can be seen: a creation that failed is tried again.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stromboli.api import (
    ApiError,
    BatchCronJobStatus,
    Condition,
    CronJob,
    CronJobStatus,
    CronJobTemplate,
    KObject,
    key,
    validate,
)
from stromboli.api.schedules import Schedule, parse_schedule
from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.controllers.changes import Change, Create, Delete, Notify, Objects, Update
from stromboli.controllers.pod_owners import controlling_reference
from stromboli.controllers.validator import rejection, with_accepted_condition
from stromboli.controllers.work_queue import WorkQueue

from .families import AnyCronJob, AnyJob, Family
from .runs import Runs, job_name, new_job, references, runs_among

RETRY: Final = 10.0  # seconds after which a Job that could not be created is tried again
MANY_MISSED: Final = 100


AnyStatus = CronJobStatus | BatchCronJobStatus


class CronJobController:
    def __init__(self, family: Family, *, validates: bool) -> None:
        """`validates`: no rule of an API server has validated the objects."""
        self.observes: tuple[type[KObject], ...] = (family.cron_job, family.job)
        self._family = family
        self._validates = validates
        self._cron_jobs = WorkQueue()
        self._jobs: dict[str, set[str]] = {}  # keys of Jobs, by the key of the CronJob that created them
        self._tried: dict[str, tuple[float, float]] = {}  # by CronJob: the time of the schedule, and when it was tried
        self._said: dict[str, tuple[str, float]] = {}  # by CronJob: the last event, about which time of the schedule

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        for version in (before, after):
            if isinstance(version, self._family.cron_job):
                self._cron_jobs.add(key(version))
            elif isinstance(version, self._family.job) and (owner := self._family.owner(version)):
                self._cron_jobs.add(owner)
        if isinstance(before, self._family.job) and (owner := self._family.owner(before)):
            self._jobs.get(owner, set()).discard(key(before))
        if isinstance(after, self._family.job) and (owner := self._family.owner(after)):
            self._jobs.setdefault(owner, set()).add(key(after))
        if isinstance(before, self._family.cron_job) and after is None:
            self._tried.pop(key(before), None)
            self._said.pop(key(before), None)

    def next_due(self, now: float) -> float | None:
        return self._cron_jobs.next_due(now)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for cron_key in self._cron_jobs.take(now):
            cron_job: AnyCronJob | None = objects.get(self._family.cron_job, cron_key)
            if cron_job is None or cron_job.metadata.deletion_timestamp is not None:
                continue
            of_this = self._visit(cron_job, objects, now)
            if of_this:
                self._cron_jobs.add(cron_key)
            changes += of_this
        return changes

    def _visit(self, cron_job: AnyCronJob, objects: Objects, now: float) -> list[Change]:
        cron_key, spec = key(cron_job), cron_job.spec
        self._cron_jobs.set_due(cron_key, None)
        error = _error_in(cron_job) if self._validates else ""
        status: AnyStatus = cron_job.status
        if isinstance(cron_job, CronJob):
            conditions = with_accepted_condition(cron_job.status.conditions, Condition, error, now)
            status = _with_schedule(replace(cron_job.status, conditions=conditions), cron_job, now)
            if error:
                return rejection(cron_job, replace(cron_job, status=status), error)
        elif error:
            return []
        schedule = parse_schedule(spec.schedule, spec.time_zone or "")
        runs = runs_among(self._created_by(cron_job, objects), self._family)
        status = self._with_runs(status, runs)
        changes: list[Change] = []
        if not spec.suspend:
            scheduled = schedule.latest(_since(cron_job, status, now), now)
            dues = [schedule.next(now)]
            if scheduled is not None:
                started, changes, again = self._start(cron_job, scheduled, runs, objects, now)
                dues.append(again)
                if started:
                    status.last_schedule_time = format_timestamp(scheduled)
                elif changes and _missed_many(schedule, _since(cron_job, status, now), now):
                    message = "more than 100 start times were missed; startingDeadlineSeconds limits how many count"
                    changes.append(Notify(cron_job, "TooManyMissedTimes", message, warning=True))
            self._cron_jobs.set_due(cron_key, min((due for due in dues if due is not None), default=None))
        changes += [Delete(job, reason="the CronJob keeps enough later ones") for job in runs.surplus(cron_job)]
        if status != cron_job.status:
            changes.append(Update(replace(cron_job, status=status)))
        return changes

    def _start(
        self, cron_job: AnyCronJob, scheduled: float, runs: Runs, objects: Objects, now: float
    ) -> tuple[bool, list[Change], float | None]:
        """Whether the Job of that time has been created; what to do; and when to look again for that."""
        cron_key, name = key(cron_job), job_name(cron_job, scheduled)
        present = objects.get(self._family.job, f"{cron_job.metadata.namespace}/{name}")
        if present is not None:
            if _owner_uid(present) == cron_job.metadata.uid:
                return True, [], None
            return False, self._say(cron_job, "ForeignJob", f"the Job {name} belongs to somebody else", scheduled), None
        policy = cron_job.spec.concurrency_policy
        if policy == "Forbid" and runs.active:
            message = f"the Job {runs.active[0].metadata.name} still runs, so no other one is created"
            return False, self._say(cron_job, "JobAlreadyActive", message, scheduled), None
        tried_for, tried_at = self._tried.get(cron_key, (0.0, 0.0))
        if tried_for == scheduled and now < tried_at + RETRY:
            return False, [], tried_at + RETRY
        self._tried[cron_key] = (scheduled, now)
        changes: list[Change] = []
        if policy == "Replace":
            changes += [Delete(job, reason="the next Job of the CronJob replaces it") for job in runs.active]
        template = cron_job.spec.job_template
        source = template if isinstance(template, CronJobTemplate) else template.spec.template
        changes.append(Create(new_job(cron_job, scheduled, self._family), source))
        return False, changes, now + RETRY

    def _say(self, cron_job: AnyCronJob, reason: str, message: str, scheduled: float) -> list[Change]:
        """An event, once for each time of the schedule."""
        if self._said.get(key(cron_job)) == (reason, scheduled):
            return []
        self._said[key(cron_job)] = (reason, scheduled)
        return [Notify(cron_job, reason, message, warning=True)]

    def _created_by(self, cron_job: AnyCronJob, objects: Objects) -> list[AnyJob]:
        found = (objects.get(self._family.job, job_key) for job_key in sorted(self._jobs.get(key(cron_job), ())))
        return [
            job
            for job in found
            if job is not None and job.metadata.deletion_timestamp is None and _owner_uid(job) == cron_job.metadata.uid
        ]

    def _with_runs(self, status: AnyStatus, runs: Runs) -> AnyStatus:
        ended = [self._family.ended(job) for job in runs.successful]
        last = max((*filter(None, ended), status.last_successful_time or ""), key=_seconds, default="")
        return replace(status, active=references(runs.active), last_successful_time=last or None)


def _error_in(cron_job: AnyCronJob) -> str:
    try:
        validate(cron_job)
    except ApiError as error:
        return f"{error.field}: {error.message}"
    return ""


def _with_schedule(status: CronJobStatus, cron_job: CronJob, now: float) -> CronJobStatus:
    """A schedule that was changed counts from now on."""
    text = " ".join(filter(None, (cron_job.spec.schedule, cron_job.spec.time_zone)))
    if status.schedule == text:
        return status
    return replace(status, schedule=text, schedule_since=format_timestamp(now) if status.schedule else None)


def _since(cron_job: AnyCronJob, status: AnyStatus, now: float) -> float:
    """Times of the schedule up to this one are done with."""
    since = _seconds(status.last_schedule_time or cron_job.metadata.creation_timestamp)
    deadline = cron_job.spec.starting_deadline_seconds
    changed = _seconds(status.schedule_since) if isinstance(status, CronJobStatus) else 0.0
    return max(since, changed, 0.0 if deadline is None else now - deadline)


def _missed_many(schedule: Schedule, since: float, now: float) -> bool:
    time = since
    for _ in range(MANY_MISSED + 1):
        following = schedule.next(time)
        if following is None or following > now:
            return False
        time = following
    return True


def _seconds(timestamp: str | None) -> float:
    return parse_timestamp(timestamp) if timestamp else 0.0


def _owner_uid(job: AnyJob) -> str:
    reference = controlling_reference(job.metadata)
    return "" if reference is None else reference.uid
