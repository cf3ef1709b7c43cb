"""Amounts for people: cores, and bytes in the largest unit that fits, to three digits."""

from __future__ import annotations

from stromboli.api.quantity import format_amount

_BYTES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def readable_amount(resource: str, amount: int) -> str:
    """`1.5` cores, `7.63Gi` of memory, `3` devices. The text may be rounded."""
    if resource == "cpu":
        return f"{amount / 1000:g}" if amount < 10_000_000 else str(round(amount / 1000))
    exact = format_amount(resource, amount)
    if len(exact) <= 5 or not _is_bytes(resource):
        return exact
    size, unit = float(amount), 0
    while size >= 1024 and unit + 1 < len(_BYTES):
        size, unit = size / 1024, unit + 1
    return f"{size:.3g}{_BYTES[unit]}" if size < 1000 else f"{size:.0f}{_BYTES[unit]}"


def _is_bytes(resource: str) -> bool:
    """Only amounts of bytes are written with a unit."""
    return format_amount(resource, 1024) == "1Ki"
