"""Sets of indexes as short text, such as "0-3,7": however many pods a task has, they take one line of a status."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def format_indexes(indexes: Iterable[int]) -> str:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _runs(sorted(indexes)))


def parse_indexes(text: str, limit: int) -> set[int]:
    """The indexes below the limit. Anybody may write a status, so parts that cannot be parsed are ignored."""
    indexes: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is not None:
            first = int(match[1])
            last = int(match[2] or first)
            indexes.update(range(first, min(last + 1, limit)))
    return indexes


def _runs(indexes: list[int]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for index in indexes:
        if index == last + 1 and first >= 0:
            last = index
            continue
        if first >= 0:
            yield first, last
        first = last = index
    if first >= 0:
        yield first, last
