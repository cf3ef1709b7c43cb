"""The values of expressions, and what they have in common: equality, order, and names of types.

null, bool, int, double, string, bytes, list and map are those of Python, where `True == 1` holds and is wrong here. The
rest has classes of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

LARGEST_INT: Final = 2**63 - 1
SMALLEST_INT: Final = -(2**63)
_SHORT: Final = 100  # characters that are compared in one step


class CompileError(Exception):
    """A text that is no expression, or uses what is not supported; says what."""


class CelError(Exception):
    """An expression has no value: a key is missing, a type does not fit."""


class OverBudget(Exception):
    """The evaluation takes too long."""


class Budget:
    """How many steps are left. What is written out takes a step for each of its parts, each time that it is evaluated;
    functions take more for long values, so that a step is never much longer than another."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise OverBudget("the evaluation takes more steps than allowed")

    def compare(self, value: Any, times: int = 1) -> None:
        """Steps to compare a value with another, or to look it up: texts may be long, and their hashes equal."""
        if isinstance(value, str | bytes) and len(value) > _SHORT:
            self.take(times * (len(value) // _SHORT))


class Maybe:
    """An optional value."""

    __slots__ = ("is_given", "value")

    def __init__(self, value: Any = None, *, is_given: bool = True) -> None:
        self.value = value
        self.is_given = is_given


NOTHING: Final = Maybe(is_given=False)


@dataclass(frozen=True, slots=True)
class Quantity:
    value: Fraction


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Since the beginning of 1970."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class TypeName:
    name: str


@dataclass(frozen=True, slots=True)
class Struct:
    """What `Object{…}` and `JSONPatch{…}` make: fields for a mutation."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)


class SetList(list[Any]):
    """A list whose order means nothing, `x-kubernetes-list-type: set`."""


class KeyedList(list[Any]):
    """A list of items with keys, `x-kubernetes-list-type: map`."""

    keys: tuple[str, ...] = ()


def no_such_overload(*values: Any) -> CelError:
    return CelError(f"no such overload: {', '.join(type_of(value) for value in values)}")


_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"), (int, "int"), (float, "double"), (str, "string"), (bytes, "bytes"), (list, "list"), (dict, "map"),
    (Maybe, "optional_type"), (Quantity, "kubernetes.Quantity"), (Duration, "google.protobuf.Duration"),
    (Timestamp, "google.protobuf.Timestamp"), (TypeName, "type"),
)  # fmt: skip


def type_of(value: Any) -> str:
    if value is None:
        return "null_type"
    if isinstance(value, Struct):
        return value.name
    return next(name for kind, name in _TYPES if isinstance(value, kind))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# -- equality ----------------------------------------------------------------------------------------------------------


def equal(one: Any, other: Any, budget: Budget) -> bool:
    kind = type(one)
    if kind is type(other) and kind in (str, int, bool):
        budget.compare(one)
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return _equal_lists(one, other, budget)
    if isinstance(one, dict) and isinstance(other, dict):
        return _equal_maps(one, other, budget)
    if isinstance(one, Maybe) and isinstance(other, Maybe):
        return one.is_given == other.is_given and (not one.is_given or equal(one.value, other.value, budget))
    if isinstance(one, Struct) and isinstance(other, Struct):
        return one.name == other.name and _equal_maps(dict(one.fields), dict(other.fields), budget)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    budget.compare(one)
    return bool(one == other)


def _equal_lists(one: list[Any], other: list[Any], budget: Budget) -> bool:
    budget.take(1 + len(one))
    if len(one) != len(other):
        return False
    if isinstance(one, SetList) and isinstance(other, SetList):
        return all(item_in(item, other, budget) for item in one)
    if isinstance(one, KeyedList) and isinstance(other, KeyedList):
        return _equal_maps(by_keys(one, budget), by_keys(other, budget), budget)
    return all(equal(item, of_other, budget) for item, of_other in zip(one, other, strict=True))


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any], budget: Budget) -> bool:
    budget.take(1 + len(one))
    if len(one) != len(other):
        return False
    return all(key in other and equal(part, other[key], budget) for key, part in one.items())


def item_in(wanted: Any, items: list[Any], budget: Budget) -> bool:
    budget.take(1 + len(items))
    return any(equal(wanted, item, budget) for item in items)


def by_keys(items: KeyedList, budget: Budget) -> dict[Any, Any]:
    made = {}
    for item in items:
        if isinstance(item, dict):
            key = repr([item.get(key) for key in items.keys])
            budget.take(1 + len(key) // 10)
            made[key] = item
    return made


# -- order -------------------------------------------------------------------------------------------------------------


def less(one: Any, other: Any, budget: Budget) -> bool:
    """Raises CelError for what has no order."""
    budget.compare(one)
    if is_number(one) and is_number(other):
        return bool(one < other)
    if type(one) is type(other) and isinstance(one, str | bytes | bool | Duration | Timestamp):
        return bool(one < other)
    raise no_such_overload(one, other)


def compared(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Budget], bool]:
    """An operator that compares, such as `<=`, made from the one of Python."""

    def operator(one: Any, other: Any, budget: Budget) -> bool:
        kind = type(one)
        if kind is type(other) and kind in (int, str):
            budget.compare(one)
            return test(one, other)
        less(one, other, budget)  # whether they have an order at all
        return test(one, other)

    return operator


def checked_int(value: int) -> int:
    if SMALLEST_INT <= value <= LARGEST_INT:
        return value
    raise CelError("integer overflow")


def shown_double(value: float) -> str:
    """As Go writes it: with an exponent below 0.0001 and from a million on."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) + exponent - 1
    if -4 <= power < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    written = "".join(map(str, digits))
    mantissa = f"{written[0]}.{written[1:]}".removesuffix(".")
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
