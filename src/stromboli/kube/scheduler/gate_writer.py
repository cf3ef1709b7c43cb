"""Removes the gates of pods that their queues have room for.

The write can come twice without harm: no gate can be added to a pod that exists, and the uid keeps it from another pod
of that name. What fails is reported, so that a later cycle decides again; after a pause that grows, because a server
that refuses a write refuses it a moment later as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from stromboli.api import KObject, Pod, key, names
from stromboli.cluster import UngateFailed
from stromboli.containment import ObjectRef
from stromboli.kube.client import PODS, Client, Failure, TokenBucket, is_not_found
from stromboli.kube.runtime import REQUEST_TIMEOUT, EventRecorder, Fence, Log, in_time
from stromboli.scheduling.decisions import Ungate

_log = Log("gates")

CONCURRENCY: Final = 32  # requests in flight
FIRST_PAUSE: Final = 1.0  # seconds until a failure is reported; doubles with each of a pod
LONGEST_PAUSE: Final = 60.0
MOST_REMEMBERED: Final = 10_000  # pods with failures; some of them are deleted, and nobody says so here


class GateWriter:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        bucket: TokenBucket,
        report: Callable[[UngateFailed, str], None],
        on_object: Callable[[KObject], None],
        recorder: EventRecorder,
        contain: Callable[[Exception, ObjectRef], None],
        timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        """`report` gets failures, for the scheduler, with the uid of the pod; `on_object` the pod as the server returns
        it; `contain` is told of errors in our code."""
        self._client = client
        self._fence = fence
        self._bucket = bucket
        self._report = report
        self._on_object = on_object
        self._recorder = recorder
        self._contain = contain
        self._timeout = timeout
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}  # by the uid of a pod
        self._pauses: set[asyncio.Task[None]] = set()

    def write(self, decision: Ungate, pod: Pod) -> None:
        task = asyncio.create_task(self._write_contained(decision, pod))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def wait_idle(self) -> None:
        while self._in_flight:
            await asyncio.gather(*self._in_flight)

    async def cancel(self) -> None:
        tasks = [*self._in_flight, *self._pauses]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_contained(self, decision: Ungate, pod: Pod) -> None:
        try:
            await self._write(decision, pod)
        except Exception as error:
            self._contain(error, ObjectRef("Pod", decision.task))
            self._failed(decision, pod)

    async def _write(self, decision: Ungate, pod: Pod) -> None:
        async with self._slots:
            await self._bucket.take()
            if not self._fence.is_leader:
                self._report(UngateFailed(decision.task), pod.metadata.uid)
                return
            try:
                request = self._client.patch(PODS, decision.task, patch_of(pod), strategic=True)
                written = await in_time(request, self._timeout)
            except Failure as failure:
                if is_not_found(failure):
                    self._failures.pop(pod.metadata.uid, None)
                else:
                    _log.warning("cannot remove a gate", object=decision.task, failure=failure.message)
                    self._failed(decision, pod)
                return
            self._failures.pop(pod.metadata.uid, None)
            self._on_object(written)
            message = f"Queue {decision.queue} has room for the pod."
            self._recorder.record(Pod, key(pod), pod.metadata.uid, "Ungated", message)

    def _failed(self, decision: Ungate, pod: Pod) -> None:
        uid = pod.metadata.uid
        if len(self._failures) >= MOST_REMEMBERED:
            self._failures.clear()
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30))
        task = asyncio.create_task(self._report_later(decision, uid, pause))
        self._pauses.add(task)
        task.add_done_callback(self._pauses.discard)

    async def _report_later(self, decision: Ungate, uid: str, pause: float) -> None:
        await asyncio.sleep(pause)
        self._report(UngateFailed(decision.task), uid)


def patch_of(pod: Pod) -> dict[str, Any]:
    """A strategic merge patch, which removes this gate and no other."""
    gate = {"name": names.QUEUE_ALLOCATION_GATE, "$patch": "delete"}
    return {"metadata": {"uid": pod.metadata.uid}, "spec": {"schedulingGates": [gate]}}
