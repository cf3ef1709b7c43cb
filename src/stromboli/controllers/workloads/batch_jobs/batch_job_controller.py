"""The controller for Jobs of `batch/v1`.

A visit counts the pods that have finished (`pod_counts`), decides whether the Job has ended (`outcome`), and starts or
stops pods. After a failure it waits before it starts the next pod: 10 seconds, and twice as long each time.

In a simulation a pod that was evicted is replaced one second later. It counts as failed, unless `podFailurePolicy` says
to ignore the condition DisruptionTarget, as on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import islice

from msgspec.structs import replace

from stromboli.api import BatchJob, BatchJobStatus, Pod, key
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update
from stromboli.controllers.workloads.owned_pods import OwnedPods, PodsOfOwner
from stromboli.controllers.workloads.pod_names import PodNames
from stromboli.controllers.workloads.replacement_times import (
    REPLACEMENT_DELAY,
    read_numbers,
    with_replacements,
)
from stromboli.controllers.workloads.replica_sets import stand_in
from stromboli.controllers.workloads.surroundings import UNLIMITED, Surroundings
from stromboli.controllers.workloads.workload_controller import WorkloadController

from .new_pods import new_pods
from .outcome import Outcome, deadline_of, ended_at, ending, is_suspended, outcome_of, resume_at, set_condition
from .pod_counts import Counted, count, releases

_OURS = ("", "kubernetes.io/job-controller")


class BatchJobController(WorkloadController[BatchJob]):
    kind = BatchJob

    def __init__(self, pods: OwnedPods, surroundings: Surroundings) -> None:
        super().__init__(pods, surroundings)
        self._loose: dict[str, None] = {}  # keys of pods that wait to be counted, and that no Job has

    # -- pods that nobody counts any more -----------------------------------------------------------------------

    def pod_is_loose(self, pod: Pod) -> None:
        """It waits to be counted, and no Job controls it."""
        self._loose[key(pod)] = None

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        loose = list(islice(self._loose, self._in.writes or UNLIMITED))
        for pod_key in loose:
            del self._loose[pod_key]
        return [*releases(iter(loose), objects), *super().reconcile(objects, now)]

    @property
    def unfinished(self) -> bool:
        return bool(self._loose) or super().unfinished

    def _left_over(self, owner: str, present: BatchJob | None, objects: Objects, most: int) -> Iterable[Change]:
        """The pods of a Job of that name that is gone."""
        namespace, _, name = owner.partition("/")
        uid = "" if present is None else present.metadata.uid
        for other in self._pods.others(self.kind().kind, namespace, name, uid):
            tracked = self._pods.of(self.kind().kind, namespace, name, other).tracked
            yield from releases(islice(list(tracked), most), objects)
            if len(tracked) <= most:
                self._pods.owner_deleted(self.kind().kind, namespace, name, other)

    # -- a visit ------------------------------------------------------------------------------------------------

    def _visit(self, owner: BatchJob, objects: Objects, most: int, now: float) -> Iterable[Change]:
        pods = self._pods_of(owner)
        if owner.metadata.deletion_timestamp is not None:
            yield from releases(islice(list(pods.tracked), most), objects)
            return
        if owner.spec.managed_by not in _OURS:
            return
        counted = count(owner, pods, objects, most, may_lose=self._in.is_virtual)
        status, stamp = counted.status, self._in.stamp(now)
        self._queue.set_due(key(owner), None)
        made: list[Pod] = []
        names = PodNames(owner, pods.pods.values(), objects, self._in)
        delayed = self._delayed(owner, counted.lost, now)
        surplus = len(pods.active)
        if ending(status) is None:
            outcome = self._outcome(owner, counted, pods, now)
            if outcome is not None:
                set_condition(status, outcome.type, "True", outcome.reason, outcome.message, stamp)
                status.completion_time = stamp if outcome.type == "Complete" else None
            elif owner.spec.suspend:
                set_condition(status, "Suspended", "True", "JobSuspended", "The Job is suspended.", stamp)
                status.start_time = None
            else:
                if is_suspended(status):
                    set_condition(status, "Suspended", "False", "JobResumed", "The Job goes on.", stamp)
                if status.start_time is None:
                    status.start_time = stamp
                missing = self._missing(owner, status, pods, now)
                surplus = -missing
                missing = min(missing - sum(delayed.values()), most)
                made = list(new_pods(owner, status, pods, names, missing))
        leaving = nsmallest(min(surplus, most), pods.active.values(), key=lambda pod: pod.rank) if surplus > 0 else []
        status.active = len(pods.active) - len(leaving)
        status.ready = min(pods.ready, status.active)
        yield from self._write(owner, status, names, delayed)
        yield from counted.changes
        yield from releases((pod.key for pod in leaving), objects)
        for pod in leaving:
            yield Delete(stand_in(pod), reason="its Job needs it no longer")
        for pod_made in made:
            yield Create(pod_made, owner.spec.template)
        yield from self._expire(owner, status, now)

    def _write(
        self, owner: BatchJob, status: BatchJobStatus, names: PodNames, delayed: dict[float, int]
    ) -> Iterator[Change]:
        annotations = names.annotations()
        if self._in.is_virtual:
            annotations = with_replacements(annotations, {due: str(many) for due, many in delayed.items()})
        if status != owner.status or annotations != owner.metadata.annotations:
            yield Update(replace(owner, metadata=replace(owner.metadata, annotations=annotations), status=status))

    def _outcome(self, owner: BatchJob, counted: Counted, pods: PodsOfOwner, now: float) -> Outcome | None:
        status = counted.status
        if counted.failed_by:
            return Outcome("Failed", "PodFailurePolicy", counted.failed_by)
        if status.uncounted_terminated_pods is not None and not _is_overdue(owner, status, now):
            return None  # they are counted in the next visit
        return outcome_of(owner, status, len(pods.active), pods.restarts, now)

    def _missing(self, owner: BatchJob, status: BatchJobStatus, pods: PodsOfOwner, now: float) -> int:
        """How many pods are to be started now; below 0, to be stopped."""
        spec, uncounted = owner.spec, status.uncounted_terminated_pods
        to_come = 0 if uncounted is None else len(uncounted.succeeded)
        succeeded = status.succeeded + to_come
        # A server refuses larger Jobs now. One that was stored before must not fill the memory all the same.
        parallelism = min(1 if spec.parallelism is None else spec.parallelism, MAX_JOB_REPLICAS)
        active = len(pods.active)
        if spec.completions is not None:
            wanted = min(parallelism, spec.completions - succeeded)
        else:
            wanted = min(active, parallelism) if succeeded else parallelism  # a work queue: no new ones after a success
        self._wake(key(owner), deadline_of(owner, status))
        if wanted <= active:
            return wanted - active
        failed = status.failed + (0 if uncounted is None else len(uncounted.failed))
        resume = resume_at(failed, pods.last_failure)
        if resume is not None and resume > now:
            self._wake(key(owner), resume)
            return 0
        going = pods.unfinished - active if _replaces_late(owner) else 0
        return max(0, wanted - active - going)

    def _delayed(self, owner: BatchJob, lost: int, now: float) -> dict[float, int]:
        """How many pods are to be replaced later, by the time."""
        if not self._in.is_virtual:
            return {}
        delayed = read_numbers(owner.metadata, now)
        if lost:
            delayed[now + REPLACEMENT_DELAY] = delayed.get(now + REPLACEMENT_DELAY, 0) + lost
        self._wake(key(owner), min(delayed, default=None))
        return delayed

    def _expire(self, owner: BatchJob, status: BatchJobStatus, now: float) -> Iterator[Change]:
        lifetime, ended = owner.spec.ttl_seconds_after_finished, ended_at(status)
        if lifetime is None or ended is None:
            return
        if now >= ended + lifetime:
            yield Delete(owner, reason=f"it ended {lifetime} seconds ago")
        else:
            self._wake(key(owner), ended + lifetime)


def _is_overdue(owner: BatchJob, status: BatchJobStatus, now: float) -> bool:
    end = deadline_of(owner, status)
    return end is not None and now >= end


def _replaces_late(owner: BatchJob) -> bool:
    """Whether a pod that is going is replaced only when it is gone."""
    policy = owner.spec.pod_replacement_policy
    return policy == "Failed" or (not policy and owner.spec.pod_failure_policy is not None)
