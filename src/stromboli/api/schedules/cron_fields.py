"""The five fields of a cron expression: which minutes, hours, days, months and days of the week are meant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_STEP: Final = re.compile("0?[1-9][0-9]{0,3}")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True)
class Field:
    """`free`: every value is meant, because `*` or `?` stands there."""

    values: frozenset[int]
    free: bool = False

    def __contains__(self, value: int) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    first: int
    last: int
    numbers: str  # the regular expression of what lies between the two
    names: tuple[str, ...] = ()  # of `first` and those after it


MINUTE: Final = _Kind("minute", 0, 59, "[0-5]?[0-9]")
HOUR: Final = _Kind("hour", 0, 23, "[01]?[0-9]|2[0-3]")
DAY: Final = _Kind("day of the month", 1, 31, "0?[1-9]|[12][0-9]|3[01]")
MONTH: Final = _Kind("month", 1, 12, "0?[1-9]|1[0-2]", _MONTHS)
WEEKDAY: Final = _Kind("day of the week", 0, 6, "0?[0-6]", _DAYS)

KINDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def parse_field(text: str, kind: _Kind) -> Field:
    """Raises ValueError with a sentence about the text."""
    values: set[int] = set()
    free = False
    for part in text.split(","):
        span, is_free = _span(part, kind)
        values.update(span)
        free = free or is_free
    return Field(frozenset(values), free)


def _span(part: str, kind: _Kind) -> tuple[range, bool]:
    extent, slash, step_text = part.partition("/")
    if slash and not _STEP.fullmatch(step_text):
        raise ValueError(f"the {kind.name} {part!r} needs a step such as /5")
    step = int(step_text) if slash else 1
    if extent in ("*", "?"):
        return range(kind.first, kind.last + 1, step), step == 1
    low_text, dash, high_text = extent.partition("-")
    low = _value(low_text, part, kind)
    if dash:
        high = _value(high_text, part, kind)
    else:
        high = kind.last if slash else low
    if low > high:
        raise ValueError(f"the {kind.name} {part!r} ends before it begins")
    return range(low, high + 1, step), False


def _value(text: str, part: str, kind: _Kind) -> int:
    value = text.lower()
    if value in kind.names:
        return kind.first + kind.names.index(value)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"the {kind.name} {part!r} is not understood")
    if not re.fullmatch(kind.numbers, text):
        raise ValueError(f"the {kind.name} must be from {kind.first} to {kind.last}, not {part!r}")
    return int(text)


def _pattern(kind: _Kind) -> str:
    """What a field may be, as a regular expression: all but that a range must not end before it begins."""
    value = "|".join((kind.numbers, *(_either_case(name) for name in kind.names)))
    part = rf"([*?]|({value})(-({value}))?)(/{_STEP.pattern})?"
    return rf"{part}(,{part})*"


def _either_case(name: str) -> str:
    return "".join(f"[{letter}{letter.upper()}]" for letter in name)


FIVE_FIELDS: Final = r"\s*" + r"\s+".join(_pattern(kind) for kind in KINDS) + r"\s*"
