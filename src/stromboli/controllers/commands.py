"""Commands: requests to act once.

A Command is an object that asks a controller to do something to a Job or a Queue. It is deleted before it
is obeyed. Should everything fail in between, the request is lost and its author sees that nothing happened;
the other way round it would be obeyed again after each restart, and a job restarted twice is worse than one
not restarted.

Commands for one target are obeyed in the order in which they were given, one in each pass, so that each
meets the state that the one before has led to.
"""

from __future__ import annotations

from stromboli.api import Command, key

from .changes import Objects


def commands_for(kind: str, objects: Objects) -> dict[str, Command]:
    """The command to obey next, by the key of its target."""
    given = [command for command in objects.list(Command) if command.target and command.target.kind == kind]
    given.sort(key=lambda command: (command.metadata.creation_timestamp or "", key(command)))
    first: dict[str, Command] = {}
    for command in given:
        assert command.target is not None
        name = command.target.name
        first.setdefault(name if kind == "Queue" else f"{command.metadata.namespace}/{name}", command)
    return first
