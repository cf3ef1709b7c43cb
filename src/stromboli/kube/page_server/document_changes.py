"""What differs between two documents, as the browser's store applies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stromboli.page import Document, Series, encode_json

_KEYS: Final[dict[str, Callable[[Any], str]]] = {
    "queues": lambda row: row.name,
    "namespaces": lambda row: row.key,
    "jobs": lambda row: row.key,
    "nodes": lambda row: row.name,
    "spans": lambda row: row.key,
    "marks": lambda row: row.key,
    "evictions": lambda row: row.key,
    "migrations": lambda row: row.key,
}


def changes(before: Document, after: Document, sample: Series | None) -> dict[str, Any]:
    """`sample`: the points that replace the end of the series; None if they changed as a whole."""
    change: dict[str, Any] = {"end": after.end}
    if sample is None:
        change["series"] = after.series
    else:
        change["sample"] = sample
    if before.facts != after.facts:
        change["facts"] = after.facts
    if before.resources != after.resources:
        change["resources"] = after.resources
    rows = {}
    for part, key_of in _KEYS.items():
        found = _rows(getattr(before, part), getattr(after, part), key_of)
        if found:
            rows[part] = found
    change["rows"] = rows
    return change


def _rows(before: Sequence[Any], after: Sequence[Any], key_of: Callable[[Any], str]) -> dict[str, list[Any]]:
    known = {key_of(row): row for row in before}
    changed = []
    for row in after:
        if known.pop(key_of(row), None) != row:
            changed.append(row)
    parts = {"set": changed, "gone": list(known)}
    return {name: part for name, part in parts.items() if part}


def encode_event(name: str, content: object) -> bytes:
    """A server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + encode_json(content) + b"\n\n"
