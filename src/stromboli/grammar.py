"""Words that depend on a number."""

from __future__ import annotations


def are(number: int) -> str:
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    return "has" if number == 1 else "have"


def plural(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
