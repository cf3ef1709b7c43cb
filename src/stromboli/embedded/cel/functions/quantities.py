"""Amounts such as 500m and 2Gi, as Kubernetes reads them: to a billionth, rounded up, and no more than 2**63 - 1."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Any, Final

from stromboli.embedded.cel.values import LARGEST_INT, SMALLEST_INT, Budget, CelError, Quantity, no_such_overload

from .function import Function, Functions, member, want

_WRITTEN: Final = re.compile(
    r"([+-]?)([0-9]+)?(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?[0-9]{1,3}))?", re.ASCII
)
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_LONGEST: Final = 1000
_NANO: Final = 10**9
_READ: Final = 10  # steps for fractions, which are slow
_CALCULATE: Final = 5


def _read(text: str) -> Quantity | None:
    found = _WRITTEN.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not (found[2] or found[3]):
        return None
    sign, whole, part, binary, decimal, exponent = found.groups()
    value = Fraction(int((whole or "") + (part or "")), 10 ** len(part or ""))
    if binary:
        value *= 1024 ** ("KMGTPE".index(binary[0]) + 1)
    elif decimal:
        value *= Fraction(10) ** _POWERS[decimal]
    elif exponent:
        if not -128 <= int(exponent) <= 127:
            return None
        value *= Fraction(10) ** int(exponent)
    value = Fraction(ceil(value * _NANO), _NANO)
    return Quantity(-value if sign == "-" else min(value, Fraction(LARGEST_INT)))


def _quantity(budget: Budget, text: Any) -> Quantity:
    want(str, text)
    budget.take(_READ + len(text) // 10)
    found = _read(text)
    if found is None:
        raise CelError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': "
            f"{text[:50]!r}"
        )
    return found


def _is_quantity(budget: Budget, text: Any) -> bool:
    want(str, text)
    budget.take(_READ + len(text) // 10)
    return _read(text) is not None


def _is_integer(budget: Budget, one: Any) -> bool:
    want(Quantity, one)
    return bool(one.value.denominator == 1 and SMALLEST_INT <= one.value <= LARGEST_INT)


def _as_integer(budget: Budget, one: Any) -> int:
    if not _is_integer(budget, one):
        raise CelError("cannot convert value to integer")
    return int(one.value)


def _compare_to(budget: Budget, one: Any, other: Any) -> int:
    want(Quantity, one, other)
    budget.take(_CALCULATE)
    return int(one.value > other.value) - int(one.value < other.value)


def _sum(sign: int) -> Any:
    def body(budget: Budget, one: Any, other: Any) -> Quantity:
        want(Quantity, one)
        budget.take(_CALCULATE)
        if type(other) is int:
            return Quantity(one.value + sign * other)
        if not isinstance(other, Quantity):
            raise no_such_overload(one, other)
        return Quantity(one.value + sign * other.value)

    return body


def _as_float(budget: Budget, one: Any) -> float:
    want(Quantity, one)
    return float(one.value)


def _sign(budget: Budget, one: Any) -> int:
    want(Quantity, one)
    return int(one.value > 0) - int(one.value < 0)


FUNCTIONS: Final[Functions] = {
    ("quantity", False): Function(_quantity, (1,)),
    ("isQuantity", False): Function(_is_quantity, (1,)),
    ("sign", True): member(_sign),
    ("isInteger", True): member(_is_integer),
    ("asInteger", True): member(_as_integer),
    ("asApproximateFloat", True): member(_as_float),
    ("add", True): member(_sum(1), 1),
    ("sub", True): member(_sum(-1), 1),
    ("compareTo", True): member(_compare_to, 1),
    ("isLessThan", True): member(lambda budget, one, other: _compare_to(budget, one, other) < 0, 1),
    ("isGreaterThan", True): member(lambda budget, one, other: _compare_to(budget, one, other) > 0, 1),
}
