"""What users are told about an object on which an error happened: in whose code, and whom to tell."""

from __future__ import annotations

from typing import Final

_TELL_AUTHOR: Final = "Please report this to the author of the plugin"


def internal_error(kind: str, key: str, error: str) -> str:
    """`error`: its class, and whose plugin it is in if that is not of Stromboli, see `ContainedError`."""
    name, _, plugin = error.partition(" in ")
    if plugin:
        return (
            f"An error in {plugin} ({name}) while Stromboli handled {kind} {key}. It is put aside and tried again "
            f"later, and other jobs go on. {_TELL_AUTHOR}, with what the scheduler's log says about it."
        )
    return (
        f"An error in Stromboli ({error}) while it handled {kind} {key}. It is put aside and tried again later, and "
        "other jobs go on. Please report this bug, with what the scheduler's log says about it."
    )


def says_error_of_plugin(message: str) -> bool:
    return _TELL_AUTHOR in message
