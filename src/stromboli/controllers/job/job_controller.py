"""The Job controller: it creates the pods of a job and reacts to what happens to them.

A pass over a job has four steps.

    1. Is an action requested?   by a Command, or by a policy whose event has lasted long enough   action_requests
    2. What does it lead to?     the phase, a retry, a new version                                 state_machine
    3. Which pods are deleted?   outdated, restarted or surplus ones, and all if the job stops
    4. What is missing?          the phase after counting; the group; the missing pods             pod_group, pods

The result depends on the objects alone. So a pass that is repeated, or interrupted and repeated by another process,
continues where the first one stopped. What the controller remembers besides (`JobRecord`) may be lost without harm.

A pass visits the jobs in the work queue: those of which an object has changed or a timer expired, and those whose last
visit returned changes. A large job creates and deletes its pods in several passes, so that others do not wait for it
(see pod_budget).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from msgspec.structs import replace

from stromboli.api import Command, Job, KObject, Pod, PodGroup, PriorityClass, key
from stromboli.controllers.changes import Change, Create, Delete, Notify, Objects, Update
from stromboli.controllers.commands import next_commands
from stromboli.controllers.pod_index import PodIndex, owner_of
from stromboli.controllers.pod_owners import controlling_reference, is_finished, is_terminating, refers_to_job
from stromboli.controllers.validator import Validator
from stromboli.controllers.work_queue import WorkQueue, by_turns

from .action_requests import request_from_command, request_from_policies
from .deletion_tracker import DeletionTracker
from .job_pods import belongs_to, has_place, missing_pods, new_pod, version_of
from .job_record import JobRecord
from .job_status import count_pods, finished_at, with_counts, with_phase
from .job_volumes import simulated_claims, with_volumes
from .lost_deletions import pods_to_delete_again
from .pod_budget import JobAllowance, PodBudget, PodLimits
from .pod_decoration import owned_object_changes, pod_decorator
from .pod_group import delete_group, find_group, group_key_of, is_admitted, is_outdated, reconcile_group
from .pod_memory import lost_before, restarting_pods, with_pod_memory
from .state_machine import PENDING, PHASES_WITHOUT_PODS, RESTARTING, apply_action, next_phase, retry_limit
from .validation import reject_job, with_failed_write, without_rejection


class JobController:
    observes: ClassVar = (PriorityClass, Job, PodGroup, Pod)

    def __init__(
        self, pods: PodIndex, validator: Validator, *, run_plugins: bool, limits: PodLimits | None = None
    ) -> None:
        """`run_plugins`: whether pods get what the job's plugins add. A simulated pod does not need it.
        `limits`: how many pods one pass may create and delete."""
        self._pods = pods
        self._validator = validator
        self._runs_plugins = run_plugins
        self._limits = limits
        self._passes = 0
        self._unfinished = False
        self._deletions = DeletionTracker()
        self._jobs = WorkQueue()
        self._records: dict[str, JobRecord] = {}
        self._job_of_group: dict[str, str] = {}  # by the key of the group, whether or not that exists

    # -- what happened ------------------------------------------------------------------------------------------

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        match after if after is not None else before:
            case Pod():
                for owner in {_job_of(before), _job_of(after)}:
                    if owner:
                        self._jobs.add(owner)
            case PodGroup() as group:
                job_key = self._job_of_group.get(key(group))
                if job_key is not None and _matters_to_job(before) != _matters_to_job(after):
                    self._jobs.add(job_key)
            case PriorityClass():
                # Priorities decide what a group requests.
                self._jobs.add_all(self._job_of_group.values())
            case Job() as job:
                self._jobs.add(key(job))
                if isinstance(before, Job):
                    self._job_of_group.pop(group_key_of(before), None)
                if isinstance(after, Job):
                    self._job_of_group[group_key_of(after)] = key(after)
            case _:
                pass

    def pod_deleted(self, pod: Pod, now: float, *, evicted: bool) -> None:
        reference = controlling_reference(pod.metadata)
        if reference is None or not refers_to_job(reference) or not self._deletions.is_unexpected(pod):
            return
        if evicted or not is_finished(pod):
            job_key = f"{pod.metadata.namespace}/{reference.name}"
            record = self._records.setdefault(job_key, JobRecord())
            record.lost_pods[pod.metadata.name] = (pod, now)
            self._jobs.add(job_key)

    def update_failed(self, job: Job) -> None:
        """Report that an update of the job from the last pass could not be written."""
        record = self._records.get(key(job))
        if record is not None:
            record.restore_handled()
            self._jobs.add(key(job))

    def write_failed(self, job: Job, error: str) -> None:
        """Report that an object which the job owns could not be written, and why."""
        record = self._records.get(key(job))
        if record is not None:
            record.failed_write = error
            self._jobs.add(key(job))

    # -- a pass -------------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> bool:
        """Whether the last pass left pods for the next one to create or delete."""
        return self._unfinished

    def next_due(self, now: float) -> float | None:
        return self._jobs.next_due(now)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        self._deletions.prune(objects)
        commands = next_commands("Job", objects)
        changes: list[Change] = [
            Delete(command, reason="the command is being executed") for command in commands.values()
        ]
        budget = PodBudget(self._limits)
        self._passes += 1
        self._jobs.add_all(commands)
        visits = None if self._limits is None else self._limits.visits
        leaves_some = visits is not None and len(self._jobs) > visits
        for job_key in self._by_turn(self._jobs.take(now, visits)):
            job = objects.get(Job, job_key)
            if job is None:
                self._records.pop(job_key, None)
                self._jobs.set_due(job_key, None)
                continue
            record = self._records.setdefault(job_key, JobRecord())
            record.handled = None
            if job.metadata.deletion_timestamp is None:
                changes += self._visit(job, commands.get(job_key), record, budget.allowance(), objects, now)
                self._jobs.set_due(job_key, record.due)
        self._unfinished = budget.cut_off or leaves_some
        return changes

    def _by_turn(self, job_keys: list[str]) -> list[str]:
        """Jobs that were cut off come last, the one that had its turn most recently at the very end. Those of equal
        turns go by namespace in turn, as there may not be pods for all."""

        def last_turn(job_key: str) -> int:
            record = self._records.get(job_key)
            return record.last_turn if record is not None else 0

        return sorted(by_turns(job_keys) if self._limits is not None else job_keys, key=last_turn)

    def _visit(
        self,
        job: Job,
        command: Command | None,
        record: JobRecord,
        allowance: JobAllowance,
        objects: Objects,
        now: float,
    ) -> list[Change]:
        error = self._validator.error_in(job)
        if error:
            changes = reject_job(job, error, now)
            if command is not None:
                changes.append(Notify(job, "CommandRefused", f"The job is invalid: {error}", warning=True))
            if changes:
                self._jobs.add(key(job))
            return changes
        changes = self._reconcile_job(job, self._pods.of_job(job), command, record, allowance, objects, now)
        if not allowance.cut_off:
            record.last_turn = 0
        elif allowance.spent:
            record.last_turn = self._passes
        return changes

    def _reconcile_job(
        self,
        job: Job,
        owned_pods: list[Pod],
        command: Command | None,
        record: JobRecord,
        allowance: JobAllowance,
        objects: Objects,
        now: float,
    ) -> list[Change]:
        """`owned_pods` name the job as their owner; some may belong to an earlier job of that name."""
        group = find_group(job, objects)
        pods = [pod for pod in owned_pods if belongs_to(job, pod)]
        record.due = None
        if record.is_new:
            record.is_new = False
            record.lost_pods = lost_before(job, pods, now) | record.lost_pods
        expiry = _expiry(job)
        if expiry is not None and expiry <= now:
            self._jobs.add(key(job))
            return [Delete(job, reason="ttlSecondsAfterFinished is over")]
        changes = self._changes_for(job, pods, group, command, record, allowance, objects, now)
        if expiry is not None:
            record.due = expiry
        # A pod of another owner may have the name. Then the job is visited in every pass until the name is free.
        if changes or allowance.cut_off:
            self._jobs.add(key(job))
        possible = [change for change in changes if not (isinstance(change, Create) and _exists(change, objects))]
        return possible + _report_name_conflict(job, _conflicting_name(changes, objects), record)

    def _changes_for(
        self,
        job: Job,
        pods: list[Pod],
        group: PodGroup | None,
        command: Command | None,
        record: JobRecord,
        allowance: JobAllowance,
        objects: Objects,
        now: float,
    ) -> list[Change]:
        changes: list[Change] = []
        status = job.status
        if record.failed_write:
            # On its own: the changes that follow wait until the object is written.
            failed = with_failed_write(status, record.failed_write, now)
            record.failed_write = ""
            if failed != status:
                return [Update(replace(job, status=failed))]
        if not status.state.phase:
            status = with_phase(status, PENDING, now=now)
        status = without_rejection(status)

        targets = restarting_pods(job, pods)
        others = [pod for pod in pods if pod.metadata.name not in targets] if targets else pods
        request = request_from_policies(job, status.state.phase, others, group, record, now)
        if command is not None:
            request, notices = request_from_command(job, status.state.phase, command)
            changes += notices
        if request is not None and (transition := apply_action(status.state.phase, request.action)) is not None:
            changes.append(Notify(job, "ExecuteAction", f"{request.message}: {request.action}."))
            record.mark_handled()
            targets |= request.targets
            status = with_phase(
                replace(
                    status,
                    retry_count=status.retry_count + transition.is_retry,
                    version=status.version + transition.new_version,
                ),
                transition.phase,
                now=now,
                reason=request.reason,
                message=request.message,
            )

        to_delete = dict(_pods_to_delete(replace(job, status=status), pods, targets))
        remaining = [pod for pod in pods if pod.metadata.name not in to_delete and not is_terminating(pod)]
        counts = count_pods(job, remaining, terminating=len(pods) - len(remaining))
        result = next_phase(job, status.state.phase, counts, retry_count=status.retry_count)
        if result.phase != status.state.phase:
            status = with_phase(status, result.phase, now=now, message=result.message)
        status = with_counts(status, job, counts)
        restarting = targets.intersection(to_delete)
        status = with_pod_memory(status, job, remaining, lost=record.lost_pods, restarting=restarting)
        if self._runs_plugins and status.state.phase not in PHASES_WITHOUT_PODS:
            owned_changes, controlled_resources = owned_object_changes(job)
            changes += owned_changes
            status = replace(status, controlled_resources=controlled_resources)
        updated = replace(job, status=status)

        if status != job.status:
            changes.append(Update(updated))
        changes += self._deletions_of(pods, to_delete, allowance)
        changes += (
            Delete(pod, reason="its deletion was not finished") for pod in pods_to_delete_again(pods, record, now)
        )
        return changes + self._group_and_new_pods(updated, pods, group, record, allowance, objects)

    def _deletions_of(self, pods: list[Pod], reasons: dict[str, str], allowance: JobAllowance) -> list[Change]:
        """`reasons`: why pods go, by their name."""
        changes: list[Change] = []
        for pod in pods:
            if pod.metadata.name in reasons and not is_terminating(pod):
                if not allowance.take():
                    break
                self._deletions.expect_deletion(pod)
                changes.append(Delete(pod, reason=reasons[pod.metadata.name]))
        return changes

    def _group_and_new_pods(
        self,
        job: Job,
        pods: list[Pod],
        group: PodGroup | None,
        record: JobRecord,
        allowance: JobAllowance,
        objects: Objects,
    ) -> list[Change]:
        """The changes to the group, and the missing pods. `job` has its new status."""
        phase = job.status.state.phase
        if phase in PHASES_WITHOUT_PODS:
            return delete_group(group)
        if phase == RESTARTING:
            return delete_group(group) if group is not None and is_outdated(job, group) else []
        changes = reconcile_group(job, group, record, objects)
        if group is not None and not is_outdated(job, group) and is_admitted(group):
            decorate = pod_decorator(job) if self._runs_plugins else partial(with_volumes, job=job)
            if not self._runs_plugins:
                changes += simulated_claims(job, objects)
            for task, index in missing_pods(job, pods):
                if not allowance.take():
                    break
                changes.append(Create(decorate(new_pod(job, task, index)), task))
        return changes


def _job_of(pod: KObject | None) -> str:
    owner = owner_of(pod) if isinstance(pod, Pod) else None
    return f"{owner[1]}/{owner[2]}" if owner is not None and owner[0] == "Job" else ""


def _matters_to_job(group: KObject | None) -> tuple[object, ...] | None:
    """What a job reads of its group; most updates are about the counts and conditions of its status."""
    if not isinstance(group, PodGroup):
        return None
    return group.metadata.uid, group.metadata.annotations, group.spec, group.status.phase


def _exists(change: Create, objects: Objects) -> bool:
    return objects.get(type(change.object), key(change.object)) is not None


def _conflicting_name(changes: list[Change], objects: Objects) -> str:
    """The name of the first pod that cannot be created because another pod has that name; "" if there is none."""
    for change in changes:
        if isinstance(change, Create) and isinstance(change.object, Pod):
            other = objects.get(Pod, key(change.object))
            if other is not None and not is_terminating(other):
                return change.object.metadata.name
    return ""


def _report_name_conflict(job: Job, name: str, record: JobRecord) -> list[Change]:
    """Reported once, because nothing else tells the user what the job waits for."""
    if name == record.name_conflict:
        return []
    record.name_conflict = name
    if not name:
        return []
    message = f"Pod {name} cannot be created: another pod has that name. Delete it, or give the job another name."
    return [Notify(job, "FailedCreate", message, warning=True)]


def _expiry(job: Job) -> float | None:
    finished = finished_at(job)
    ttl = job.spec.ttl_seconds_after_finished
    return None if finished is None or ttl is None else finished + ttl


def _pods_to_delete(job: Job, pods: list[Pod], targets: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The names of the pods to delete, each with the reason. `job` has the status after the requested action."""
    phase = job.status.state.phase
    if phase in PHASES_WITHOUT_PODS:
        yield from ((pod.metadata.name, f"its Job is {phase}") for pod in pods if not is_finished(pod))
        return
    # A job without retries left fails now. Its finished pods are kept, because users read their logs and exit codes.
    keeps_finished = job.status.retry_count >= retry_limit(job)
    version = job.status.version
    for pod in pods:
        name = pod.metadata.name
        if version_of(pod.metadata, default=version) != version:
            if not (keeps_finished and is_finished(pod)):
                yield name, "its Job was restarted"
        elif name in targets:
            if not (keeps_finished and is_finished(pod)):
                yield name, "its Job restarts it"
        elif not has_place(job, pod):
            yield name, "its Job was scaled down"
