"""One container over all its restarts.

    waiting ──▶ running ──ended──▶ terminated ──policy──▶ waiting (CrashLoopBackOff) ──pause──▶ running ...
       │ what it needs is missing: asked again

The first restart is at once, later ones after growing pauses. A container that cannot be a process here is terminated
with the reason CannotRun, and not tried again: nothing about it can change.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from stromboli.api.timestamps import format_timestamp
from stromboli.sandbox.program import CANNOT_START

from .environment import NotYet
from .logs import end_log, note
from .memory_groups import MemoryGroup
from .pod_status import ContainerStatus, terminated
from .probes import Probe, passes
from .restarts import Pauses, is_restarted
from .sandbox_process import CannotRun, SandboxProcess, Spec

_ASK_AGAIN: Final = 2.0  # seconds
_HOOK_SECONDS: Final = 60.0

Prepare = Callable[[Mapping[str, Any], int], Awaitable[tuple[Spec, MemoryGroup | None]]]
"""What to run for a container and the number of its run. Raises NotYet or CannotRun."""


class ContainerRun:
    def __init__(
        self,
        container: Mapping[str, Any],
        status: ContainerStatus,
        policy: str,
        address: str,
        prepare: Prepare,
        on_change: Callable[[], None],
        pauses: Pauses,
        turns: asyncio.Semaphore,
    ) -> None:
        """`turns`: how many programs of all pods may be starting at the same time."""
        self.status = status
        self.has_started = asyncio.Event()
        """Set when it has run for the first time and its startup probe has passed, or when it has ended."""
        self._container = container
        self._policy = policy
        self._address = address
        self._prepare = prepare
        self._on_change = on_change
        self._pauses = pauses
        self._turns = turns
        self._stop = asyncio.Event()
        self._process: SandboxProcess | None = None
        self._killed_because = ""
        self._grace = 30.0
        self._ran = 0.0  # seconds, of the last run

    async def run(self) -> int:
        """Its exit code, when it is not started again."""
        try:
            while True:
                code = await self._once()
                if code is None:
                    return self.status.exit_code or 0
                if self._stop.is_set() or not is_restarted(self._policy, code):
                    return code
                await self._pause()
                if self._stop.is_set():
                    return code
        finally:
            self.has_started.set()

    async def stop(self, grace: float) -> None:
        """The hook before the stop, SIGTERM, and when the time is over SIGKILL."""
        self._stop.set()
        await self._end_process(grace)

    def kill(self) -> None:
        self._stop.set()
        if self._process is not None:
            self._process.kill()

    # -- one run ------------------------------------------------------------------------------------------------------

    async def _once(self) -> int | None:
        """The exit code; None if there is no use in another run."""
        log: Path | None = None
        group: MemoryGroup | None = None
        try:
            prepared = await self._prepared()
            if prepared is None:
                return None
            spec, group = prepared
            log = spec.log
            probes = {name: Probe.of(self._container, f"{name}Probe") for name in ("startup", "readiness", "liveness")}
            started = time.time()
            async with self._turns:
                self._process = await SandboxProcess.launch(spec)
            if self._stop.is_set():
                self._process.kill()
        except CannotRun as problem:
            if group is not None:
                group.remove()
            if log is not None:
                note(log, str(problem))
            self.status.state = terminated(CANNOT_START, "CannotRun", time.time(), message=str(problem))
            self._change(ready=False)
            return None
        except OSError as error:  # of the machine: too many processes or files
            message = f"no process can be started: {error.strerror or error}"
            self.status.state = terminated(CANNOT_START, "StartError", time.time(), message=message)
            self._change(ready=False)
            return CANNOT_START
        look_after = asyncio.create_task(self._look_after(self._process, probes, started))
        is_out_of_memory = False
        try:
            ended = await self._process.wait()
        finally:
            look_after.cancel()
            await asyncio.gather(look_after, return_exceptions=True)
            process, self._process = self._process, None
            await process.close()
            end_log(log)
            if group is not None:
                is_out_of_memory = group.has_killed()
                group.remove()
        reason = "Error" if ended.code else "Completed"
        if ended.signal == signal.SIGKILL and is_out_of_memory:
            reason = "OOMKilled"
        because, self._killed_because = self._killed_because, ""
        self._ran = time.time() - started
        self.status.state = terminated(ended.code, reason, started, signal=ended.signal, message=because)
        self._change(ready=False)
        return ended.code

    async def _prepared(self) -> tuple[Spec, MemoryGroup | None] | None:
        while not self._stop.is_set():
            try:
                return await self._prepare(self._container, self.status.restarts)
            except NotYet as missing:
                waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": str(missing)}}
                if self.status.state != waiting:
                    self.status.state = waiting
                    self._change(ready=False)
            await self._wait(_ASK_AGAIN)
        self.status.state = terminated(137, "Error", time.time(), message="it was stopped before it could start")
        return None

    async def _pause(self) -> None:
        pause = self._pauses.next(self._ran)
        self.status.last_state = self.status.state
        if pause:
            message = f"back-off {pause:g}s restarting failed container {self.status.name}"
            self.status.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
            self._change(ready=False)
            await self._wait(pause)
            if self._stop.is_set():
                self.status.state = self.status.last_state
                return
        self.status.restarts += 1  # after the pause: it counts the restarts that there were

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    def _change(self, *, ready: bool, started: bool | None = None) -> None:
        self.status.ready = ready
        self.status.started = ready if started is None else started
        self._on_change()

    # -- hooks and probes ---------------------------------------------------------------------------------------------

    async def _look_after(self, process: SandboxProcess, probes: Mapping[str, Probe | None], started: float) -> None:
        hook = (self._container.get("lifecycle") or {}).get("postStart")
        if hook is not None:
            problem = await self._hook(hook, process, _HOOK_SECONDS)
            if problem:
                await self._kill_because(f"its postStart hook failed: {problem}")
                return
        self.status.state = {"running": {"startedAt": format_timestamp(int(started))}}
        startup, readiness, liveness = (probes[name] for name in ("startup", "readiness", "liveness"))
        self._change(ready=startup is None and readiness is None, started=startup is None)
        if startup is not None:
            if not await self._until_passed(startup, process):
                await self._kill_because("its startup probe failed", startup.grace)
                return
            self._change(ready=readiness is None, started=True)
        self.has_started.set()
        await asyncio.gather(self._watch_readiness(readiness, process), self._watch_liveness(liveness, process))

    async def _until_passed(self, probe: Probe, process: SandboxProcess) -> bool:
        await asyncio.sleep(probe.delay)
        for _ in range(probe.failures):
            if not await self._problem(probe, process):
                return True
            await asyncio.sleep(probe.period)
        return False

    async def _watch_readiness(self, probe: Probe | None, process: SandboxProcess) -> None:
        if probe is None:
            return
        await asyncio.sleep(probe.delay)
        passed = failed = 0
        while True:
            problem = await self._problem(probe, process)
            passed, failed = (0, failed + 1) if problem else (passed + 1, 0)
            if not self.status.ready and passed >= probe.successes:
                self._change(ready=True)
            elif self.status.ready and failed >= probe.failures:
                self._change(ready=False, started=True)
            await asyncio.sleep(probe.period)

    async def _watch_liveness(self, probe: Probe | None, process: SandboxProcess) -> None:
        if probe is None:
            return
        await asyncio.sleep(probe.delay)
        failed = 0
        while True:
            problem = await self._problem(probe, process)
            failed = failed + 1 if problem else 0
            if failed >= probe.failures:
                await self._kill_because(f"its liveness probe failed: {problem}", probe.grace)
                return
            await asyncio.sleep(probe.period)

    async def _problem(self, probe: Probe, process: SandboxProcess) -> str:
        return await passes(probe.handler, self._container, process, self._address, probe.timeout)

    async def _hook(self, hook: Mapping[str, Any], process: SandboxProcess, seconds: float) -> str:
        if hook.get("sleep") is not None:
            await asyncio.sleep(min(float(hook["sleep"].get("seconds") or 0), seconds))
            return ""
        if not any(hook.get(one) is not None for one in ("exec", "httpGet", "tcpSocket")):
            return "it is none of exec, httpGet, tcpSocket and sleep"
        return await passes(hook, self._container, process, self._address, seconds)

    # -- the end ------------------------------------------------------------------------------------------------------

    def grace_is(self, seconds: float) -> None:
        """How long it may take to end after a failed probe."""
        self._grace = seconds

    async def _kill_because(self, why: str, grace: float | None = None) -> None:
        self._killed_because = why
        await self._end_process(self._grace if grace is None else grace)

    async def _end_process(self, grace: float) -> None:
        process = self._process
        if process is None:
            return
        end = asyncio.get_running_loop().time() + grace
        hook = (self._container.get("lifecycle") or {}).get("preStop")
        if hook is not None and grace > 0:
            await self._hook(hook, process, grace)
        process.send_signal(signal.SIGTERM)
        left = max(0.0, end - asyncio.get_running_loop().time())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), left)
        process.kill()
        await process.wait()
