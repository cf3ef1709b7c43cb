"""Arithmetic, comparisons, and `in`."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

from stromboli.embedded.cel.fields import key_of
from stromboli.embedded.cel.values import (
    Budget,
    CelError,
    Duration,
    KeyedList,
    SetList,
    Timestamp,
    by_keys,
    checked_int,
    compared,
    equal,
    item_in,
    no_such_overload,
)

from .function import Function, Functions


def _is_int(*values: Any) -> bool:
    return all(type(value) is int for value in values)


def _is_double(*values: Any) -> bool:
    return all(type(value) is float for value in values)


def _add(budget: Budget, one: Any, other: Any) -> Any:
    if _is_int(one, other):
        return checked_int(one + other)
    if _is_double(one, other):
        return one + other
    if type(one) is type(other) and isinstance(one, str | bytes):
        budget.take((len(one) + len(other)) // 10)
        return one + other
    if isinstance(one, list) and isinstance(other, list):
        budget.take(len(one) + len(other))
        return _joined(one, other, budget)
    if isinstance(other, Timestamp) and isinstance(one, Duration):
        one, other = other, one
    if isinstance(one, Timestamp | Duration) and isinstance(other, Duration):
        return type(one)(checked_int(one.nanoseconds + other.nanoseconds))
    raise no_such_overload(one, other)


def _joined(one: list[Any], other: list[Any], budget: Budget) -> list[Any]:
    if isinstance(one, SetList):
        return SetList([*one, *(item for item in other if not item_in(item, one, budget))])
    if isinstance(one, KeyedList):
        made = KeyedList((by_keys(one, budget) | by_keys(_keyed(other, one), budget)).values())
        made.keys = one.keys
        return made
    return one + other


def _keyed(items: list[Any], like: KeyedList) -> KeyedList:
    made = KeyedList(items)
    made.keys = like.keys
    return made


def _subtract(budget: Budget, one: Any, other: Any) -> Any:
    if _is_int(one, other):
        return checked_int(one - other)
    if _is_double(one, other):
        return one - other
    if isinstance(one, Timestamp) and isinstance(other, Timestamp):
        return Duration(checked_int(one.nanoseconds - other.nanoseconds))
    if isinstance(one, Timestamp | Duration) and isinstance(other, Duration):
        return type(one)(checked_int(one.nanoseconds - other.nanoseconds))
    raise no_such_overload(one, other)


def _multiply(budget: Budget, one: Any, other: Any) -> Any:
    if _is_int(one, other):
        return checked_int(one * other)
    if _is_double(one, other):
        return one * other
    raise no_such_overload(one, other)


def _divide(budget: Budget, one: Any, other: Any) -> Any:
    if _is_int(one, other):
        if other == 0:
            raise CelError("division by zero")
        return checked_int(_towards_zero(one, other))
    if _is_double(one, other):
        if other != 0:
            return one / other
        if one == 0 or math.isnan(one):
            return math.nan
        return math.inf if (one > 0) == (math.copysign(1, other) > 0) else -math.inf
    raise no_such_overload(one, other)


def _towards_zero(one: int, other: int) -> int:
    whole = abs(one) // abs(other)
    return whole if (one < 0) == (other < 0) else -whole


def _rest(budget: Budget, one: Any, other: Any) -> Any:
    if not _is_int(one, other):
        raise no_such_overload(one, other)
    if other == 0:
        raise CelError("modulus by zero")
    return one - other * _towards_zero(one, other)


def _negative(budget: Budget, one: Any) -> Any:
    if _is_int(one):
        return checked_int(-one)
    if _is_double(one):
        return -one
    if isinstance(one, Duration):
        return Duration(checked_int(-one.nanoseconds))
    raise no_such_overload(one)


def _not(budget: Budget, one: Any) -> bool:
    if one is True:
        return False
    if one is False:
        return True
    raise no_such_overload(one)


def _in(budget: Budget, one: Any, other: Any) -> bool:
    if isinstance(other, list):
        return item_in(one, other, budget)
    if isinstance(other, dict):
        try:
            return key_of(one, budget) in other
        except CelError:
            return False
    raise no_such_overload(one, other)


def _compare(test: Any) -> Function:
    body = compared(test)
    return Function(lambda budget, one, other: body(one, other, budget), (2,))


FUNCTIONS: Final[Functions] = {
    ("_==_", False): Function(lambda budget, one, other: equal(one, other, budget), (2,)),
    ("_!=_", False): Function(lambda budget, one, other: not equal(one, other, budget), (2,)),
    ("_<_", False): _compare(operator.lt),
    ("_<=_", False): _compare(operator.le),
    ("_>_", False): _compare(operator.gt),
    ("_>=_", False): _compare(operator.ge),
    ("_in_", False): Function(_in, (2,)),
    ("_+_", False): Function(_add, (2,)),
    ("_-_", False): Function(_subtract, (2,)),
    ("_*_", False): Function(_multiply, (2,)),
    ("_/_", False): Function(_divide, (2,)),
    ("_%_", False): Function(_rest, (2,)),
    ("-_", False): Function(_negative, (1,)),
    ("!_", False): Function(_not, (1,)),
}
