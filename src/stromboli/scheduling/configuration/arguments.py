"""What a configuration file tells one plugin or one action, read with its type.

A wrong value that is quietly replaced by a default is found weeks later, in a cluster that does not do what
its file says. So every reader here says which type and which range it wants, a missing key gives the
default, and anything else is a `ConfigurationError` that names the file, the line, the plugin or action and
the key.

Two leniencies remain, because existing files rely on them: numbers and truth values may be written as strings
(`"10"`, `"true"`), and a key that is there without a value counts as missing.

Arguments also remember which keys were asked for. A key that nobody asks for is most often a misspelt one;
the registry turns those into warnings, with no list of legal keys for anyone to keep up to date.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping

from stromboli.api.quantity import parse_duration
from stromboli.errors import UserError

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


LONGEST_QUOTE = 60
"""Longer values are cut in messages."""


class ConfigurationError(UserError, ValueError):
    """A configuration that cannot be used. One line: the file and its line, what is wrong, what to do."""

    def __init__(self, problem: str, *, where: str = "", line: int = 0) -> None:
        self.problem = problem
        self.where = where
        self.line = line
        super().__init__(f"{place(where, line)}: {problem}" if where or line else problem)


def place(where: str, line: int) -> str:
    """Where in a file, for the front of a message; line 0 stands for a value that no file gave."""
    if not line:
        return where
    return f"{where}, line {line}" if where else f"line {line}"


def quoted(value: object) -> str:
    """A value as the user is shown it: on one line, strings in double quotes, else as in YAML; cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."


class Arguments(Mapping[str, object]):
    """The arguments of one plugin or action. Readers return the default for a key that is absent or empty."""

    def __init__(
        self,
        values: Mapping[str, object] | None = None,
        *,
        lines: Mapping[str, int] | None = None,
        owner: str = "",
        where: str = "",
    ) -> None:
        self._values = dict(values or {})
        self._lines = dict(lines or {})  # Key -> line in the file; keys that no file gave are absent.
        self._read: set[str] = set()
        self._owner = owner
        self._where = where

    def __getitem__(self, key: str) -> object:
        self._read.add(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Arguments({self._values!r})"

    def merged(self, other: Arguments) -> Arguments:
        """These arguments and, for keys they do not have, those of `other`."""
        return Arguments(
            {**other._values, **self._values},
            lines={**other._lines, **self._lines},
            owner=self._owner or other._owner,
            where=self._where or other._where,
        )

    def unasked(self) -> Arguments:
        """The same arguments, of which no key has been asked for yet."""
        return self.merged(Arguments())

    def warnings(self) -> tuple[str, ...]:
        """One sentence for each key that was given and never asked for."""
        return tuple(
            f"{self._place(key)}unknown argument {quoted(key)} is ignored"
            for key in self._values
            if key not in self._read
        )

    def error(self, key: str, requirement: str) -> ConfigurationError:
        """The error to raise when the value of `key` is not what it must be ("must be above 0")."""
        message = f"argument {quoted(key)} {requirement}, not {quoted(self._values.get(key))}"
        owned = f"{self._owner}: {message}" if self._owner else message
        return ConfigurationError(owned, where=self._where, line=self._lines.get(key, 0))

    def integer(
        self, key: str, default: int, *, minimum: int | None = None, maximum: int | None = None
    ) -> int:
        """A whole number."""
        given = self._given(key)
        if given is None:
            return default
        found = _whole(given)
        if found is None:
            raise self.error(key, "must be a whole number")
        self._check_range(key, found, minimum, maximum)
        return found

    def number(
        self, key: str, default: float, *, minimum: float | None = None, maximum: float | None = None
    ) -> float:
        """A finite number, whole or not."""
        given = self._given(key)
        if given is None:
            return default
        found = _finite(given)
        if found is None:
            raise self.error(key, "must be a number")
        self._check_range(key, found, minimum, maximum)
        return found

    def boolean(self, key: str, default: bool) -> bool:
        """A truth value."""
        given = self._given(key)
        if given is None:
            return default
        if isinstance(given, str) and given.strip().lower() in ("true", "false"):
            return given.strip().lower() == "true"
        if not isinstance(given, bool):
            raise self.error(key, "must be true or false")
        return given

    def text(self, key: str, default: str, *, choices: Collection[str] | None = None) -> str:
        """A string, one of `choices` if there are any."""
        given = self._given(key)
        if given is None:
            return default
        if not isinstance(given, str):
            raise self.error(key, "must be a string")
        if choices is not None and given not in choices:
            raise self.error(key, f"must be one of {', '.join(choices)}")
        return given

    def duration(
        self, key: str, default: float, *, minimum: float | None = None, maximum: float | None = None
    ) -> float:
        """A length of time in seconds, given as seconds or with units (`90`, `1h30m`)."""
        given = self._given(key)
        if given is None:
            return default
        found = _seconds(given)
        if found is None:
            raise self.error(key, "must be a duration such as 30s, 5m or 1h30m, or a number of seconds")
        self._check_range(key, found, minimum, maximum)
        return found

    def _given(self, key: str) -> object:
        self._read.add(key)
        return self._values.get(key)

    def _check_range(self, key: str, found: float, minimum: float | None, maximum: float | None) -> None:
        if (minimum is None or found >= minimum) and (maximum is None or found <= maximum):
            return
        if minimum is not None and maximum is not None:
            raise self.error(key, f"must be from {minimum} to {maximum}")
        if minimum is not None:
            raise self.error(key, f"must be {minimum} or more")
        raise self.error(key, f"must be {maximum} or less")

    def _place(self, key: str) -> str:
        front = place(self._where, self._lines.get(key, 0))
        return "".join(f"{part}: " for part in (front, self._owner) if part)


# NB: bool is a subclass of int, so each of these has to turn it away by name.


def _whole(given: object) -> int | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        return given
    if isinstance(given, float):
        return int(given) if given.is_integer() else None
    if isinstance(given, str) and _WHOLE.fullmatch(given.strip()):
        try:
            return int(given)
        except ValueError:  # The interpreter refuses to convert thousands of digits.
            return None
    return None


def _finite(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    if isinstance(given, str) and not _DECIMAL.fullmatch(given.strip()):
        return None
    try:
        found = float(given)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _seconds(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    if isinstance(given, float) and not math.isfinite(given):
        return None
    try:
        return parse_duration(given)
    except (ValueError, OverflowError):
        return None
