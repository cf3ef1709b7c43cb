"""Arguments of job plugins: flags, the way Volcano's users write them.

    --publish-not-ready-addresses         a switch
    --inject-hosts-env=false              a switch, said in full
    --ssh-port=2222                       a value
    -ssh-port 2222                        one dash is enough, and the value may be the next argument

A flag that does not exist is an error: silence would leave its user waiting for what it was to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


class Flags:
    """What the arguments say, over what holds when they say nothing. A flag whose default is a bool is a switch."""

    def __init__(self, arguments: Sequence[str], defaults: Mapping[str, bool | str | int]) -> None:
        self._values = dict(defaults)
        left = list(arguments)
        while left:
            argument = left.pop(0)
            name, given, value = argument.lstrip("-").partition("=")
            if not argument.startswith("-") or name not in defaults:
                known = ", ".join(f"--{flag}" for flag in defaults) or "none at all"
                raise ValueError(f"the argument {argument} is unknown; there are: {known}")
            default = defaults[name]
            if not given and not isinstance(default, bool):
                if not left:
                    raise ValueError(f"the argument --{name} needs a value")
                value = left.pop(0)
            self._values[name] = _read(name, value if given or value else "true", default)

    def switch(self, name: str) -> bool:
        return bool(self._values[name])

    def text(self, name: str) -> str:
        return str(self._values[name])

    def number(self, name: str) -> int:
        return int(self._values[name])


def _read(name: str, value: str, default: bool | str | int) -> bool | str | int:
    if isinstance(default, bool):
        if value not in _TRUE + _FALSE:
            raise ValueError(f"the argument --{name} must be true or false, not {value}")
        return value in _TRUE
    if isinstance(default, int):
        if not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise ValueError(f"the argument --{name} must be a whole number, not {value}")
        return int(value)
    return value
