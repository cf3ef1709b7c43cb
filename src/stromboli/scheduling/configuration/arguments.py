"""The arguments of one plugin or action in a configuration file, read with their types.

An invalid value must not be replaced by a default silently: then the cluster would not do what its file says. So each
method has a type and a range. A missing key gives the default, and anything else is a `ConfigurationError` that names
the file, the line, the plugin or action, and the key.

There are two exceptions, because existing files rely on them: numbers and booleans may be strings (`"10"`, `"true"`),
and a key without a value counts as missing.

Arguments also remember which keys were read. A key that is never read is usually misspelt, and the registry warns about
it. So nobody has to maintain a list of valid keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from stromboli.api.quantity import QuantityError, amount, parse_duration
from stromboli.errors import UserError

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


N = TypeVar("N", int, float)

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
    """The place in a file, for the start of a message; line 0 means that the value is not from a file."""
    if not line:
        return where
    return f"{where}, line {line}" if where else f"line {line}"


def quoted(value: object) -> str:
    """A value as shown to the user: on one line, strings in double quotes; cut if it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        text = str(value)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."


class Arguments(Mapping[str, object]):
    """The arguments of one plugin or action. The methods return the default for a missing or empty key."""

    def __init__(
        self,
        values: Mapping[str, object] | None = None,
        *,
        lines: Mapping[str, int] | None = None,
        owner: str = "",
        where: str = "",
    ) -> None:
        self._values = dict(values or {})
        self._lines = dict(lines or {})  # key -> line in the file, if it is from one
        self._read: set[str] = set()
        self._sections: dict[str, Arguments] = {}
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
        """These arguments, and those of `other` for keys that are missing here."""
        return Arguments(
            {**other._values, **self._values},
            lines={**other._lines, **self._lines},
            owner=self._owner or other._owner,
            where=self._where or other._where,
        )

    def unasked(self) -> Arguments:
        """A copy of which no key has been read yet."""
        return self.merged(Arguments())

    def warnings(self, without_effect: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """One sentence for each key that was given and never read. `without_effect`: why, for keys that are known."""
        known = without_effect or {}
        unread = [
            f"{self._place(key)}argument {quoted(key)} has no effect: {known[key]}"
            if key in known
            else f"{self._place(key)}unknown argument {quoted(key)} is ignored"
            for key in self._values
            if key not in self._read
        ]
        return (*unread, *(warning for section in self._sections.values() for warning in section.warnings()))

    def error(self, key: str, requirement: str) -> ConfigurationError:
        """The error for an invalid value of `key`; `requirement` is, for example, "must be above 0"."""
        message = f"argument {quoted(key)} {requirement}, not {quoted(self._values.get(key))}"
        owned = f"{self._owner}: {message}" if self._owner else message
        return ConfigurationError(owned, where=self._where, line=self._lines.get(key, 0))

    def integer(self, key: str, default: int, *, minimum: int | None = None, maximum: int | None = None) -> int:
        """A whole number."""
        return self._number(key, default, _whole, "a whole number", minimum, maximum)

    def number(self, key: str, default: float, *, minimum: float | None = None, maximum: float | None = None) -> float:
        """A finite number, whole or not."""
        return self._number(key, default, _finite, "a number", minimum, maximum)

    def boolean(self, key: str, default: bool) -> bool:
        """True or false."""
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

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, or one string with commas in it; none by default."""
        given = self._given(key)
        if isinstance(given, str):
            given = [part.strip() for part in given.split(",")]
        if given is None:
            return ()
        if not isinstance(given, list | tuple) or not all(isinstance(one, str) and one for one in given):
            raise self.error(key, "must be a list of strings")
        return tuple(given)

    def duration(
        self, key: str, default: float, *, minimum: float | None = None, maximum: float | None = None
    ) -> float:
        """A duration in seconds, given as a number of seconds or with units (`90`, `1h30m`)."""
        what = "a duration such as 30s, 5m or 1h30m, or a number of seconds"
        return self._number(key, default, _seconds, what, minimum, maximum)

    def quantity(self, key: str, default: str, *, resource: str, unit: int) -> int:
        """An exact amount of a resource: a quantity such as `250m` or `200Mi`, or a whole number of units."""
        given = self._given(key)
        if isinstance(given, int) and not isinstance(given, bool):
            found: int | None = given * unit
        else:
            try:
                found = amount(resource, default if given is None else given)  # type: ignore[arg-type]
            except QuantityError:
                found = None
        if found is None or found < 0:
            raise self.error(key, f"must be an amount such as {default}")
        return found

    def section(self, key: str) -> Arguments:
        """Arguments inside of this one; none if it is not given."""
        given = self._given(key)
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise self.error(key, "must be a mapping")
        line = self._lines.get(key, 0)
        owner = f"{self._owner}, {quoted(key)}" if self._owner else quoted(key)
        values = {str(name): value for name, value in given.items()}
        lines = dict.fromkeys(values, line) if line else {}
        section = self._sections[key] = Arguments(values, lines=lines, owner=owner, where=self._where)
        return section

    def _given(self, key: str) -> object:
        self._read.add(key)
        return self._values.get(key)

    def _number(
        self, key: str, default: N, read: Callable[[object], N | None], what: str, minimum: N | None, maximum: N | None
    ) -> N:
        given = self._given(key)
        if given is None:
            return default
        found = read(given)
        if found is None:
            raise self.error(key, f"must be {what}")
        if (minimum is None or found >= minimum) and (maximum is None or found <= maximum):
            return found
        if minimum is not None and maximum is not None:
            raise self.error(key, f"must be from {minimum} to {maximum}")
        if minimum is not None:
            raise self.error(key, f"must be {minimum} or more")
        raise self.error(key, f"must be {maximum} or less")

    def _place(self, key: str) -> str:
        front = place(self._where, self._lines.get(key, 0))
        return "".join(f"{part}: " for part in (front, self._owner) if part)


# bool is a subclass of int, so each of these functions has to reject it explicitly.


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
        except ValueError:  # Python does not convert thousands of digits
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
