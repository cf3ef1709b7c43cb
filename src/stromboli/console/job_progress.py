"""Follows a job on a cluster: until it has ended, and what its pods write meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from stromboli.api import names
from stromboli.errors import UserError
from stromboli.printable import printable

if TYPE_CHECKING:
    from stromboli.api import Pod
    from stromboli.kube.client import Client

_LOOK_SECONDS: Final = 0.5
_LATE_SECONDS: Final = 2.0
"""Logs of a job that has ended are waited for so long."""
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "red")
_ENDED: Final = ("Succeeded", "Failed")
_ENDED_JOBS: Final = ("Completed", "Failed", "Terminated", "Aborted")
_LABELS: Final = (names.JOB_NAME, "batch.kubernetes.io/job-name")
_LONGEST_LINE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Progress:
    ended: bool
    succeeded: bool
    said: str
    """The state in a few words."""


async def look(client: Client, name: str) -> Progress:
    """At a Job, a PodGroup's pods, or a pod. Raises UserError if there is nothing of that name."""
    from stromboli.kube.client import JOBS, Failure, is_not_found

    try:
        status = (await client.get(JOBS, name)).status
    except Failure as failure:
        if not is_not_found(failure):
            raise
    else:
        phase = status.state.phase or "Pending"
        counts = (("running", status.running), ("succeeded", status.succeeded), ("failed", status.failed))
        said = ", ".join([phase, *(f"{count} {what}" for what, count in counts if count)])
        return Progress(phase in _ENDED_JOBS, phase == "Completed" and not status.failed, said)
    if (batch := await _batch_job(client, name)) is not None:
        return batch
    pods = await pods_of(client, name)
    if not pods:
        raise UserError(f"There is no job {name}, or it has no pods any more. Try: stromboli jobs")
    phases = [pod.status.phase for pod in pods]
    ended = all(phase in _ENDED for phase in phases)
    said = ", ".join(f"{phases.count(phase)} {phase.lower()}" for phase in sorted(set(phases)))
    return Progress(ended, ended and "Failed" not in phases, said)


async def _batch_job(client: Client, name: str) -> Progress | None:
    from stromboli.kube.client import BATCH_JOBS, Failure, is_not_found

    try:
        status = (await client.get(BATCH_JOBS, name)).status
    except Failure as failure:
        if not is_not_found(failure):
            raise
        return None
    held = {condition.type for condition in status.conditions if condition.status == "True"}
    said = f"{status.active} active, {status.succeeded} succeeded, {status.failed} failed"
    return Progress(bool(held & {"Complete", "Failed"}), "Complete" in held, said)


async def pods_of(client: Client, name: str) -> list[Pod]:
    """In the order of their names; numbers in names count as numbers."""
    from stromboli.api import group_name_of
    from stromboli.kube.client import PODS

    namespace, _, plain = name.partition("/")
    pods = (await client.list(PODS, namespace=namespace)).items
    own = [
        pod
        for pod in pods
        if pod.metadata.name == plain
        or group_name_of(pod) == plain
        or any(pod.metadata.labels.get(label) == plain for label in _LABELS)
    ]
    return sorted(own, key=lambda pod: _with_numbers(pod.metadata.name))


def _with_numbers(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split("-")]


async def wait(client: Client, name: str, say: Callable[[str], None]) -> Progress:
    """Until the job has ended. Says each change of its state."""
    said = ""
    while True:
        progress = await look(client, name)
        if progress.said != said:
            said = progress.said
            say(f"{name}: {said}")
        if progress.ended:
            return progress
        await asyncio.sleep(_LOOK_SECONDS)


class Logs:
    """What the pods of a job write, line by line. With several pods each line begins with its pod."""

    def __init__(self, client: Client, name: str, *, follows: bool, tail: int | None, previous: bool = False) -> None:
        self._client = client
        self._name = name
        self._query = {"follow": "true"} if follows else {}
        if tail is not None:
            self._query["tailLines"] = str(tail)
        if previous:
            self._query["previous"] = "true"
        self._follows = follows
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._width = 0

    async def show(self) -> None:
        """Of the pods that there are; when following, of those that are still to come, until the job has ended."""
        pods = await pods_of(self._client, self._name)
        if not self._follows:
            if not pods:
                await look(self._client, self._name)  # says so if there is nothing of that name
            self._width = max((len(pod.metadata.name) for pod in pods), default=0)
            for pod in pods:
                if pod.spec.node_name:
                    await self._read(pod, several=len(pods) > 1)
            return
        try:
            await self._follow()
        finally:
            for task in self._reading.values():
                task.cancel()
            await asyncio.gather(*self._reading.values(), return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            progress = await look(self._client, self._name)
            pods = await pods_of(self._client, self._name)
            self._width = max((len(pod.metadata.name) for pod in pods), default=0)
            for pod in pods:
                if pod.metadata.uid not in self._reading and pod.status.phase != "Pending":
                    reading = self._read(pod, several=len(pods) > 1)
                    self._reading[pod.metadata.uid] = asyncio.create_task(reading)
            for task in self._reading.values():
                if task.done():
                    task.result()
            if progress.ended:
                if self._reading:
                    await asyncio.wait(self._reading.values(), timeout=_LATE_SECONDS)
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _read(self, pod: Pod, *, several: bool) -> None:
        from stromboli.kube.client import PODS, Failure

        names_of = [container.name for container in pod.spec.containers]
        path = PODS.path_of(f"{pod.metadata.namespace}/{pod.metadata.name}", "log")
        query = {**self._query, "container": names_of[0]} if names_of else self._query
        colour = _COLOURS[sum(pod.metadata.name.encode()) % len(_COLOURS)]
        begin = click.style(f"{pod.metadata.name:<{self._width}} | ", fg=colour) if several else ""
        try:
            async for line in _lines(self._client.stream(path, query)):
                click.echo(f"{begin}{printable(line)}")
        except Failure as failure:
            # One that is still starting, or is gone: the others go on.
            click.echo(f"{begin}(no log: {printable(failure.message)})", err=True)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
        if len(rest) > _LONGEST_LINE:
            yield rest.decode(errors="replace")
            rest = b""
    if rest:
        yield rest.decode(errors="replace")


def exit_status(progress: Progress) -> int:
    return 0 if progress.succeeded else FAILED_JOB


FAILED_JOB: Final = 5
"""The exit status of a command that waited for a job that failed."""
