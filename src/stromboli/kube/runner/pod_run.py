"""One pod: its init containers one after the other, then its containers together, and its end.

    volumes ──▶ init containers, sidecars ──▶ containers ──all ended──▶ sidecars stopped ──▶ Succeeded or Failed
                                                  │ deleted, or its active deadline is over
                                                  ▼
                                      hooks, SIGTERM, after the grace period SIGKILL

A pod that ran when an earlier process was killed goes on as its restartPolicy says: its containers are started again,
or it has failed. A mark on the disk, made before anything starts, keeps a program that may run only once from being
started twice.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from stromboli.api.timestamps import parse_timestamp

from .container_run import ContainerRun, Prepare
from .pod_status import ContainerStatus, Outcome, status_before, status_of, terminated
from .restarts import FIRST_PAUSE, Pauses, is_restarted

_LOST: Final = 137
_LOST_MESSAGE: Final = "the process that ran it is gone"

Write = Callable[[dict[str, Any]], Awaitable[None]]


class PodRun:
    def __init__(
        self,
        pod: Mapping[str, Any],
        address: str,
        prepare: Prepare,
        write: Write,
        turns: asyncio.Semaphore,
        *,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._pod = pod
        self._spec: Mapping[str, Any] = pod["spec"]
        self._address = address
        self._prepare = prepare
        self._write = write
        self._first_pause = first_pause
        self._turns = turns
        self._policy = self._spec.get("restartPolicy") or "Always"
        before = pod.get("status") or {}
        started = before.get("startTime")
        self._started = parse_timestamp(started) if started else time.time()
        known = [*(before.get("initContainerStatuses") or ()), *(before.get("containerStatuses") or ())]
        self._init = [status_before(known, one) for one in self._spec.get("initContainers") or ()]
        self._main = [status_before(known, one) for one in self._spec["containers"]]
        if not self._init:
            for status in self._main:
                if status.state == {"waiting": {"reason": "PodInitializing"}}:
                    status.state = {"waiting": {"reason": "ContainerCreating"}}
        self._runs: list[tuple[ContainerRun, asyncio.Task[int]]] = []
        self._sidecars: list[tuple[ContainerRun, asyncio.Task[int]]] = []
        self._initialized = False
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._written: dict[str, Any] = {}
        self._outcome: Outcome | None = None
        self._stopping = False

    async def run(self, stop: asyncio.Event, grace: Callable[[], float], *, was_started: bool) -> None:
        """Until the pod has ended and its status says so. `stop`: the pod is being deleted; then nothing is written.
        `was_started`: an earlier process of ours had started it."""
        writing = asyncio.create_task(self._keep_writing())
        work = asyncio.create_task(self._work(was_started=was_started))
        stopped = asyncio.create_task(stop.wait())
        try:
            _, left = await asyncio.wait([work, stopped], timeout=self._deadline(), return_when="FIRST_COMPLETED")
            late = not stopped.done() and work in left
            if work in left:
                await self._stop(grace() if stopped.done() else self._grace())
                await work
            if late:
                self._outcome = Outcome("Failed", "DeadlineExceeded", "the pod was active longer than its deadline")
            if self._outcome is None:
                self._outcome = self._outcome_of_containers()
        finally:
            self.kill()
            await _cancelled(writing, work, stopped)  # with the containers that `work` waits for
            await _cancelled(*(task for _, task in (*self._runs, *self._sidecars)))
        await self._write_in_order()

    def kill(self) -> None:
        self._stopping = True
        for run, _ in (*self._runs, *self._sidecars):
            run.kill()

    # -- work ---------------------------------------------------------------------------------------------------------

    async def _work(self, *, was_started: bool) -> None:
        if was_started and not self._resume():
            return
        if not await self._initialize():
            return
        self._initialized = True
        for container, status in zip(self._spec["containers"], self._main, strict=True):
            if self._is_over(status, self._policy):
                continue
            self._begin(self._runs, container, status, self._policy)
        self._changed.set()
        await asyncio.gather(*(task for _, task in self._runs))
        await self._stop_sidecars(self._grace())

    def _resume(self) -> bool:
        """After a restart of ours. Returns whether the pod goes on."""
        never = self._policy == "Never"
        any_lost = False
        for status in (*self._init, *self._main):
            ran = status.state.get("running")
            if "terminated" in status.state:
                if status in self._main and not self._is_over(status, self._policy):
                    status.last_state, status.state = status.state, {"waiting": {"reason": "ContainerCreating"}}
                    status.restarts += 1
                continue
            if not (ran or never):
                status.restarts += "CrashLoopBackOff" in str(status.state)  # its pause was not over yet
                continue
            any_lost = True
            began = parse_timestamp(ran["startedAt"]) if ran else self._started
            lost = terminated(_LOST, "Error", began, message=_LOST_MESSAGE)
            if never:
                status.state = lost
            else:
                status.last_state, status.state = lost, {"waiting": {"reason": "ContainerCreating"}}
                status.restarts += 1
        if never and any_lost:
            self._outcome = Outcome("Failed", "Error", _LOST_MESSAGE)
        return not never

    async def _initialize(self) -> bool:
        for container, status in zip(self._spec.get("initContainers") or (), self._init, strict=True):
            if self._stopping:
                return False
            if container.get("restartPolicy") == "Always":
                run = self._begin(self._sidecars, container, status, "Always")
                await run.has_started.wait()
                if "terminated" in status.state:
                    return self._init_failed(status)
                continue
            if status.exit_code == 0:
                continue
            policy = "Never" if self._policy == "Never" else "OnFailure"
            self._begin(self._runs, container, status, policy)
            code = await self._runs[-1][1]
            self._runs.pop()
            if code != 0 or self._stopping:
                return self._init_failed(status)
        return True

    def _init_failed(self, status: ContainerStatus) -> bool:
        if not self._stopping:
            why = (status.state.get("terminated") or {}).get("message", "")
            message = f"init container {status.name} failed"
            self._outcome = Outcome("Failed", "Error", f"{message}: {why}" if why else message)
        return False

    def _begin(
        self,
        runs: list[tuple[ContainerRun, asyncio.Task[int]]],
        container: Mapping[str, Any],
        status: ContainerStatus,
        policy: str,
    ) -> ContainerRun:
        pauses = Pauses(self._first_pause)
        run = ContainerRun(
            container, status, policy, self._address, self._prepare, self._changed.set, pauses, self._turns
        )
        run.grace_is(self._grace())
        runs.append((run, asyncio.create_task(run.run())))
        return run

    @staticmethod
    def _is_over(status: ContainerStatus, policy: str) -> bool:
        return status.exit_code is not None and not is_restarted(policy, status.exit_code)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _stop(self, grace: float) -> None:
        self._stopping = True
        end = asyncio.get_running_loop().time() + grace
        await asyncio.gather(*(run.stop(grace) for run, _ in self._runs))
        await self._stop_sidecars(max(0.0, end - asyncio.get_running_loop().time()))

    async def _stop_sidecars(self, grace: float) -> None:
        for run, task in reversed(self._sidecars):
            await run.stop(grace)
            await task

    def _grace(self) -> float:
        written = self._spec.get("terminationGracePeriodSeconds")
        return 30.0 if written is None else float(written)

    def _deadline(self) -> float | None:
        seconds = self._spec.get("activeDeadlineSeconds")
        return None if seconds is None else max(0.0, self._started + float(seconds) - time.time())

    def _outcome_of_containers(self) -> Outcome:
        failed = [one for one in self._main if one.exit_code]
        if not failed and all(one.exit_code == 0 for one in self._main):
            return Outcome("Succeeded")
        cannot = [one.state["terminated"] for one in failed if one.state["terminated"]["reason"] == "CannotRun"]
        if cannot:
            return Outcome("Failed", "CannotRun", cannot[0]["message"])
        return Outcome("Failed")

    # -- status -------------------------------------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        return status_of(
            self._init, self._main, self._address, self._started, self._outcome, initialized=self._initialized
        )

    async def _keep_writing(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.shield(self._write_in_order())

    async def _write_in_order(self) -> None:
        async with self._writing:
            document = copy.deepcopy(self._document())
            if document != self._written:
                await self._write(document)
                self._written = document


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Nobody is cancelled twice: that would interrupt the end of a sandbox."""
    for task in tasks:
        if not task.done() and not task.cancelling():
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
