"""Quantities in the one form that the API server writes them in: the largest unit without a fraction.

1000m → 1      0.5 → 500m      1024Mi → 1Gi      2048 → 2048      1e3 → 1e3
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

PATTERN: Final = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]{1,3})"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST: Final = 64  # nobody writes longer numbers, and exact arithmetic on a megabyte of digits takes minutes


class QuantityFormatError(ValueError):
    pass


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The canonical form; raises QuantityFormatError."""
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise QuantityFormatError(f"quantities must match the regular expression '{PATTERN}'")
    unit = found["unit"]
    number = Fraction(found["number"]) * (-1 if found["sign"] == "-" else 1)
    if unit in _BINARY and unit:
        return _binary(number * 2 ** _BINARY[unit])
    exponent = _DECIMAL.get(unit)
    if exponent is None:
        return _scientific(number * Fraction(10) ** int(unit[1:]))
    return _decimal(number * Fraction(10) ** exponent)


def _binary(value: Fraction) -> str:
    if value.denominator != 1 or abs(value) < 1024:
        return _decimal(value)
    whole = value.numerator
    best = max((unit for unit in _BINARY if whole % 2 ** _BINARY[unit] == 0), key=_BINARY.__getitem__)
    return f"{whole >> _BINARY[best]}{best}"


def _decimal(value: Fraction) -> str:
    nano = -((-value * 10**9) // 1)  # smaller parts are rounded up, as in Kubernetes
    if nano == 0:
        return "0"
    for unit in reversed(_DECIMAL):
        size = 10 ** (_DECIMAL[unit] + 9)
        if nano % size == 0:
            return f"{nano // size}{unit}"
    raise AssertionError("the smallest unit divides everything")


def _scientific(value: Fraction) -> str:
    if value.denominator != 1 or value == 0:
        return _decimal(value)
    whole, exponent = value.numerator, 0
    while whole % 1000 == 0:
        whole, exponent = whole // 1000, exponent + 3
    return f"{whole}e{exponent}" if exponent else str(whole)
