"""Amounts, times and shares in a few characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stromboli.api.quantity import format_duration
from stromboli.api.quantity import readable_amount as readable

_DAY: Final = 86_400.0


def listed(amounts: Mapping[str, int]) -> str:
    """`16 cpu, 8Gi memory`; "" for nothing."""
    return ", ".join(f"{readable(name, amount)} {name}" for name, amount in sorted(amounts.items()) if amount)


def all_listed(amounts: Mapping[str, int]) -> str:
    """The same with what there is nothing of."""
    return ", ".join(f"{readable(name, amount)} {name}" for name, amount in sorted(amounts.items()))


def used_of(used: Mapping[str, int], whole: Mapping[str, int]) -> str:
    """`16 of 24 cpu, 8 of 96Gi memory`."""
    return ", ".join(
        f"{readable(name, used.get(name, 0))} of {readable(name, total)} {name}"
        for name, total in sorted(whole.items())
    )


def percent(share: float) -> str:
    return f"{share:.0%}"


def age(seconds: float) -> str:
    """The two largest units: `3d4h`, `5m10s`."""
    seconds = max(0.0, seconds)
    if seconds >= _DAY:
        days, rest = divmod(int(seconds), int(_DAY))
        return f"{days}d{rest // 3600}h" if rest >= 3600 else f"{days}d"
    if seconds >= 3600:
        return format_duration(seconds // 60 * 60)
    return format_duration(float(int(seconds)))


def some(names: Iterable[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    names = list(names)
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
