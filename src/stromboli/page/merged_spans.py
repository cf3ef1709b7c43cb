"""When a job ran: the times in which at least one of its pods was on a node."""

from __future__ import annotations

from collections.abc import Iterable

from .document import Span


def merged_spans(spans: Iterable[Span]) -> list[tuple[float, float | None]]:
    """Start and end of each time, in order; the last may have no end."""
    found: list[tuple[float, float | None]] = []
    for span in sorted(spans, key=lambda span: span.start):
        if found and (found[-1][1] is None or span.start <= found[-1][1]):
            start, end = found[-1]
            found[-1] = (start, None if end is None or span.end is None else max(end, span.end))
        else:
            found.append((span.start, span.end))
    return found
