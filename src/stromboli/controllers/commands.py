"""Commands: requests to act once.

A Command is an object that asks a controller to act on a Job or a Queue. It is deleted before it is executed. If the
process dies in between, the request is lost and its author sees that nothing happened. The other way round, every
restart would execute it again, and a job restarted twice is worse than one not restarted.

The commands for one target are executed in the order of their creation, one in each pass, so that each sees the state
that the previous one led to.
"""

from __future__ import annotations

from stromboli.api import Command, key

from .changes import Objects


def next_commands(kind: str, objects: Objects) -> dict[str, Command]:
    """The command to execute next, by the key of its target."""
    commands = [command for command in objects.list(Command) if command.target and command.target.kind == kind]
    commands.sort(key=lambda command: (command.metadata.creation_timestamp or "", key(command)))
    first: dict[str, Command] = {}
    for command in commands:
        assert command.target is not None
        name = command.target.name
        first.setdefault(name if kind == "Queue" else f"{command.metadata.namespace}/{name}", command)
    return first
