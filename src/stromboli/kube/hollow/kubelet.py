"""Moves the pods on hollow nodes through their lifecycle, as kubelets would.

One watch shows the pods of all nodes. A pod that changed, or whose next step is due, is put into a queue. A bounded
number of workers take pods from it, ask pod_lifecycle.py for the next step of the pod as it is *then*, and execute it.
So no queued write can be outdated. Only one worker at a time handles a pod, and a failed write puts the pod into the
queue again, with backoff.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from typing import Final

from stromboli.api import Pod, key
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import PODS, Backoff, Client, Failure, Reflector, TokenBucket, is_not_found
from stromboli.kube.runtime import Log

from .pod_lifecycle import PatchStatus, Step, Wait, next_step

_WRITERS: Final = 32
_WRITES_PER_SECOND: Final = 1000

_log = Log("hollow")


class HollowKubelet:
    """Runs the pods that are bound to these nodes."""

    def __init__(
        self,
        client: Client,
        nodes: Container[str],
        *,
        lost: Container[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Pods on nodes that are `lost` stay as they are, until `resume`."""
        self._client = client
        self._nodes = nodes
        self._lost = lost
        self._clock = clock
        self._bucket = TokenBucket(_WRITES_PER_SECOND, _WRITES_PER_SECOND, clock=asyncio.get_running_loop().time)
        self._pods = Reflector(client, PODS, self._on_event, field_selector="spec.nodeName!=")
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._busy: set[str] = set()  # pods that a worker handles now
        self._dirty: set[str] = set()  # those of them that changed in the meantime
        self._timers: dict[str, asyncio.TimerHandle] = {}  # pods to be queued later
        self._backoffs: dict[str, Backoff] = {}  # of pods whose last write failed
        self._started: dict[str, float] = {}  # by uid; more precise than the whole seconds in the object

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pods.run())
                for _ in range(_WRITERS):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    def unfinished(self) -> int:
        """How many pods have not finished."""
        pods = self._pods.objects.values()
        return sum(self._is_ours(pod) and pod.status.phase not in ("Succeeded", "Failed") for pod in pods)

    def resume(self, node: str) -> None:
        """A node is back: continue with its pods."""
        for name, pod in self._pods.objects.items():
            if pod.spec.node_name == node:
                self._enqueue(name)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.node_name in self._nodes

    # -- queue ------------------------------------------------------------------------------------------------------

    def _on_event(self, event: Applied | Deleted) -> None:
        pod = event.object
        assert isinstance(pod, Pod)
        if not self._is_ours(pod):
            return
        name = key(pod)
        if isinstance(event, Applied):
            self._enqueue(name)
        else:
            self._started.pop(pod.metadata.uid, None)
            self._backoffs.pop(name, None)
            self._cancel_timer(name)

    def _enqueue(self, name: str) -> None:
        self._cancel_timer(name)
        if name in self._busy:
            self._dirty.add(name)
        elif name not in self._queued:
            self._queued.add(name)
            self._queue.put_nowait(name)

    def _enqueue_later(self, name: str, seconds: float) -> None:
        self._cancel_timer(name)
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, self._enqueue, name)

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    # -- workers ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            self._queued.discard(name)
            self._busy.add(name)
            await self._handle(name)
            self._busy.discard(name)
            if name in self._dirty:
                self._dirty.discard(name)
                self._enqueue(name)

    async def _handle(self, name: str) -> None:
        step = self._step(name)
        if not isinstance(step, Wait):
            await self._bucket.take()
            step = self._step(name)  # the pod may have changed while we waited
        if isinstance(step, Wait):
            if step.until is not None:
                self._enqueue_later(name, step.until - self._clock())
            return
        pod = self._pods.objects[name]
        try:
            if isinstance(step, PatchStatus):
                await self._patch_status(name, pod, step)
            else:
                await self._client.delete(PODS, name, uid=pod.metadata.uid, grace_seconds=0)
            self._backoffs.pop(name, None)
        except Failure as failure:
            # Not found: the watch will show the deletion. A conflict: another pod may have the name now.
            if not is_not_found(failure):
                if name not in self._backoffs:
                    _log.warning("write failed; retrying", pod=name, error=str(failure))
                self._enqueue_later(name, self._backoffs.setdefault(name, Backoff(random=self._client.random)).next())

    def _step(self, name: str) -> Step:
        pod = self._pods.objects.get(name)
        if pod is None or pod.spec.node_name in self._lost:
            return Wait()
        return next_step(pod, self._clock(), started=self._started.get(pod.metadata.uid))

    async def _patch_status(self, name: str, pod: Pod, step: PatchStatus) -> None:
        now = self._clock()
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": step.status}
        written = await self._client.patch(PODS, name, patch, subresource="status", strategic=True)
        if step.status["phase"] == "Running":
            self._started[pod.metadata.uid] = now
        # So that the next step follows without waiting for the watch.
        self._pods.observe_write(written)
