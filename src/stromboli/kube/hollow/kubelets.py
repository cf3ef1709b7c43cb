"""Hollow nodes: nodes that exist in the API server only, with pods that only pretend to run.

Against any API server, they are the rest of a cluster: for trying a policy with the scheduler and the controllers of
the product, for tests, and for measuring. The nodes are hollow_fleet.py's matter, and what a pod does next is
hollow_life.py's. Here both are kept going.

One watch shows the pods of all nodes. A pod that changed, or whose time has come, is put in line; a bounded number of
workers take pods from there, ask what the pod's next step is by the object as it is *then*, and carry it out. So there
are no queued writes that could be out of date. A pod is in one worker's hands at a time, and a write that failed puts
its pod in line again, a little later each time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from typing import Any, Final

from stromboli.api import Pod, key
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_not_found
from stromboli.kube.client.rate_limit import Backoff, TokenBucket
from stromboli.kube.client.reflector import Reflector
from stromboli.kube.client.resources import PODS
from stromboli.kube.runtime.logs import Log

from .nodes import Fleet
from .pod_lifecycle import Report, Step, Wait, next_step

_WRITERS: Final = 32
_WRITES_PER_SECOND: Final = 1000

_log = Log("hollow")


class HollowNodes:
    """Nodes that come when `run` begins, live until `stop` is set, and go, unless they are to be kept."""

    def __init__(
        self, client: Client, fleet: Fleet, *, keep: bool = False, say: Callable[[str], None] = _log.info
    ) -> None:
        self._fleet = fleet
        self._keep = keep
        self._say = say
        self._lives = PodLives(client, frozenset(fleet.names))

    async def run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        registering = asyncio.create_task(self._fleet.register())
        try:
            if await _first(stopping, registering) is registering:
                count = _counted(len(self._fleet.names), "hollow node")
                self._say(f"{count} ready. Ctrl-C {'ends this; they stay' if self._keep else 'removes them'}.")
                living = asyncio.gather(self._fleet.heart_beat(), self._lives.run())
                try:
                    await _first(stopping, living)
                finally:
                    await _cancelled(living)
        finally:
            await _cancelled(registering, stopping)
            await self._leave()

    async def _leave(self) -> None:
        if not self._keep:
            removed = await self._fleet.remove()
            if removed:
                self._say(f"{_counted(removed, 'hollow node')} removed.")
        left = self._lives.unfinished()
        if left:
            self._say(
                f"{_counted(left, 'pod')} on these nodes did not finish. Nothing runs there now: "
                "delete such pods, or start the same nodes again."
            )


class PodLives:
    """What happens to the pods that are bound to these nodes."""

    def __init__(self, client: Client, nodes: Container[str], *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._nodes = nodes
        self._clock = clock
        self._bucket = TokenBucket(_WRITES_PER_SECOND, _WRITES_PER_SECOND)
        self._pods = Reflector(client, PODS, self._noticed, field_selector="spec.nodeName!=")
        self._line: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()  # those in the line
        self._busy: set[str] = set()  # those in a worker's hands
        self._again: set[str] = set()  # those of them that changed meanwhile
        self._alarms: dict[str, asyncio.TimerHandle] = {}  # those to be put in line later
        self._backoffs: dict[str, Backoff] = {}  # of those whose last write failed
        self._started: dict[str, float] = {}  # by uid: to the microsecond, where the object has seconds

    async def run(self) -> None:
        """For ever."""
        try:
            async with asyncio.TaskGroup() as together:
                together.create_task(self._pods.run())
                for _ in range(_WRITERS):
                    together.create_task(self._work())
        finally:
            for alarm in self._alarms.values():
                alarm.cancel()

    def unfinished(self) -> int:
        """How many pods are still there to run."""
        pods = self._pods.known.values()
        return sum(self._is_ours(pod) and pod.status.phase not in ("Succeeded", "Failed") for pod in pods)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.node_name in self._nodes

    # -- the line ---------------------------------------------------------------------------------------------------

    def _noticed(self, event: Applied | Deleted) -> None:
        pod = event.object
        assert isinstance(pod, Pod)
        if not self._is_ours(pod):
            return
        name = key(pod)
        if isinstance(event, Applied):
            self._put(name)
        else:
            self._started.pop(pod.metadata.uid, None)
            self._backoffs.pop(name, None)
            self._silence(name)

    def _put(self, name: str) -> None:
        self._silence(name)
        if name in self._busy:
            self._again.add(name)
        elif name not in self._waiting:
            self._waiting.add(name)
            self._line.put_nowait(name)

    def _put_later(self, name: str, seconds: float) -> None:
        self._silence(name)
        self._alarms[name] = asyncio.get_running_loop().call_later(seconds, self._put, name)

    def _silence(self, name: str) -> None:
        alarm = self._alarms.pop(name, None)
        if alarm is not None:
            alarm.cancel()

    # -- the work ---------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            name = await self._line.get()
            self._waiting.discard(name)
            self._busy.add(name)
            await self._attend(name)
            self._busy.discard(name)
            if name in self._again:
                self._again.discard(name)
                self._put(name)

    async def _attend(self, name: str) -> None:
        step = self._step(name)
        if not isinstance(step, Wait):
            await self._bucket.take()
            step = self._step(name)  # The pod may have changed while we waited.
        if isinstance(step, Wait):
            if step.until is not None:
                self._put_later(name, step.until - self._clock())
            return
        pod = self._pods.known[name]
        try:
            if isinstance(step, Report):
                await self._report(name, pod, step)
            else:
                await self._client.delete(PODS, name, uid=pod.metadata.uid, grace_seconds=0)
            self._backoffs.pop(name, None)
        except Failure as failure:
            # What is gone is gone; the watch will say so, too. A conflict may be another pod of the same name by now.
            if not is_not_found(failure):
                if name not in self._backoffs:
                    _log.warning("a write failed; trying again", pod=name, error=str(failure))
                self._put_later(name, self._backoffs.setdefault(name, Backoff()).next())

    def _step(self, name: str) -> Step:
        pod = self._pods.known.get(name)
        if pod is None:
            return Wait()
        return next_step(pod, self._clock(), started=self._started.get(pod.metadata.uid))

    async def _report(self, name: str, pod: Pod, report: Report) -> None:
        now = self._clock()
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": report.status}
        written = await self._client.patch(PODS, name, patch, subresource="status", strategic=True)
        if report.status["phase"] == "Running":
            self._started[pod.metadata.uid] = now
        # From this its next step follows at once, without a round through the watch.
        self._pods.note(written)


async def _first(*tasks: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """The first of them that is done; raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    first = next(task for task in tasks if task in done)
    first.result()
    return first


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
