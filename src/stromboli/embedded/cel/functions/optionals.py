"""Values that may not be there, and keys in the paths of JSON patches."""

from __future__ import annotations

from typing import Any, Final

from stromboli.embedded.cel.values import NOTHING, Budget, CelError, Maybe

from .function import Function, Functions, member, want


def _has_value(budget: Budget, one: Any) -> bool:
    want(Maybe, one)
    return bool(one.is_given)


def _value(budget: Budget, one: Any) -> Any:
    if not _has_value(budget, one):
        raise CelError("optional.none() dereference")
    return one.value


def _or(budget: Budget, one: Any, other: Any) -> Any:
    want(Maybe, one, other)
    return one if one.is_given else other


def _or_value(budget: Budget, one: Any, other: Any) -> Any:
    return one.value if _has_value(budget, one) else other


def _of_non_zero(budget: Budget, value: Any) -> Maybe:
    return Maybe(value) if value is not None and value not in (False, 0, "", b"", [], {}) else NOTHING


def _escape_key(budget: Budget, key: Any) -> str:
    want(str, key)
    budget.take(len(key) // 10)
    return str(key).replace("~", "~0").replace("/", "~1")


FUNCTIONS: Final[Functions] = {
    ("optional.of", False): Function(lambda budget, value: Maybe(value), (1,)),
    ("optional.none", False): Function(lambda budget: NOTHING, (0,)),
    ("optional.ofNonZeroValue", False): Function(_of_non_zero, (1,)),
    ("hasValue", True): member(_has_value),
    ("value", True): member(_value),
    ("or", True): member(_or, 1),
    ("orValue", True): member(_or_value, 1),
    ("jsonpatch.escapeKey", False): Function(_escape_key, (1,)),
}
