"""JSON that others have written: whatever it is, it is read or refused, and nothing else happens.

What reads a document calls itself for each level, and a body of three megabytes can have three million levels. What we
are sent is refused if it is deeper than anything that users write. What we get from an API server cannot be refused: a
tenant can store an object with ten thousand levels there, in a field that keeps what it does not know, and one that
cannot be read would hide a whole list of the objects of others. Nobody reads such a field. So what is too deep is read
as null there.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar, overload

import msgspec

T = TypeVar("T")

DEEPEST: Final = 200
"""Levels of lists and objects. The deepest that users write, definitions of resources, have about fifty."""

_DEEPEST_STORED: Final = 20_000  # twice as many as an API server of Kubernetes takes
# A text without an end is matched as well: to look for its end again from every quote in it would take forever.
_SIGNS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]++|[\]}]++', re.DOTALL)


class TooDeep(msgspec.DecodeError):
    def __init__(self) -> None:
        super().__init__(f"it is nested more than {DEEPEST} levels deep")


@overload
def decode(data: bytes | str) -> Any: ...
@overload
def decode(data: bytes | str, type: type[T]) -> T: ...
def decode(data: bytes | str, type: Any = Any) -> Any:
    """Raises msgspec.DecodeError, and nothing else. Levels inside of typed values count only if they are kept."""
    try:
        value = msgspec.json.decode(data, type=type)
    except RecursionError:
        raise TooDeep from None
    except UnicodeError:
        raise msgspec.DecodeError("it is not UTF-8") from None
    if _may_be_deep(data) and is_too_deep(value):
        raise TooDeep
    return value


@overload
def decode_shallow(data: bytes | str) -> Any: ...
@overload
def decode_shallow(data: bytes | str, type: type[T]) -> T: ...
def decode_shallow(data: bytes | str, type: Any = Any) -> Any:
    """Reads what is deeper than DEEPEST as null. Raises as `decode` does."""
    try:
        return decode(data, type)
    except TooDeep:
        return decode(_without_depths(data if isinstance(data, bytes) else data.encode("utf-8", "replace")), type)


def is_too_deep(value: Any) -> bool:
    """Whether a decoded document has more than DEEPEST levels. Goes level by level, so that nothing is deep here."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [child for one in level
                 for child in (one.values() if isinstance(one, dict) else one)
                 if isinstance(child, dict | list)]  # fmt: skip
        if not level:
            return False
    return True


def _may_be_deep(data: bytes | str) -> bool:
    if isinstance(data, str):
        return data.count("{") + data.count("[") > DEEPEST
    return data.count(b"{") + data.count(b"[") > DEEPEST


def _without_depths(data: bytes) -> bytes:
    pieces: list[bytes] = []
    depth = kept = 0
    for found in _SIGNS.finditer(data):
        start, number = found.start(), found.end() - found.start()
        if data[start] in b"[{":
            if depth <= DEEPEST < depth + number:
                pieces += (data[kept : start + DEEPEST - depth], b"null")
            depth += number
            if depth > _DEEPEST_STORED:
                raise TooDeep
        elif data[start] in b"]}":
            if depth > DEEPEST >= depth - number:
                kept = start + depth - DEEPEST
            depth -= number
    return b"".join(pieces) + (data[kept:] if depth <= DEEPEST else b"")
