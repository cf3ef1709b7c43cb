"""Executes each Command at most once, and the Commands for one target one after the other.

A Command is claimed by deleting it on the server: only the replica whose deletion succeeds executes it. From then on it
is only in memory, until its changes are written. If the process ends in between, the command is lost and its author can
create it again; it is never executed twice.

If the answer to a deletion is lost, nobody knows whether the server acted. Only the leader deletes Commands, so one
that is gone after that was deleted by us, and is claimed. A conflict says nothing about that: it may be that another
Command has the name, which the watch will show, or that the server could not write. So it is tried again.

Of several commands for one target, the next is claimed when the last is executed. So at most one of them can be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Final, TypeVar, cast

from stromboli.api import ApiError, Command, Job, KObject, Queue, key, validate
from stromboli.api.timestamps import parse_timestamp
from stromboli.controllers import Objects
from stromboli.controllers.commands import next_commands
from stromboli.kube.client import COMMANDS, NO_RESPONSE, UNREACHABLE, Client, Failure, is_not_found
from stromboli.kube.runtime import REQUEST_TIMEOUT, EventRecorder, Fence, Log, in_time

_log = Log("controllers")

T = TypeVar("T", bound=KObject)

TARGET_TIMEOUT: Final = 60.0  # seconds that a command waits for its target: its watch event may come first


class CommandQueue:
    def __init__(
        self, client: Client, fence: Fence, recorder: EventRecorder, *, timeout: float = REQUEST_TIMEOUT
    ) -> None:
        self._client = client
        self._timeout = timeout
        self._fence = fence
        self._recorder = recorder
        self._claimed: dict[str, Command] = {}  # by key; deleted on the server and still to be executed
        self._unclear: dict[str, Command] = {}  # by uid; we tried to claim them, and have no answer
        self._deleted: dict[str, str] = {}  # uid and key of commands that are deleted but still in the cache

    def __bool__(self) -> bool:
        return bool(self._claimed)

    def with_claimed(self, objects: Objects) -> Objects:
        """The objects with the claimed commands instead of all commands: what the controllers see."""
        return _WithCommands(objects, dict(self._claimed))

    def mark_executed(self, commands: Iterable[Command]) -> None:
        for command in commands:
            self._claimed.pop(key(command), None)

    def clear(self) -> None:
        """Drop what we claimed before another replica was the leader: it may be outdated."""
        self._claimed.clear()
        self._unclear.clear()

    async def claim(self, objects: Objects, foreign: Collection[str], now: float) -> bool:
        """Claim the commands to execute next; False if a write failed. `foreign` are keys of other schedulers' Jobs."""
        for uid in [uid for uid, name in self._deleted.items() if objects.get(Command, name) is None]:
            del self._deleted[uid]
        self._claim_gone(objects)
        waiting: dict[str, Command] = {}
        complete = True
        for command in objects.list(Command):
            if command.metadata.uid in self._deleted or _job_key(command) in foreign:
                continue
            why = _problem(command) or _missing_target(command, objects, now)
            if why:
                complete = await self._refuse(command, why) and complete
            elif _target(command, objects) is not None:
                waiting[key(command)] = command
        busy = {_target_name(command) for command in self._claimed.values()}
        for kind in ("Job", "Queue"):
            for command in next_commands(kind, _WithCommands(objects, waiting)).values():
                if _target_name(command) not in busy:
                    complete = await self._delete(command, claim=True) and complete
        return complete

    def _claim_gone(self, objects: Objects) -> None:
        """Claim what is gone although no answer said so."""
        for uid, command in list(self._unclear.items()):
            present = objects.get(Command, key(command))
            if present is None or present.metadata.uid != uid:
                del self._unclear[uid]
                self._claimed[key(command)] = command

    async def _refuse(self, command: Command, why: str) -> bool:
        self._recorder.record(Command, key(command), command.metadata.uid, "CommandRefused", why, warning=True)
        return await self._delete(command)

    async def _delete(self, command: Command, *, claim: bool = False) -> bool:
        if not self._fence.is_leader:
            return False
        try:
            deleting = self._client.delete(COMMANDS, key(command), uid=command.metadata.uid)
            await in_time(deleting, self._timeout)
        except Failure as failure:
            if not is_not_found(failure):
                _log.warning("cannot claim a command", object=key(command), failure=failure.message)
                if claim and _may_have_acted(failure):
                    self._unclear[command.metadata.uid] = command
                return False
            claim = command.metadata.uid in self._unclear  # gone by our own deletion
        self._unclear.pop(command.metadata.uid, None)
        if claim:
            self._claimed[key(command)] = command
        self._deleted[command.metadata.uid] = key(command)
        return True


class _WithCommands:
    """Objects with another set of commands."""

    def __init__(self, objects: Objects, commands: Mapping[str, Command]) -> None:
        self._objects = objects
        self._commands = commands

    def get(self, kind: type[T], key: str) -> T | None:
        if kind is Command:
            return cast("T | None", self._commands.get(key))
        return self._objects.get(kind, key)

    def list(self, kind: type[T]) -> Iterable[T]:
        if kind is Command:
            return cast(Iterable[T], [self._commands[name] for name in sorted(self._commands)])
        return self._objects.list(kind)


def _may_have_acted(failure: Failure) -> bool:
    """Whether the server may have done what was asked for."""
    if failure.status == NO_RESPONSE:
        return failure.reason != UNREACHABLE
    return failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _target(command: Command, objects: Objects) -> Job | Queue | None:
    if command.target is not None and command.target.kind == "Queue":
        return objects.get(Queue, command.target.name)
    return objects.get(Job, _job_key(command))


def _job_key(command: Command) -> str:
    if command.target is None or command.target.kind != "Job":
        return ""
    return f"{command.metadata.namespace}/{command.target.name}"


def _target_name(command: Command) -> str:
    return _job_key(command) or (command.target.name if command.target is not None else "")


def _problem(command: Command) -> str:
    try:
        validate(command)
    except ApiError as error:
        return f"{error.field}: {error.message}"
    return ""


def _missing_target(command: Command, objects: Objects, now: float) -> str:
    created = command.metadata.creation_timestamp
    if created is None or now - parse_timestamp(created) < TARGET_TIMEOUT or _target(command, objects) is not None:
        return ""
    return f"There is no {command.target.kind} {command.target.name}." if command.target is not None else ""
