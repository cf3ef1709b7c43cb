"""From one type to another, and `size`."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from stromboli.embedded.cel.values import (
    Budget,
    CelError,
    Duration,
    Maybe,
    Timestamp,
    TypeName,
    checked_int,
    no_such_overload,
    shown_double,
    type_of,
)

from .function import Function, Functions
from .times import shown_duration, shown_timestamp

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?|[+-]?[iI]nf|[nN]a[nN]")


def _int(budget: Budget, value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float):
        if math.isfinite(value) and -(2.0**63) < value < 2.0**63:
            return int(value)
        raise CelError("range error converting double to int")
    if isinstance(value, str):
        if _WHOLE.fullmatch(value):
            return checked_int(int(value))
        raise CelError(f"type conversion error from 'string' to 'int': {value[:50]!r}")
    if isinstance(value, Timestamp):
        return value.nanoseconds // 10**9
    if isinstance(value, Duration):
        return value.nanoseconds
    raise no_such_overload(value)


def _double(budget: Budget, value: Any) -> float:
    if isinstance(value, float) or type(value) is int:
        return float(value)
    if isinstance(value, str):
        budget.take(len(value))
        if _DOUBLE.fullmatch(value):
            return float(value)
        raise CelError(f"type conversion error from 'string' to 'double': {value[:50]!r}")
    raise no_such_overload(value)


def string(budget: Budget, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return shown_double(value)
    if isinstance(value, bytes):
        budget.take(len(value) // 10)
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, Timestamp):
        return shown_timestamp(value)
    if isinstance(value, Duration):
        return shown_duration(value)
    raise no_such_overload(value)


def _bool(budget: Budget, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in ("1", "t", "T", "true", "True", "TRUE"):
            return True
        if value in ("0", "f", "F", "false", "False", "FALSE"):
            return False
        raise CelError(f"type conversion error from 'string' to 'bool': {value[:50]!r}")
    raise no_such_overload(value)


def _bytes(budget: Budget, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        budget.take(len(value) // 10)
        return value.encode()
    raise no_such_overload(value)


def _size(budget: Budget, value: Any) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise no_such_overload(value)


def _type(budget: Budget, value: Any) -> TypeName:
    return TypeName("optional_type" if isinstance(value, Maybe) else type_of(value))


FUNCTIONS: Final[Functions] = {
    ("int", False): Function(_int, (1,)),
    ("double", False): Function(_double, (1,)),
    ("string", False): Function(string, (1,)),
    ("bool", False): Function(_bool, (1,)),
    ("bytes", False): Function(_bytes, (1,)),
    ("dyn", False): Function(lambda budget, value: value, (1,)),
    ("type", False): Function(_type, (1,)),
    ("size", False): Function(_size, (1,)),
    ("size", True): Function(_size, (0,)),
}
