"""Ratios that compare exactly and fast.

Shares decide many orders, so two equal shares must tie; as floats they might not. A `Fraction` is exact, but costs more
than the rest of a sort key. So the key has the float first: rounding never reverses the order of two numbers, it can
only make them equal. Only then the exact ratio is compared.
"""

from __future__ import annotations


class Ratio:
    """top / bottom, with a positive bottom; compared by cross-multiplication."""

    __slots__ = ("bottom", "top")

    def __init__(self, top: int, bottom: int) -> None:
        self.top = top
        self.bottom = bottom

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ratio) and self.top * other.bottom == other.top * self.bottom

    def __lt__(self, other: Ratio) -> bool:
        return self.top * other.bottom < other.top * self.bottom

    def __le__(self, other: Ratio) -> bool:
        return self.top * other.bottom <= other.top * self.bottom

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.top}/{self.bottom}"


RatioKey = tuple[float, Ratio]


def ratio_key(top: int, bottom: int) -> RatioKey:
    """A sort key for top / bottom."""
    return (top / bottom, Ratio(top, bottom))
