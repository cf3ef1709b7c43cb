"""Writes what the scheduler says about objects: the condition PodScheduled of a waiting pod and its nominated node, the
phase and conditions of a PodGroup, what a Queue has allocated.

Most of it is for people, so it has a delay: the reason why a pod waits is written only when it has held for a while,
because most pods stop waiting before anybody could read it. At once goes what something waits for: the admission of a
group, and a nomination, which must survive a restart. `status_patch_queue` sends the patches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from stromboli.api import KObject, Pod, PodGroup, Queue, Reservation, key
from stromboli.api.quantity import format_amount
from stromboli.api.timestamps import format_timestamp
from stromboli.api.upstream import UpstreamGroup, conditions_to_write
from stromboli.cluster import TaskKey
from stromboli.cluster.refused_bind import REFUSED_CONDITION
from stromboli.kube.client import POD_GROUPS, PODS, QUEUES, RESERVATIONS, resource_of
from stromboli.kube.runtime import EventRecorder
from stromboli.scheduling.decisions import PatchGroup, PatchPod, PatchQueue, PatchReservation
from stromboli.scheduling.explanation.reasons import Code

from .status_patch_queue import StatusPatch, StatusPatchQueue

SOON: Final = 1.0  # seconds until a status is written that nothing waits for
REWORDED: Final = 5.0  # seconds until a message is replaced that differs only in its words and numbers


class StatusWriter:
    def __init__(self, patches: StatusPatchQueue, recorder: EventRecorder, clock: Callable[[], float]) -> None:
        """`clock` returns the time that conditions are stamped with."""
        self._patches = patches
        self._recorder = recorder
        self._clock = clock

    def write_pod(self, patch: PatchPod, pod: Pod) -> None:
        """Why a pod waits, as its condition PodScheduled, and the node that it is nominated for."""
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
        if patch.refused:
            status["conditions"].append(
                {"type": REFUSED_CONDITION, "status": "True", "reason": "Refused", "message": patch.refused}
            )
        if patch.nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = patch.nominated or None

        def on_written() -> None:
            self._warn(pod, "FailedScheduling", f"{patch.reason}: {patch.message}")

        # A nomination reserves the room that evictions made for the pod, so it must survive a restart.
        urgent = "nominatedNodeName" in status
        reworded = since is not None and not urgent
        delay = 0.0 if urgent else REWORDED if reworded else SOON
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
            reworded=reworded,
            on_written=on_written,
        )
        self._patches.enqueue(status_patch, delay=delay)

    def write_group(self, patch: PatchGroup, group: PodGroup) -> None:
        """Phase, conditions and counts of a PodGroup."""
        if isinstance(group, UpstreamGroup):
            self._write_upstream_group(patch, group)
            return
        before = group.status
        if patch.phase == "Inqueue" and before.phase != "Inqueue":
            # The job controller creates a Job's pods once its group is admitted: only this phase is waited for.
            admitted = StatusPatch(POD_GROUPS, patch.job, group.metadata.uid, {"phase": patch.phase}, urgent=True)
            self._patches.enqueue(admitted)
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
                self._warn(group, "Unschedulable", unschedulable.message)

        new_counts = (patch.phase, patch.running, patch.succeeded, patch.failed)
        old_counts = (before.phase, before.running, before.succeeded, before.failed)
        reworded = new_counts == old_counts and unschedulable is not None and bool(known)
        status_patch = StatusPatch(
            POD_GROUPS, patch.job, group.metadata.uid, status, reworded=reworded, on_written=on_written
        )
        self._patches.enqueue(status_patch, delay=REWORDED if reworded else SOON)

    def _write_upstream_group(self, patch: PatchGroup, group: UpstreamGroup) -> None:
        """The conditions of a group of scheduling.k8s.io. Those of others stay as they are."""
        written, gone = conditions_to_write(group, patch.applied_to(group).status, format_timestamp(int(self._clock())))
        conditions: list[dict[str, Any]] = msgspec.to_builtins(written)
        conditions += ({"type": kind, "$patch": "delete"} for kind in gone)
        waits = next((c for c in patch.conditions if c.type == "Unschedulable"), None)
        before = next((c for c in group.status.conditions if c.type == "Unschedulable"), None)

        def on_written() -> None:
            if waits is not None and (before is None or before.message != waits.message):
                self._warn(group, "Unschedulable", waits.message)

        reworded = waits is not None and before is not None and patch.phase == group.status.phase
        status_patch = StatusPatch(
            resource_of(type(group.original)), patch.job, group.metadata.uid, {"conditions": conditions},
            strategic=True, reworded=reworded, on_written=on_written,
        )  # fmt: skip
        self._patches.enqueue(status_patch, delay=REWORDED if reworded else SOON)

    def write_queue(self, patch: PatchQueue, queue: Queue) -> None:
        """What the pods of a Queue hold."""
        # A merge patch removes only what it names as null.
        allocated: dict[str, str | None] = dict.fromkeys(queue.status.allocated)
        for resource, amount in sorted(patch.allocated.items()):
            allocated[resource] = str(format_amount(resource, amount))
        status_patch = StatusPatch(QUEUES, patch.queue, queue.metadata.uid, {"allocated": allocated})
        self._patches.enqueue(status_patch, delay=SOON)

    def write_reservation(self, patch: PatchReservation, reservation: Reservation) -> None:
        """Why a Reservation still waits for a node, or has no use for a pod."""
        conditions = msgspec.to_builtins(patch.applied_to(reservation).status.conditions)
        meta = reservation.metadata
        reworded = bool(reservation.status.conditions)

        def on_written() -> None:
            if patch.event:
                self._warn(reservation, patch.event, patch.conditions[-1].message)

        status_patch = StatusPatch(
            RESERVATIONS, patch.reservation, meta.uid, {"conditions": conditions}, meta.resource_version,
            reworded=reworded, on_written=on_written,
        )  # fmt: skip
        self._patches.enqueue(status_patch, delay=REWORDED if reworded else SOON)

    def cancel_pod(self, task: TaskKey) -> None:
        """The pod is about to be bound: why it waited is of no interest any more."""
        self._patches.cancel(PODS, task)

    async def flush(self) -> None:
        """Write everything now, due or not: before an orderly stop."""
        await self._patches.flush()

    def _warn(self, target: KObject, reason: str, message: str) -> None:
        self._recorder.record(type(target), key(target), target.metadata.uid, reason, message, warning=True)
