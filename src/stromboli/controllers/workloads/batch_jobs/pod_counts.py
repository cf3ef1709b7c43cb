"""Counting the pods of a Job, each once, whatever crashes.

Pods carry a finalizer, so that none vanishes before it was counted. A pod that has finished, or is deleted, is counted
in steps, each of which may be the last before a crash:

    1. its uid is noted in `status.uncountedTerminatedPods`; the index of one that has succeeded is written down
    2. the finalizer is removed
    3. its uid leaves the list, and the counter moves on

In a simulation evicted pods vanish at once, finalizer or not. How many there were is in the status (`active`), so what
is missing was lost, also if the controller has been away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from stromboli.api import BatchJob, BatchJobStatus, Pod, UncountedPods
from stromboli.controllers.changes import Change, Objects, Update
from stromboli.controllers.index_ranges import format_indexes, parse_indexes
from stromboli.controllers.workloads.owned_pods import TRACKING, OwnedPod, PodsOfOwner

from .failure_policy import DISRUPTED, Verdict, verdict_on


@dataclass(slots=True)
class Counted:
    status: BatchJobStatus
    changes: list[Change] = field(default_factory=list)
    failed_by: str = ""  # why the failure policy fails the Job
    lost: int = 0  # pods that vanished


@dataclass(slots=True)
class _Ended:
    """Pods that have ended: those that are noted, by uid, and those that may go."""

    succeeded: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    indexes: set[int] = field(default_factory=set)  # of those that have succeeded since
    released: list[OwnedPod] = field(default_factory=list)

    def uncounted(self) -> UncountedPods | None:
        if not self.succeeded and not self.failed:
            return None
        return UncountedPods(succeeded=self.succeeded, failed=self.failed)


def count(job: BatchJob, pods: PodsOfOwner, objects: Objects, most: int, *, may_lose: bool) -> Counted:
    """`may_lose`: pods may vanish before they are counted."""
    before = job.status
    known = before.uncounted_terminated_pods or UncountedPods()
    noted = {*known.succeeded, *known.failed}
    held = {pod.uid: pod for pod in pods.to_count.values()}
    counted = Counted(replace(before))
    status, ended = counted.status, _Ended()
    ended.released = [held[uid] for uid in (*known.succeeded, *known.failed) if uid in held]
    status.succeeded += sum(uid not in held for uid in known.succeeded)
    status.failed += sum(uid not in held for uid in known.failed)
    ended.succeeded = [uid for uid in known.succeeded if uid in held]
    ended.failed = [uid for uid in known.failed if uid in held]
    new = list(islice((pod for pod in pods.to_count.values() if pod.uid not in noted), most))
    for pod in new:
        _add(pod, ended, counted, job, objects)
    if may_lose:
        _count_lost(job, counted, before.active - len(pods.active) - len(new))
    status.uncounted_terminated_pods = ended.uncounted()
    if ended.indexes:
        status.completed_indexes = format_indexes(completed(job) | ended.indexes)
    if job.spec.completion_mode == "Indexed":
        done = parse_indexes(status.completed_indexes, job.spec.completions or 0)
        status.succeeded = len(done) - len(ended.succeeded)
    counted.changes = list(releases((pod.key for pod in ended.released), objects))
    return counted


def _add(pod: OwnedPod, ended: _Ended, counted: Counted, job: BatchJob, objects: Objects) -> None:
    if pod.phase == "Succeeded":
        ended.succeeded.append(pod.uid)
        if pod.index is not None:
            ended.indexes.add(pod.index)
        return
    verdict = _judged(job, pod, objects)
    if verdict.action == "Ignore":
        ended.released.append(pod)
        return
    ended.failed.append(pod.uid)
    if verdict.action == "FailJob":
        counted.failed_by = verdict.why


def completed(job: BatchJob) -> set[int]:
    return parse_indexes(job.status.completed_indexes, job.spec.completions or 0)


def releases(pods: Iterator[str], objects: Objects) -> Iterator[Change]:
    """Let pods go: they are counted, or not to be counted."""
    for pod_key in pods:
        pod = objects.get(Pod, pod_key)
        if pod is not None and TRACKING in pod.metadata.finalizers:
            left = [one for one in pod.metadata.finalizers if one != TRACKING]
            yield Update(replace(pod, metadata=replace(pod.metadata, finalizers=left)))


def _judged(job: BatchJob, pod: OwnedPod, objects: Objects) -> Verdict:
    policy = job.spec.pod_failure_policy
    if policy is None:
        return Verdict()
    whole = objects.get(Pod, pod.key)
    return Verdict() if whole is None else verdict_on(policy, whole.status, pod.key)


def _count_lost(job: BatchJob, counted: Counted, lost: int) -> None:
    counted.lost = max(0, lost)
    if not counted.lost:
        return
    policy = job.spec.pod_failure_policy
    verdict = Verdict() if policy is None else verdict_on(policy, DISRUPTED, f"{counted.lost} evicted pods")
    if verdict.action != "Ignore":
        counted.status.failed += counted.lost
    if verdict.action == "FailJob":
        counted.failed_by = verdict.why
