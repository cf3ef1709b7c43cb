"""A picture as plain data: names in camel case, amounts as Kubernetes writes them, times as timestamps.

What programs read must not change with the layout of a table, and must be readable by tools that know Kubernetes.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from stromboli.api.quantity import format_amount
from stromboli.api.timestamps import format_timestamp

_TIMES = frozenset({"now", "created", "waiting_since", "started", "ends", "expires", "at", "expected_start"})


def document(value: Any) -> Any:
    """Dataclasses become dictionaries; everything else stays as it is."""
    if isinstance(value, list | tuple):
        return [document(one) for one in value]
    if isinstance(value, dict):
        return {key: document(one) for key, one in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return round(value, 4) if isinstance(value, float) else value
    found = {}
    for name, key, kind in _fields(type(value)):
        found[key] = _field(name, kind, getattr(value, name))
    return found


def _field(name: str, kind: str, value: Any) -> Any:
    if kind == "Amounts":
        return quantities(value)
    if name in _TIMES and isinstance(value, float):
        return format_timestamp(value)
    return document(value)


def quantities(amounts: dict[str, int]) -> dict[str, str]:
    return {name: format_amount(name, amounts[name]) for name in sorted(amounts)}


@lru_cache(maxsize=64)
def _fields(kind: type) -> list[tuple[str, str, str]]:
    return [(f.name, _camel(f.name), str(f.type)) for f in fields(kind)]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
