"""Kubernetes quantities as exact numbers: CPUs in thousandths, everything else in its own unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

Amounts = Counter[str]

_UNITS = {"m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def amount(resource: str, value: Any) -> int:
    text = str(value)
    for unit in sorted(_UNITS, key=len, reverse=True):
        if text.endswith(unit):
            number = Fraction(text.removesuffix(unit)) * _UNITS[unit]
            break
    else:
        number = Fraction(text)
    return int(number * 1000) if resource == "cpu" else int(number)


def amounts(given: Mapping[str, Any] | None) -> Amounts:
    return Counter({name: amount(name, value) for name, value in (given or {}).items()})


def total(parts: Iterable[Mapping[str, int]]) -> Amounts:
    found: Amounts = Counter()
    for part in parts:
        found.update(part)
    return found


def duration(value: Any) -> float:
    """`90s`, `5m`, or plain seconds."""
    text = str(value)
    if text.endswith("m"):
        return 60 * float(text[:-1])
    return float(text.removesuffix("s"))


def beyond(used: Mapping[str, int], limit: Mapping[str, int]) -> str:
    """What of it is above the limit, in words; empty if nothing is. What the limit does not name is not limited."""
    found = [
        f"{used.get(name, 0)} of {most} {name}" for name, most in sorted(limit.items()) if used.get(name, 0) > most
    ]
    return ", ".join(found)


def covers(room: Mapping[str, int], request: Mapping[str, int]) -> bool:
    return all(room.get(name, 0) >= value for name, value in request.items() if value)
