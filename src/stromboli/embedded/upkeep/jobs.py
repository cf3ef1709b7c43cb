"""The controller for Jobs of batch/v1.

Pods carry a finalizer, so that none can vanish before it was counted. A finished pod is counted in three steps, each of
which may be the last before a crash: its uid goes into status.uncountedTerminatedPods; the finalizer is removed; the
uid leaves the list and the counter moves on. So every pod counts once.
"""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice
from typing import Any, Final

from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.controllers.index_ranges import format_indexes, parse_indexes
from stromboli.controllers.work_queue import WorkQueue
from stromboli.embedded.kinds import Object, dig
from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Change, ObjectKey, Record

from .owned_pods import INDEX, TRACKING, OwnedPods, PodsOfOwner, deletion_rank
from .pod_template import pod_from_template
from .turn import VISITS, share_of, take
from .writes import Writes

JOBS: Final = "jobs.batch"
_FIRST_BACKOFF, _LONGEST_BACKOFF = 10.0, 360.0  # seconds after a failed pod until the next one, doubled each time


class JobController:
    def __init__(self, server: ApiServer, writes: Writes, pods: OwnedPods) -> None:
        self._store = server.store
        self._deleter = server.deleter
        self._writes = writes
        self._pods = pods
        self._due = WorkQueue()
        self._orphans: dict[ObjectKey, None] = {}  # pods that no Job counts any more

    def on_change(self, change: Change) -> None:
        key, metadata = change.record.key, change.record.metadata
        if key.resource == JOBS:
            self._due.add(f"{key.namespace}/{key.name}")
            if change.type == "DELETED":
                self._due.set_due(f"{key.namespace}/{key.name}", None)
                self._orphans |= dict.fromkeys(self._pods.of(key.namespace, metadata.uid).tracked)
        elif key.resource == "pods":
            owners = [one for one in metadata.owner_references if one.controller and one.kind == "Job"]
            self._due.add_all(f"{key.namespace}/{one.name}" for one in owners if one.api_version == "batch/v1")
            if TRACKING in metadata.finalizers and not any(self._store.by_uid(one.uid) for one in owners):
                self._orphans[key] = None

    def start(self) -> None:
        for resource in (JOBS, "pods"):
            for record in self._store.list(resource):
                self.on_change(Change("ADDED", record, None))

    def next_due(self, now: float) -> float | None:
        return self._due.next_due(now)

    def run(self, now: float) -> bool:
        """A turn. What it does to the pods of a Job makes the Job due again, so what is left is for the next one."""
        due = self._due.take(now, VISITS)
        for key in due:
            namespace, _, name = key.partition("/")
            record = self._store.get(ObjectKey(JOBS, namespace, name))
            if record is not None:
                self._reconcile(record, share_of(due), now)
        orphans = take(self._orphans)
        for pod in orphans:
            self._deleter.finish(pod, TRACKING)
        return bool(due or orphans)

    def _reconcile(self, record: Record, most: int, now: float) -> None:
        """`most`: how many pods it may start, stop or count."""
        value = record.value()
        pods = self._pods.of(record.key.namespace, record.metadata.uid)
        if record.metadata.deletion_timestamp is not None:
            for key in list(islice(pods.tracked, most)):
                self._deleter.finish(key, TRACKING)
            return
        status: dict[str, Any] = dict(value.get("status") or {})
        before = dict(status)
        self._note_finished(status, value, pods, most)
        if status != before:
            self._writes.set_status(record, status, now)
            record = self._store.get(record.key) or record
        self._count(status, value)
        if _finished_since(status) is None:
            self._progress(record, value, status, pods, most, now)
        else:
            self._stop(pods, len(pods.active), most, now)
        pods = self._pods.of(record.key.namespace, record.metadata.uid)
        status["active"] = len(pods.active)
        status["ready"] = pods.ready
        status = {name: part for name, part in status.items() if part not in (0, None, {}, "") or name == "ready"}
        self._writes.set_status(record, status, now)
        self._expire(record, value, status, now)

    # -- counting -----------------------------------------------------------------------------------------------------

    def _note_finished(self, status: dict[str, Any], job: Object, pods: PodsOfOwner, most: int) -> None:
        uncounted = {key: list(uids) for key, uids in (status.get("uncountedTerminatedPods") or {}).items()}
        noted = {uid for uids in uncounted.values() for uid in uids}
        indexes: set[int] = set()
        for pod in islice(pods.to_count.values(), most):
            if pod.uid not in noted:
                outcome = "succeeded" if pod.phase == "Succeeded" else "failed"
                uncounted.setdefault(outcome, []).append(pod.uid)
                if outcome == "succeeded" and pod.index is not None:
                    indexes.add(pod.index)
        if indexes:
            status["completedIndexes"] = format_indexes(_completed(status, job) | indexes)
        if uncounted:
            status["uncountedTerminatedPods"] = uncounted

    def _count(self, status: dict[str, Any], job: Object) -> None:
        for outcome, uids in (status.pop("uncountedTerminatedPods", None) or {}).items():
            for uid in uids:
                record = self._store.by_uid(uid)
                if record is not None:
                    self._deleter.finish(record.key, TRACKING)
                status[outcome] = status.get(outcome, 0) + 1
        if dig(job, "spec", "completionMode") == "Indexed":
            status["succeeded"] = len(_completed(status, job))

    # -- progress -----------------------------------------------------------------------------------------------------

    def _progress(
        self, record: Record, job: Object, status: dict[str, Any], pods: PodsOfOwner, most: int, now: float
    ) -> None:
        """Start and stop pods, or end the Job."""
        spec, stamp = job["spec"], format_timestamp(int(now))
        active = len(pods.active)
        if spec.get("suspend"):
            self._stop(pods, active, most, now)
            _set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", stamp)
            status.pop("startTime", None)
            return
        if any(one["type"] == "Suspended" and one["status"] == "True" for one in status.get("conditions") or ()):
            _set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", stamp)
        status.setdefault("startTime", stamp)
        succeeded, failed = status.get("succeeded", 0), status.get("failed", 0)
        completions = spec.get("completions")
        deadline = spec.get("activeDeadlineSeconds")
        end = parse_timestamp(status["startTime"]) + deadline if deadline else None
        outcome = _outcome(spec, succeeded, failed, active, end, now)
        if outcome is not None:
            name, reason, message = outcome
            self._stop(pods, active, most, now)
            _set_condition(status, name, "True", reason, message, stamp)
            if name == "Complete":
                status["completionTime"] = stamp
            return
        # The server refuses larger Jobs now. One that was stored before must not fill the memory all the same.
        parallelism = min(spec.get("parallelism", 1), MAX_JOB_REPLICAS)
        wanted = parallelism if completions is None else min(parallelism, completions - succeeded)
        if completions is None and succeeded:
            wanted = active  # a work queue: after the first success no new pods
        self._stop(pods, active - wanted, most, now)
        resume = _resume_at(pods, failed)
        if end is not None:
            self._wake(record.key, end)
        if resume is not None and resume > now:
            self._wake(record.key, resume)
        elif wanted > active:
            self._start(record, job, status, pods, min(wanted - active, most), now)

    def _start(
        self, record: Record, job: Object, status: dict[str, Any], pods: PodsOfOwner, missing: int, now: float
    ) -> None:
        indexed = dig(job, "spec", "completionMode") == "Indexed"
        free: list[int] = []
        if indexed:
            taken = _completed(status, job) | {pod.index for pod in pods.active.values() if pod.index is not None}
            left = (index for index in range(job["spec"]["completions"]) if index not in taken)
            free = list(islice(left, missing))
            missing = len(free)
        for number in range(missing):
            body = pod_from_template(job, finalizers=[TRACKING])
            if indexed:
                _set_index(body, job, free[number])
            if self._writes.create_pod(record, body, now) is None:
                self._wake(record.key, now + _FIRST_BACKOFF)
                return

    def _stop(self, pods: PodsOfOwner, many: int, most: int, now: float) -> None:
        for pod in nsmallest(min(many, most), pods.active.values(), key=deletion_rank):
            self._deleter.finish(pod.key, TRACKING)
            self._writes.delete(pod.key, now, uid=pod.uid)

    def _expire(self, record: Record, job: Object, status: dict[str, Any], now: float) -> None:
        finished, lifetime = _finished_since(status), dig(job, "spec", "ttlSecondsAfterFinished")
        if finished is None or lifetime is None:
            return
        if now >= finished + lifetime:
            self._writes.delete(record.key, now, uid=record.metadata.uid)
        else:
            self._wake(record.key, finished + lifetime)

    def _wake(self, key: ObjectKey, at: float) -> None:
        name = f"{key.namespace}/{key.name}"
        known = self._due.due(name)
        self._due.set_due(name, at if known is None else min(at, known))


def _outcome(
    spec: Object, succeeded: int, failed: int, active: int, end: float | None, now: float
) -> tuple[str, str, str] | None:
    """The condition with which a Job ends, its reason and its message."""
    if failed > spec.get("backoffLimit", 6):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if end is not None and now >= end:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    completions = spec.get("completions")
    is_done = succeeded >= completions if completions is not None else succeeded > 0 and not active
    return ("Complete", "", "") if is_done else None


def _resume_at(pods: PodsOfOwner, failed: int) -> float | None:
    """When a pod may be started after the last failure."""
    if not failed or pods.last_failure is None:
        return None
    backoff: float = min(_FIRST_BACKOFF * 2 ** min(failed - 1, 10), _LONGEST_BACKOFF)
    return pods.last_failure + backoff


def _completed(status: dict[str, Any], job: Object) -> set[int]:
    return {*parse_indexes(status.get("completedIndexes", ""), dig(job, "spec", "completions", default=0))}


def _finished_since(status: dict[str, Any]) -> float | None:
    for one in status.get("conditions") or ():
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return parse_timestamp(one["lastTransitionTime"])
    return None


def _set_condition(status: dict[str, Any], name: str, value: str, reason: str, message: str, stamp: str) -> None:
    conditions = [one for one in status.get("conditions") or () if one["type"] != name]
    condition = {"type": name, "status": value, "lastProbeTime": stamp, "lastTransitionTime": stamp}
    if reason:
        condition |= {"reason": reason, "message": message}
    before = [one for one in status.get("conditions") or () if one["type"] == name and one["status"] == value]
    status["conditions"] = [*conditions, before[0] if before else condition]


def _set_index(pod: Object, job: Object, index: int) -> None:
    metadata = pod["metadata"]
    metadata["annotations"] = {**metadata["annotations"], INDEX: str(index)}
    metadata["labels"] = {**metadata["labels"], INDEX: str(index)}
    metadata["generateName"] = f"{job['metadata']['name']}-{index}-"
    pod["spec"].setdefault("hostname", f"{job['metadata']['name']}-{index}")
    for container in pod["spec"].get("containers") or ():
        env = [one for one in container.get("env") or () if one.get("name") != "JOB_COMPLETION_INDEX"]
        container["env"] = [*env, {"name": "JOB_COMPLETION_INDEX", "value": str(index)}]
