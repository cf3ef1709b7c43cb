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


def count(job: BatchJob, pods: PodsOfOwner, objects: Objects, most: int, *, may_lose: bool) -> Counted:
    """`may_lose`: pods may vanish before they are counted."""
    before = job.status
    known = before.uncounted_terminated_pods or UncountedPods()
    noted = {*known.succeeded, *known.failed}
    held = {pod.uid: pod for pod in pods.to_count.values()}
    counted = Counted(replace(before))
    status = counted.status
    released = [held[uid] for uid in (*known.succeeded, *known.failed) if uid in held]
    status.succeeded += sum(uid not in held for uid in known.succeeded)
    status.failed += sum(uid not in held for uid in known.failed)
    succeeded = [uid for uid in known.succeeded if uid in held]
    failed = [uid for uid in known.failed if uid in held]
    indexes: set[int] = set()
    new = list(islice((pod for pod in pods.to_count.values() if pod.uid not in noted), most))
    for pod in new:
        if pod.phase == "Succeeded":
            succeeded.append(pod.uid)
            if pod.index is not None:
                indexes.add(pod.index)
            continue
        verdict = _judged(job, pod, objects)
        if verdict.action == "Ignore":
            released.append(pod)
            continue
        failed.append(pod.uid)
        if verdict.action == "FailJob":
            counted.failed_by = verdict.why
    if may_lose:
        _count_lost(job, counted, before.active - len(pods.active) - len(new))
    status.uncounted_terminated_pods = (
        UncountedPods(succeeded=succeeded, failed=failed) if succeeded or failed else None
    )
    if indexes:
        status.completed_indexes = format_indexes(completed(job) | indexes)
    if job.spec.completion_mode == "Indexed":
        status.succeeded = len(parse_indexes(status.completed_indexes, job.spec.completions or 0)) - len(succeeded)
    counted.changes = list(releases((pod.key for pod in released), objects))
    return counted


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
