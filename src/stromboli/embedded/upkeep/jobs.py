"""The controller for Jobs of batch/v1.

Pods carry a finalizer, so that none can vanish before it was counted. A finished pod is counted in three steps, each of
which may be the last before a crash: its uid goes into status.uncountedTerminatedPods; the finalizer is removed; the
uid leaves the list and the counter moves on. So every pod counts once.
"""

from __future__ import annotations

from typing import Any, Final

from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.embedded.kinds import Object, dig
from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Change, ObjectKey, Record

from .pods import FINISHED, deletion_order, is_ready, is_terminating, phase, pod_from_template, pods_of
from .writes import Writes

JOBS: Final = "jobs.batch"
TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
_FIRST_BACKOFF, _LONGEST_BACKOFF = 10.0, 360.0  # seconds after a failed pod until the next one, doubled each time
_MOST_AT_ONCE: Final = 500

Pods = list[tuple[Record, Object]]


class JobController:
    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._store = server.store
        self._deleter = server.deleter
        self._writes = writes
        self._due: dict[ObjectKey, None] = {}
        self._timers: dict[ObjectKey, float] = {}

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource == JOBS:
            self._due[key] = None
        elif key.resource == "pods":
            for owner in change.record.metadata.owner_references:
                if owner.controller and owner.kind == "Job" and owner.api_version == "batch/v1":
                    self._due[ObjectKey(JOBS, key.namespace, owner.name)] = None
                    if change.record.metadata.deletion_timestamp and self._store.by_uid(owner.uid) is None:
                        self._deleter.finish(key, TRACKING)  # nobody is left who would count it

    def start(self) -> None:
        self._due |= dict.fromkeys(record.key for record in self._store.list(JOBS))

    def next_due(self) -> float | None:
        return min(self._timers.values(), default=None)

    def run(self, now: float) -> bool:
        for key in [key for key, due in self._timers.items() if due <= now]:
            del self._timers[key]
            self._due[key] = None
        due, self._due = self._due, {}
        for key in due:
            record = self._store.get(key)
            if record is None:
                self._timers.pop(key, None)
                self._release_orphans(key)
            else:
                self._reconcile(record, now)
        return bool(due)

    def _release_orphans(self, key: ObjectKey) -> None:
        """The Job is gone: nobody counts its pods any more."""
        for pod in self._store.list("pods", key.namespace):
            owned = any(owner.kind == "Job" and owner.name == key.name for owner in pod.metadata.owner_references)
            if owned and TRACKING in pod.metadata.finalizers:
                self._deleter.finish(pod.key, TRACKING)

    def _reconcile(self, record: Record, now: float) -> None:
        value = record.value()
        pods = pods_of(self._store, record.metadata.uid)
        if record.metadata.deletion_timestamp is not None:
            for pod, _ in pods:
                self._deleter.finish(pod.key, TRACKING)
            return
        status: dict[str, Any] = dict(value.get("status") or {})
        before = dict(status)
        self._note_finished(status, pods)
        if status != before:
            self._writes.set_status(record, status, now)
            record = self._store.get(record.key) or record
        self._count(status, value)
        finished = _finished_since(status)
        active = [one for one in pods if phase(one[1]) not in FINISHED and not is_terminating(one[1])]
        if finished is None:
            active = self._progress(record, value, status, active, pods, now)
        status["active"] = len(active)
        status["ready"] = sum(is_ready(pod) for _, pod in active)
        status = {name: part for name, part in status.items() if part not in (0, None, {}, "") or name == "ready"}
        self._writes.set_status(record, status, now)
        self._expire(record, value, status, now)

    # -- counting -----------------------------------------------------------------------------------------------------

    def _note_finished(self, status: dict[str, Any], pods: Pods) -> None:
        uncounted = {key: list(uids) for key, uids in (status.get("uncountedTerminatedPods") or {}).items()}
        noted = {uid for uids in uncounted.values() for uid in uids}
        for record, pod in pods:
            if TRACKING not in record.metadata.finalizers or record.metadata.uid in noted:
                continue
            if phase(pod) in FINISHED or is_terminating(pod):
                outcome = "succeeded" if phase(pod) == "Succeeded" else "failed"
                uncounted.setdefault(outcome, []).append(record.metadata.uid)
                if outcome == "succeeded" and (index := _index_of(pod)) is not None:
                    done = {*_indexes(status.get("completedIndexes", "")), index}
                    status["completedIndexes"] = _ranges(done)
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
            status["succeeded"] = len(_indexes(status.get("completedIndexes", "")))

    # -- progress -----------------------------------------------------------------------------------------------------

    def _progress(
        self, record: Record, job: Object, status: dict[str, Any], active: Pods, pods: Pods, now: float
    ) -> Pods:
        """Start and stop pods, or end the Job. Returns the pods that are active then."""
        spec, stamp = job["spec"], format_timestamp(int(now))
        if spec.get("suspend"):
            self._stop(active, now)
            _set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", stamp)
            status.pop("startTime", None)
            return []
        if any(one["type"] == "Suspended" and one["status"] == "True" for one in status.get("conditions") or ()):
            _set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", stamp)
        status.setdefault("startTime", stamp)
        succeeded, failed = status.get("succeeded", 0), status.get("failed", 0)
        completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
        deadline = spec.get("activeDeadlineSeconds")
        end = parse_timestamp(status["startTime"]) + deadline if deadline else None
        if failed > spec.get("backoffLimit", 6):
            return self._fail(status, active, "BackoffLimitExceeded", "has reached the specified backoff limit", now)
        if end is not None and now >= end:
            return self._fail(status, active, "DeadlineExceeded", "was active longer than specified deadline", now)
        done = succeeded >= completions if completions is not None else succeeded > 0 and not active
        if done:
            self._stop(active, now)
            _set_condition(status, "Complete", "True", "", "", stamp)
            status["completionTime"] = stamp
            return []
        wanted = parallelism if completions is None else min(parallelism, completions - succeeded)
        if completions is None and succeeded:
            wanted = len(active)  # a work queue: after the first success no new pods
        self._stop(deletion_order(active)[: max(0, len(active) - wanted)], now)
        resume = self._resume_at(pods, failed)
        if end is not None:
            self._wake(record.key, end)
        if resume is not None and resume > now:
            self._wake(record.key, resume)
            return active
        missing = min(wanted - len(active), _MOST_AT_ONCE)
        return active + self._start(record, job, status, active, missing, now)

    def _start(
        self, record: Record, job: Object, status: dict[str, Any], active: Pods, missing: int, now: float
    ) -> Pods:
        started: Pods = []
        free: list[int] = []
        indexed = dig(job, "spec", "completionMode") == "Indexed"
        if indexed:
            taken = _indexes(status.get("completedIndexes", "")) | {_index_of(pod) for _, pod in active}
            free = [index for index in range(job["spec"]["completions"]) if index not in taken]
        for number in range(missing):
            body = pod_from_template(job, finalizers=[TRACKING])
            if indexed:
                if number >= len(free):
                    break
                _set_index(body, job, free[number])
            created = self._writes.create_pod(record, body, now)
            if created is None:
                self._wake(record.key, now + _FIRST_BACKOFF)
                break
            started.append((created, created.value()))
        return started

    def _stop(self, pods: Pods, now: float) -> None:
        for pod, _ in pods:
            self._deleter.finish(pod.key, TRACKING)
            self._writes.delete(pod.key, now, uid=pod.metadata.uid)

    def _fail(self, status: dict[str, Any], active: Pods, reason: str, problem: str, now: float) -> Pods:
        self._stop(active, now)
        _set_condition(status, "Failed", "True", reason, f"Job {problem}", format_timestamp(int(now)))
        return []

    def _resume_at(self, pods: Pods, failed: int) -> float | None:
        """When a pod may be started after the last failure."""
        if not failed:
            return None
        ends = [_end_of(pod) for _, pod in pods if phase(pod) == "Failed"]
        if not ends:
            return None
        backoff: float = min(_FIRST_BACKOFF * 2 ** min(failed - 1, 10), _LONGEST_BACKOFF)
        return max(ends) + backoff

    def _expire(self, record: Record, job: Object, status: dict[str, Any], now: float) -> None:
        finished, lifetime = _finished_since(status), dig(job, "spec", "ttlSecondsAfterFinished")
        if finished is None or lifetime is None:
            return
        if now >= finished + lifetime:
            self._writes.delete(record.key, now, uid=record.metadata.uid)
        else:
            self._wake(record.key, finished + lifetime)

    def _wake(self, key: ObjectKey, at: float) -> None:
        self._timers[key] = min(at, self._timers.get(key, at))


def _finished_since(status: dict[str, Any]) -> float | None:
    for one in status.get("conditions") or ():
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return parse_timestamp(one["lastTransitionTime"])
    return None


def _end_of(pod: Object) -> float:
    ends = [
        parse_timestamp(terminated["finishedAt"])
        for one in dig(pod, "status", "containerStatuses", default=[])
        if (terminated := dig(one, "state", "terminated")) and terminated.get("finishedAt")
    ]
    return max(ends, default=parse_timestamp(pod["metadata"]["creationTimestamp"]))


def _set_condition(status: dict[str, Any], name: str, value: str, reason: str, message: str, stamp: str) -> None:
    conditions = [one for one in status.get("conditions") or () if one["type"] != name]
    condition = {"type": name, "status": value, "lastProbeTime": stamp, "lastTransitionTime": stamp}
    if reason:
        condition |= {"reason": reason, "message": message}
    before = [one for one in status.get("conditions") or () if one["type"] == name and one["status"] == value]
    status["conditions"] = [*conditions, before[0] if before else condition]


def _index_of(pod: Object) -> int | None:
    text = dig(pod, "metadata", "annotations", INDEX, default="")
    return int(text) if text.isdigit() else None


def _set_index(pod: Object, job: Object, index: int) -> None:
    metadata = pod["metadata"]
    metadata["annotations"] = {**metadata["annotations"], INDEX: str(index)}
    metadata["labels"] = {**metadata["labels"], INDEX: str(index)}
    metadata["generateName"] = f"{job['metadata']['name']}-{index}-"
    pod["spec"].setdefault("hostname", f"{job['metadata']['name']}-{index}")
    for container in pod["spec"].get("containers") or ():
        env = [one for one in container.get("env") or () if one.get("name") != "JOB_COMPLETION_INDEX"]
        container["env"] = [*env, {"name": "JOB_COMPLETION_INDEX", "value": str(index)}]


def _indexes(text: str) -> set[int | None]:
    """`0,2-4` as a set."""
    found: set[int | None] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _ranges(indexes: set[int | None]) -> str:
    parts: list[list[int]] = []
    for index in sorted(one for one in indexes if one is not None):
        if parts and parts[-1][-1] == index - 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
