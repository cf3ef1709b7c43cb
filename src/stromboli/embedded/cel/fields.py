"""What is in a value: fields, keys of maps, items of lists; and values that may not be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .values import NOTHING, Budget, CelError, Maybe, no_such_overload


class Lazy:
    """Variables of a policy, each evaluated once, when it is first used. While one is evaluated it is not there, so one
    that needs itself has no value."""

    def __init__(self, known: dict[str, Callable[[], Any]]) -> None:
        self._known = known
        self._values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        if name not in self._values:
            found = self._known.pop(name, None)
            if found is None:
                raise CelError(f"no such key: {name}")
            try:
                self._values[name] = found()
            finally:
                self._known[name] = found
        return self._values[name]


def is_given(value: Any) -> bool:
    if not isinstance(value, Maybe):
        raise no_such_overload(value)
    return value.is_given


def field_of(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        if name in value:
            return value[name]
        raise CelError(f"no such key: {name}")
    if isinstance(value, Maybe):
        return optional_field(value, name)
    if isinstance(value, Lazy):
        return value.get(name)
    raise no_such_overload(value)


def optional_field(value: Any, name: str) -> Maybe:
    if isinstance(value, Maybe):
        return optional_field(value.value, name) if value.is_given else NOTHING
    if isinstance(value, dict):
        return Maybe(value[name]) if name in value else NOTHING
    raise no_such_overload(value)


def has_field(value: Any, name: str) -> bool:
    if isinstance(value, Maybe):
        return value.is_given and has_field(value.value, name)
    if isinstance(value, dict):
        return name in value
    raise no_such_overload(value)


def key_of(value: Any, budget: Budget) -> Any:
    """A key of a map. For Python, true and 1 are one key."""
    budget.compare(value)
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise CelError(f"unsupported key type: {no_such_overload(value)}")


def item_of(value: Any, index: Any, budget: Budget) -> Any:
    if isinstance(value, dict):
        key = key_of(index, budget)
        if key in value:
            return value[key]
        raise CelError(f"no such key: {index}")
    if isinstance(value, list):
        at = key_of(index, budget)
        if isinstance(at, int):
            if 0 <= at < len(value):
                return value[at]
            raise CelError(f"index out of bounds: {at}")
    if isinstance(value, Maybe):
        return optional_item(value, index, budget)
    raise no_such_overload(value, index)


def optional_item(value: Any, index: Any, budget: Budget) -> Maybe:
    if isinstance(value, Maybe):
        return optional_item(value.value, index, budget) if value.is_given else NOTHING
    if isinstance(value, dict):
        key = key_of(index, budget)
        return Maybe(value[key]) if key in value else NOTHING
    if isinstance(value, list):
        at = key_of(index, budget)
        if isinstance(at, int):
            return Maybe(value[at]) if 0 <= at < len(value) else NOTHING
    raise no_such_overload(value, index)
