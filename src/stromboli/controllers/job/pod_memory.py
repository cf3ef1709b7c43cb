"""What the status of a Job remembers about its pods, so that the next leader knows it as well.

    livePods         by task, the indexes of the pods that existed and had not finished
    lostPods         by pod, when it was lost; until a policy acts on it or its replacement runs
    restartingPods   by task, the indexes of the pods that a targeted restart still has to delete

A failed pod can be seen for as long as it exists. An evicted one is gone, and if no controller ran at that moment,
nobody saw it go. But it was among the live pods of the status, and now it is missing: that is how a new leader finds
it. The controller takes a pod out of `livePods` before it deletes the pod itself, so its own deletions are not losses.

A targeted restart is one decision and many deletions. Until the last one succeeds, `restartingPods` says what is left.
The pods meant are those of an earlier retry; their replacements have the same indexes and the current retry count. So
a failure is counted once, however long the failed pod stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from stromboli.api import Job, JobStatus, Pod, names
from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.controllers.index_ranges import format_indexes, parse_indexes
from stromboli.controllers.pod_owners import is_finished, is_terminating

from .job_pods import new_pod, parse_pod_name, version_of
from .job_record import LostPods
from .state_machine import PHASES_WITHOUT_PODS


def lost_before(job: Job, pods: Iterable[Pod], now: float) -> LostPods:
    """The pods that were lost while this controller did not watch, or that an earlier one still had to handle."""
    version = job.status.version
    present = {
        pod.metadata.name
        for pod in pods
        if not is_terminating(pod) and version_of(pod.metadata, default=version) == version
    }
    lost: LostPods = {}
    for task in job.spec.tasks:
        for index in sorted(parse_indexes(job.status.live_pods.get(task.name, ""), task.replicas)):
            name = f"{job.metadata.name}-{task.name}-{index}"
            if name not in present:
                lost[name] = (new_pod(job, task, index), now)
    tasks = {task.name: task for task in job.spec.tasks}
    for name, since in job.status.lost_pods.items():
        parsed = parse_pod_name(job, name)
        at = _time(since)
        if parsed is not None and parsed[0] in tasks and at is not None:
            lost[name] = (new_pod(job, tasks[parsed[0]], parsed[1]), at)
    return lost


def restarting_pods(job: Job, pods: Iterable[Pod]) -> frozenset[str]:
    """The names of the pods that a targeted restart decided to delete and that are still there."""
    if not job.status.restarting_pods:
        return frozenset()
    meant = {
        task.name: parse_indexes(job.status.restarting_pods.get(task.name, ""), task.replicas)
        for task in job.spec.tasks
    }
    found = []
    for pod in pods:
        parsed = parse_pod_name(job, pod.metadata.name)
        if parsed is None or parsed[1] not in meant.get(parsed[0], ()) or is_terminating(pod):
            continue
        if _retry_count(pod) < job.status.retry_count:
            found.append(pod.metadata.name)
    return frozenset(found)


def with_pod_memory(
    status: JobStatus, job: Job, remaining: Iterable[Pod], *, lost: LostPods, restarting: Collection[str]
) -> JobStatus:
    """The status with what must be known to the next leader. `remaining` are the pods that are not being deleted."""
    if status.state.phase in PHASES_WITHOUT_PODS:
        forgotten: JobStatus = replace(status, live_pods={}, lost_pods={}, restarting_pods={})
        return forgotten
    live = _indexes_by_task(job, (pod.metadata.name for pod in remaining if not is_finished(pod)))
    remembered: JobStatus = replace(
        status,
        live_pods=live,
        lost_pods={name: format_timestamp(at) for name, (_, at) in sorted(lost.items())},
        restarting_pods=_indexes_by_task(job, restarting),
    )
    return remembered


def _indexes_by_task(job: Job, pod_names: Iterable[str]) -> dict[str, str]:
    indexes: dict[str, list[int]] = {}
    for name in pod_names:
        parsed = parse_pod_name(job, name)
        if parsed is not None:
            indexes.setdefault(parsed[0], []).append(parsed[1])
    return {task: format_indexes(found) for task, found in sorted(indexes.items())}


def _retry_count(pod: Pod) -> int:
    text = pod.metadata.annotations.get(names.JOB_RETRY_COUNT, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


def _time(text: str) -> float | None:
    try:
        return parse_timestamp(text)
    except ValueError:
        return None
