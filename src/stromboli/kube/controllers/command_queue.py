"""Commands on their way from the server to obedience: at most once, and one after the other.

A Command is taken before it is obeyed: only if we were the one to delete it. From then on it is in memory alone, until
what it led to is written. Whoever dies in between has lost an order that its author can give again; nobody obeys twice.

Of the commands for one target, the next is taken when the last is obeyed. So no more than one of them can be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar, cast

from stromboli.api import ApiError, Command, Job, KObject, Queue, key, validate
from stromboli.api.timestamps import parse_timestamp
from stromboli.controllers import Objects, next_commands
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_conflict, is_not_found
from stromboli.kube.client.resources import COMMANDS
from stromboli.kube.runtime.event_recorder import Recorder
from stromboli.kube.runtime.leader_election import Alone, Leadership
from stromboli.kube.runtime.logs import Log

_log = Log("controllers")

T = TypeVar("T", bound=KObject)

PATIENCE: Final = 60.0  # seconds that a command waits for its target: it may be heard of before what it is for


class Orders:
    def __init__(self, client: Client, fence: Leadership | Alone, recorder: Recorder) -> None:
        self._client = client
        self._fence = fence
        self._recorder = recorder
        self._taken: dict[str, Command] = {}  # by key; deleted on the server, and still to be obeyed
        self._gone: dict[str, str] = {}  # uid and key of commands that are on the server no more, though still in view

    def __bool__(self) -> bool:
        return bool(self._taken)

    def among(self, objects: Objects) -> Objects:
        """The objects as the controllers are to see them: with the commands that are theirs to obey, and no others."""
        return _WithCommands(objects, dict(self._taken))

    def obeyed(self, commands: Iterable[Command]) -> None:
        for command in commands:
            self._taken.pop(key(command), None)

    def forget(self) -> None:
        """Another replica has led since. What we had taken it could not know of, and may be out of date by now."""
        self._taken.clear()

    async def take(self, objects: Objects, foreign: Collection[str], now: float) -> bool:
        """Delete what is to be obeyed next; `foreign` are Jobs that are not ours. Whether all could be done."""
        for uid in [uid for uid, name in self._gone.items() if objects.get(Command, name) is None]:
            del self._gone[uid]
        waiting: dict[str, Command] = {}
        complete = True
        for command in objects.list(Command):
            if command.metadata.uid in self._gone or _job_key(command) in foreign:
                continue
            why = _problem(command) or _lost(command, objects, now)
            if why:
                complete = await self._refuse(command, why) and complete
            elif _target(command, objects) is not None:
                waiting[key(command)] = command
        busy = {_target_name(command) for command in self._taken.values()}
        for kind in ("Job", "Queue"):
            for command in next_commands(kind, _WithCommands(objects, waiting)).values():
                if _target_name(command) not in busy:
                    complete = await self._delete(command, to_obey=True) and complete
        return complete

    async def _refuse(self, command: Command, why: str) -> bool:
        self._recorder.tell(Command, key(command), command.metadata.uid, "CommandRefused", why, warning=True)
        return await self._delete(command)

    async def _delete(self, command: Command, *, to_obey: bool = False) -> bool:
        if not self._fence.held:
            return False
        try:
            await self._client.delete(COMMANDS, key(command), uid=command.metadata.uid)
        except Failure as failure:
            if not is_not_found(failure) and not is_conflict(failure):
                _log.warning("a command could not be taken", object=key(command), failure=failure.message)
                return False
        else:
            if to_obey:
                self._taken[key(command)] = command
        self._gone[command.metadata.uid] = key(command)
        return True


class _WithCommands:
    """Objects with other commands."""

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


def _lost(command: Command, objects: Objects, now: float) -> str:
    given = command.metadata.creation_timestamp
    if given is None or now - parse_timestamp(given) < PATIENCE or _target(command, objects) is not None:
        return ""
    return f"There is no {command.target.kind} {command.target.name}." if command.target is not None else ""
