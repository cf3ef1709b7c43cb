"""A kubelet whose containers are processes of this machine.

    bound ──▶ processes started ──▶ Running ──all ended──▶ Succeeded or Failed
                                       │ deleted
                                       ▼
                              SIGTERM, after the grace period SIGKILL ──▶ gone

The containers of a pod start together; init containers run before, one after the other. restartPolicy OnFailure and
Always start a container again, with a growing pause. Processes do not outlive us: pods that ran when an earlier process
was killed are Failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Container
from pathlib import Path
from typing import Any, Final

from stromboli import plain_json
from stromboli.api import Pod, key
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import PODS, Backoff, Client, Failure, Reflector, is_not_found
from stromboli.kube.runtime import Log

from .container import CannotRun, command_of, environment_of, launched
from .logs import log_file

_FINISHED: Final = ("Succeeded", "Failed")
_CANNOT_RUN: Final = 128
_FIRST_RESTART, _LONGEST_RESTART = 1.0, 60.0  # seconds

_log = Log("runner")


class ProcessRunner:
    """Runs the pods that are bound to these nodes, until cancelled."""

    def __init__(self, client: Client, nodes: Container[str], logs: Path) -> None:
        self._client = client
        self._nodes = nodes
        self._logs = logs
        self._pods = Reflector(client, PODS, self._on_event, field_selector="spec.nodeName!=")
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by uid
        self._deleted: dict[str, asyncio.Event] = {}
        self._ended: set[str] = set()  # uids that a task of ours has ended

    async def run(self) -> None:
        try:
            await self._pods.run()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def unfinished(self) -> int:
        pods = self._pods.objects.values()
        return sum(pod.spec.node_name in self._nodes and pod.status.phase not in _FINISHED for pod in pods)

    def _on_event(self, event: Applied | Deleted) -> None:
        pod = event.object
        assert isinstance(pod, Pod)
        if pod.spec.node_name not in self._nodes:
            return
        uid = pod.metadata.uid
        gone = isinstance(event, Deleted) or pod.metadata.deletion_timestamp is not None
        if gone:
            self._deleted.setdefault(uid, asyncio.Event()).set()
        if uid not in self._tasks and uid not in self._ended and not isinstance(event, Deleted):
            self._deleted.setdefault(uid, asyncio.Event())
            self._tasks[uid] = asyncio.create_task(self._run_pod(pod))

    async def _run_pod(self, pod: Pod) -> None:
        uid, name = pod.metadata.uid, key(pod)
        try:
            if pod.status.phase == "Running":
                await self._write(name, uid, _ended({"status": {}}, [], "Failed", "the process that ran it is gone"))
            elif pod.status.phase not in _FINISHED and pod.metadata.deletion_timestamp is None:
                await self._run_containers(name, uid)
            await self._deleted[uid].wait()
            await self._remove(name, uid)
        except (asyncio.CancelledError, Failure) as error:
            if isinstance(error, Failure) and not is_not_found(error):
                _log.warning("cannot run a pod", pod=name, error=str(error))
        finally:
            self._ended.add(uid)
            self._tasks.pop(uid, None)
            self._deleted.pop(uid, None)

    async def _run_containers(self, name: str, uid: str) -> None:
        pod = plain_json.decode_shallow(await self._client.request("GET", PODS.path_of(name)))
        if pod["metadata"]["uid"] != uid:
            return
        run = _PodRun(pod, self._logs)
        try:
            for container in pod["spec"].get("initContainers") or ():
                if await run.container(container, restarts="Never") != 0:
                    await self._write(name, uid, _ended(pod, run.statuses, "Failed", "an init container failed"))
                    return
            await self._write(name, uid, run.running())
            work = asyncio.ensure_future(run.main())
            deleted = asyncio.ensure_future(self._deleted[uid].wait())
            try:
                await asyncio.wait([work, deleted], return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    await run.stop(float(pod["spec"].get("terminationGracePeriodSeconds", 30)))
                failed = any(await work)
            finally:
                work.cancel()
                deleted.cancel()
            await self._write(name, uid, _ended(pod, run.statuses, "Failed" if failed else "Succeeded", ""))
        finally:
            run.kill()

    async def _write(self, name: str, uid: str, status: dict[str, Any]) -> None:
        backoff = Backoff()
        while True:
            try:
                patch = {"metadata": {"uid": uid}, "status": status}
                self._pods.observe_write(
                    await self._client.patch(PODS, name, patch, subresource="status", strategic=True)
                )
                return
            except Failure as failure:
                if 0 < failure.status < 500:
                    raise
            await asyncio.sleep(backoff.next())

    async def _remove(self, name: str, uid: str) -> None:
        with contextlib.suppress(Failure):
            await self._client.delete(PODS, name, uid=uid, grace_seconds=0)
        await asyncio.to_thread(shutil.rmtree, self._logs / uid, ignore_errors=True)


class _PodRun:
    """The processes of one pod."""

    def __init__(self, pod: dict[str, Any], logs: Path) -> None:
        self._pod = pod
        self._logs = logs
        self._processes: set[asyncio.subprocess.Process] = set()
        self._stopping = False
        self.started = time.time()
        self.statuses: list[dict[str, Any]] = []

    def running(self) -> dict[str, Any]:
        at = format_timestamp(int(self.started))
        names = ("Initialized", "Ready", "ContainersReady")
        return {
            "phase": "Running",
            "startTime": at,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [{"type": name, "status": "True", "lastTransitionTime": at} for name in names],
            "containerStatuses": [
                _container_status(container, {"running": {"startedAt": at}}, ready=True)
                for container in self._pod["spec"]["containers"]
            ],
        }

    async def main(self) -> list[int]:
        """The exit codes of the containers."""
        policy = self._pod["spec"].get("restartPolicy", "Always")
        containers = self._pod["spec"]["containers"]
        return list(await asyncio.gather(*(self.container(one, restarts=policy) for one in containers)))

    async def container(self, container: dict[str, Any], *, restarts: str) -> int:
        pause = _FIRST_RESTART
        count = 0
        file = log_file(self._logs, self._pod["metadata"]["uid"], container["name"])
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            started = time.time()
            code, message = await self._process(container, file)
            again = restarts == "Always" or (restarts == "OnFailure" and code != 0)
            if self._stopping or not again or code == _CANNOT_RUN:
                break
            count += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_RESTART)
        file.with_suffix(".done").touch()
        terminated = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": format_timestamp(int(started)),
            "finishedAt": format_timestamp(int(time.time())),
        }
        if message:
            terminated |= {"reason": "CannotRun", "message": message}
        status = _container_status(container, {"terminated": terminated}, ready=False)
        self.statuses.append(status | {"restartCount": count})
        return code

    async def _process(self, container: dict[str, Any], file: Path) -> tuple[int, str]:
        try:
            environment = environment_of(self._pod, container)
            command = launched(container, command_of(container, environment), environment)
            with file.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *command, env=environment, cwd=container.get("workingDir") or None,
                    stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                )  # fmt: skip
        except (CannotRun, OSError, ValueError) as error:
            problem = str(error) if isinstance(error, CannotRun) else f"the command cannot be started: {error}"
            with file.open("ab") as output:
                output.write(f"{problem}\n".encode())
            return _CANNOT_RUN, problem
        self._processes.add(process)
        try:
            code = await process.wait()
        finally:
            self._processes.discard(process)
        return (code if code >= 0 else 128 - code), ""

    async def stop(self, grace: float) -> None:
        self._stopping = True
        self._signal(signal.SIGTERM)
        waiting = [asyncio.ensure_future(process.wait()) for process in self._processes]
        if waiting:
            await asyncio.wait(waiting, timeout=grace)
        self.kill()

    def kill(self) -> None:
        self._stopping = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes:
            # The whole session: a shell may have started others.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)


def _container_status(container: dict[str, Any], state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }


def _ended(pod: dict[str, Any], statuses: list[dict[str, Any]], phase: str, message: str) -> dict[str, Any]:
    at = format_timestamp(int(time.time()))
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": [
            {"type": name, "status": "False", "lastTransitionTime": at, "reason": f"Pod{phase}"}
            for name in ("Ready", "ContainersReady")
        ],
    }
    names = {container["name"] for container in pod.get("spec", {}).get("containers", ())}
    main = [one for one in statuses if one["name"] in names]
    if main:
        status["containerStatuses"] = main
    if message:
        status |= {"reason": "Error", "message": message}
    return status
