"""Amounts of resources in sentences."""

from __future__ import annotations

from stromboli.api.quantity import readable_amount, stated_amount

_MOST_DIGITS = 8


def amount(resource: str, number: int) -> str:
    """Exact, but for bytes that no unit divides, such as those of a product with the overcommit factor."""
    if not resource:
        return str(number)
    exact = stated_amount(resource, number)
    return exact if len(exact) <= _MOST_DIGITS else readable_amount(resource, number)
