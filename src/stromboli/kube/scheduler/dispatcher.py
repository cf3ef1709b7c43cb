"""Turns the decisions of a cycle into writes.

Binds and evictions go to the binder at once. What only people and controllers read goes to the status writer with a
delay: the reason why a pod waits is written only when it has held for a while, because most pods stop waiting before
anybody could read it. A group's phase is written at once only where a controller waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stromboli.api import KObject, Pod, PodGroup, Queue, Reservation, key
from stromboli.api.quantity import format_amount
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Cluster, JobKey, TaskKey
from stromboli.kube.client import POD_GROUPS, PODS, QUEUES
from stromboli.kube.runtime import EventRecorder, Log
from stromboli.scheduling.decisions import (
    Bind,
    Cycle,
    Decision,
    Evict,
    Notice,
    PatchGroup,
    PatchPod,
    PatchQueue,
    Reserve,
    Unreserve,
)
from stromboli.scheduling.explanation import reasons
from stromboli.scheduling.explanation.reasons import Code

from .binder import Binder, BindRequest, EvictRequest, Request
from .reservation_writer import ReservationWriter
from .status_writer import StatusPatch, StatusWriter

_log = Log("dispatcher")

SOON: Final = 1.0  # seconds until a status is written that nothing waits for
REWORDED: Final = 5.0  # seconds until a message is replaced that differs only in its words and numbers
_DRAIN_TIMEOUT: Final = 10.0  # seconds, before a stop, for what is in flight


@dataclass(frozen=True, slots=True)
class TargetedDecision:
    """A decision and the object that it is about, as it was when the decision was taken. Another object may have the
    name by the time the decision is carried out, but never the uid."""

    decision: Decision
    target: KObject | None


def resolve_targets(cycle: Cycle, cluster: Cluster) -> list[TargetedDecision]:
    """Call before the next event is applied to the cluster."""
    return [TargetedDecision(decision, _target(decision, cluster)) for decision in cycle.decisions]


def _target(decision: Decision, cluster: Cluster) -> KObject | None:
    match decision:
        case Bind() | Evict() | PatchPod():
            return _pod(cluster, decision.task)
        case PatchGroup():
            return _group(cluster, decision.job)
        case PatchQueue():
            queue = cluster.queues.get(decision.queue)
            return None if queue is None else queue.object
        case Unreserve():
            return cluster.reservations.get(decision.reservation)
        case Notice(kind="Pod"):
            return _pod(cluster, TaskKey(decision.key))
        case Notice(kind="PodGroup"):
            return _group(cluster, JobKey(decision.key))
        case Notice(kind="ResourceQuota"):
            return cluster.quotas.get(decision.key)
        case _:
            return None


def _pod(cluster: Cluster, task_key: TaskKey) -> Pod | None:
    task = cluster.tasks.get(task_key)
    return None if task is None else task.pod


def _group(cluster: Cluster, job_key: JobKey) -> PodGroup | None:
    job = cluster.jobs.get(job_key)
    return None if job is None else job.object


class Dispatcher:
    def __init__(
        self,
        *,
        binder: Binder,
        status_writer: StatusWriter,
        reservations: ReservationWriter,
        recorder: EventRecorder,
        clock: Callable[[], float],
    ) -> None:
        """`clock` returns the time that objects are stamped with."""
        self._binder = binder
        self._status_writer = status_writer
        self._reservations = reservations
        self._recorder = recorder
        self._clock = clock

    def dispatch(self, decisions: list[TargetedDecision]) -> None:
        """Start all writes, in the order decided, without waiting for any."""
        requests: list[Request] = []
        for entry in decisions:
            target = entry.target
            match entry.decision:
                case Bind() as bind if target is not None:
                    self._status_writer.cancel(PODS, bind.task)
                    requests.append(BindRequest(bind.task, target.metadata.uid, bind.node, bind.backfill))
                case Evict() as evict if target is not None:
                    requests.append(
                        EvictRequest(evict.task, target.metadata.uid, evict.node, evict.reason, evict.message)
                    )
                case Reserve() as reserve:
                    self._reservations.create(reserve.reservation)
                    self._record_for_owner(reserve.reservation, "Reserved", reasons.reserved(reserve.node))
                case Unreserve() as unreserve if isinstance(target, Reservation):
                    self._reservations.delete(target)
                    sentence = reasons.unreserved(unreserve.node, unreserve.reason)
                    self._record_for_owner(target, "Unreserved", sentence)
                case PatchPod() as patch if isinstance(target, Pod):
                    self._patch_pod(patch, target)
                case PatchGroup() as patch if isinstance(target, PodGroup):
                    self._patch_group(patch, target)
                case PatchQueue() as patch if isinstance(target, Queue):
                    self._patch_queue(patch, target)
                case Notice() as notice if target is not None:
                    self._record(target, notice.reason, notice.message, warning=notice.warning)
                case _:
                    pass  # the object was deleted in the meantime
        self._binder.submit(requests)

    async def drain(self) -> None:
        """Before an orderly stop: finish what is in flight, and report what could not be sent in time as failed."""
        try:
            async with asyncio.timeout(_DRAIN_TIMEOUT):
                await self._binder.wait_idle()
                await self._reservations.wait_idle()
                await self._status_writer.flush()
                await self._recorder.flush()
        except TimeoutError:
            _log.warning("some writes did not finish in time", binds=self._binder.outstanding)
            self._binder.cancel_queued("the scheduler stops")

    async def cancel(self) -> None:
        """Do not wait for what is still in flight."""
        await self._reservations.cancel()

    def _patch_pod(self, patch: PatchPod, pod: Pod) -> None:
        # Autoscalers look for the reason Unschedulable only, so our own code is in the message, not in the reason.
        code = Code.SCHEDULING_GATED if patch.reason == Code.SCHEDULING_GATED else "Unschedulable"
        before = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        since = before.last_transition_time if before is not None and before.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": code,
            "message": patch.message,
            "lastTransitionTime": since or format_timestamp(int(self._clock())),
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if patch.nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = patch.nominated or None

        def on_written() -> None:
            self._record(pod, "FailedScheduling", f"{patch.reason}: {patch.message}", warning=True)

        # A nomination reserves the room that evictions made for the pod, so it must survive a restart.
        urgent = "nominatedNodeName" in status
        delay = 0.0 if urgent else SOON if since is None else REWORDED
        # Only for this version of the pod: a condition written after its bind would never be removed.
        meta = pod.metadata
        status_patch = StatusPatch(
            PODS,
            patch.task,
            meta.uid,
            status,
            meta.resource_version,
            strategic=True,
            urgent=urgent,
            on_written=on_written,
        )
        self._status_writer.enqueue(status_patch, delay=delay)

    def _patch_group(self, patch: PatchGroup, group: PodGroup) -> None:
        before = group.status
        if patch.phase == "Inqueue" and before.phase != "Inqueue":
            # The job controller creates a Job's pods once its group is admitted: only this phase is waited for.
            admitted = StatusPatch(POD_GROUPS, patch.job, group.metadata.uid, {"phase": patch.phase}, urgent=True)
            self._status_writer.enqueue(admitted)
            return
        status: dict[str, Any] = {
            "phase": patch.phase,
            "conditions": msgspec.to_builtins(patch.conditions),
            "running": patch.running,
            "succeeded": patch.succeeded,
            "failed": patch.failed,
        }
        unschedulable = next((c for c in patch.conditions if c.type == "Unschedulable"), None)
        known = {c.message for c in before.conditions if c.type == "Unschedulable"}

        def on_written() -> None:
            if unschedulable is not None and unschedulable.message not in known:
                self._record(group, "Unschedulable", unschedulable.message, warning=True)

        new_counts = (patch.phase, patch.running, patch.succeeded, patch.failed)
        old_counts = (before.phase, before.running, before.succeeded, before.failed)
        reworded = new_counts == old_counts and unschedulable is not None and bool(known)
        status_patch = StatusPatch(POD_GROUPS, patch.job, group.metadata.uid, status, on_written=on_written)
        self._status_writer.enqueue(status_patch, delay=REWORDED if reworded else SOON)

    def _patch_queue(self, patch: PatchQueue, queue: Queue) -> None:
        # A merge patch removes only what it names as null.
        allocated: dict[str, str | None] = dict.fromkeys(queue.status.allocated)
        for resource, amount in sorted(patch.allocated.items()):
            allocated[resource] = str(format_amount(resource, amount))
        status_patch = StatusPatch(QUEUES, patch.queue, queue.metadata.uid, {"allocated": allocated})
        self._status_writer.enqueue(status_patch, delay=SOON)

    def _record_for_owner(self, reservation: Reservation, reason: str, message: str) -> None:
        """Record an event about the pod that a reservation is for. The pod itself may be gone."""
        for owner in reservation.spec.owners:
            pod = owner.object
            if pod is not None and pod.kind == "Pod":
                self._recorder.record(Pod, f"{pod.namespace}/{pod.name}", pod.uid, reason, message)

    def _record(self, target: KObject, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.record(type(target), key(target), target.metadata.uid, reason, message, warning=warning)
