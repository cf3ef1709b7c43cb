"""Arguments of job plugins: command-line flags, in the syntax that Volcano accepts.

    --publish-not-ready-addresses         a switch
    --inject-hosts-env=false              a switch with its value
    --ssh-port=2222                       a value
    -ssh-port 2222                        one dash also works, and the value may be the next argument

An unknown flag is an error: if it were ignored, its user would wait for an effect that never comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


class Flags:
    """The values of the flags: the arguments, and defaults for the rest. A flag whose default is a bool is a switch."""

    def __init__(self, arguments: Sequence[str], defaults: Mapping[str, bool | str | int]) -> None:
        self._values = dict(defaults)
        remaining = list(arguments)
        while remaining:
            argument = remaining.pop(0)
            name, equals, value = argument.lstrip("-").partition("=")
            if not argument.startswith("-") or name not in defaults:
                known = ", ".join(f"--{flag}" for flag in defaults) or "none"
                raise ValueError(f"the argument {argument} is unknown; known arguments: {known}")
            default = defaults[name]
            if not equals and not isinstance(default, bool):
                if not remaining:
                    raise ValueError(f"the argument --{name} needs a value")
                value = remaining.pop(0)
            self._values[name] = _parse(name, value if equals or value else "true", default)

    def switch(self, name: str) -> bool:
        return bool(self._values[name])

    def text(self, name: str) -> str:
        return str(self._values[name])

    def number(self, name: str) -> int:
        return int(self._values[name])


def _parse(name: str, value: str, default: bool | str | int) -> bool | str | int:
    if isinstance(default, bool):
        if value not in _TRUE + _FALSE:
            raise ValueError(f"the argument --{name} must be true or false, not {value}")
        return value in _TRUE
    if isinstance(default, int):
        if not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise ValueError(f"the argument --{name} must be a whole number, not {value}")
        return int(value)
    return value
