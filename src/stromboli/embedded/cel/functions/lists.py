"""Functions of lists and sets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from stromboli.embedded.cel.values import (
    NOTHING,
    Budget,
    CelError,
    Duration,
    Maybe,
    equal,
    is_number,
    less,
    no_such_overload,
)

from .function import Function, Functions, member, want
from .operators import FUNCTIONS as OPERATORS

_MOST_ITEMS: Final = 1_000_000


def _is_sorted(budget: Budget, items: Any) -> bool:
    want(list, items)
    budget.take(len(items))
    return not any(less(after, before, budget) for before, after in pairwise(items))


def _sum(budget: Budget, items: Any) -> Any:
    want(list, items)
    budget.take(len(items))
    if not items:
        return 0
    total = items[0]
    if not is_number(total) and not isinstance(total, Duration):
        raise no_such_overload(total)
    for item in items[1:]:
        total = OPERATORS["_+_", False].body(budget, total, item)
    return total


def _extreme(word: str, *, is_least: bool) -> Any:
    def body(budget: Budget, items: Any) -> Any:
        want(list, items)
        budget.take(len(items))
        if not items:
            raise CelError(f"{word} called on empty list")
        best = items[0]
        for item in items:
            if less(item, best, budget) if is_least else less(best, item, budget):
                best = item
        return best

    return body


def _index_of(items: list[Any], wanted: Any, budget: Budget) -> int:
    budget.take(len(items))
    return next((at for at, item in enumerate(items) if equal(item, wanted, budget)), -1)


def index_of(budget: Budget, items: list[Any], wanted: Any) -> int:
    return _index_of(items, wanted, budget)


def last_index_of(budget: Budget, items: list[Any], wanted: Any) -> int:
    found = _index_of(items[::-1], wanted, budget)
    return -1 if found < 0 else len(items) - 1 - found


def _slice(budget: Budget, items: Any, start: Any, end: Any) -> list[Any]:
    want(list, items)
    want(int, start, end)
    if not 0 <= start <= end <= len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    budget.take(end - start)
    return list(items[start:end])


def _flatten(budget: Budget, items: Any, depth: Any = 1) -> list[Any]:
    want(list, items)
    want(int, depth)
    if depth < 0:
        raise CelError("flatten: level must be non-negative")
    made: list[Any] = []
    for item in items:
        budget.take(1)
        if isinstance(item, list) and depth:
            made.extend(_flatten(budget, item, depth - 1))
        else:
            made.append(item)
    budget.take(len(made))
    return made


def _distinct(budget: Budget, items: Any) -> list[Any]:
    want(list, items)
    made: list[Any] = []
    for item in items:
        if _index_of(made, item, budget) < 0:
            made.append(item)
    return made


def _sort(budget: Budget, items: Any) -> list[Any]:
    want(list, items)
    rounds = max(len(items).bit_length(), 1)
    budget.take(len(items) * rounds)
    for item in items:
        if type(item) is not type(items[0]):
            raise no_such_overload(items[0], item)
        less(item, items[0], budget)
        budget.compare(item, rounds)
    return sorted(items)


def _reverse(budget: Budget, items: Any) -> list[Any]:
    want(list, items)
    budget.take(len(items))
    return list(items[::-1])


def _range(budget: Budget, count: Any) -> list[int]:
    want(int, count)
    if count > _MOST_ITEMS:
        raise CelError(f"lists.range({count}): the most is {_MOST_ITEMS}")
    budget.take(max(count, 0))
    return list(range(count))


def _first(budget: Budget, items: Any) -> Maybe:
    want(list, items)
    return Maybe(items[0]) if items else NOTHING


def _last(budget: Budget, items: Any) -> Maybe:
    want(list, items)
    return Maybe(items[-1]) if items else NOTHING


def _found(budget: Budget, wanted: list[Any], items: list[Any]) -> Iterator[bool]:
    want(list, wanted, items)
    return (_index_of(items, item, budget) >= 0 for item in wanted)


FUNCTIONS: Final[Functions] = {
    ("isSorted", True): member(_is_sorted),
    ("sum", True): member(_sum),
    ("min", True): member(_extreme("min", is_least=True)),
    ("max", True): member(_extreme("max", is_least=False)),
    ("slice", True): member(_slice, 2),
    ("flatten", True): member(_flatten, 0, 1),
    ("distinct", True): member(_distinct),
    ("sort", True): member(_sort),
    ("reverse", True): member(_reverse),
    ("first", True): member(_first),
    ("last", True): member(_last),
    ("lists.range", False): Function(_range, (1,)),
    ("sets.contains", False): Function(lambda budget, one, other: all(_found(budget, other, one)), (2,)),
    ("sets.intersects", False): Function(lambda budget, one, other: any(_found(budget, other, one)), (2,)),
    ("sets.equivalent", False): Function(
        lambda budget, one, other: all(_found(budget, other, one)) and all(_found(budget, one, other)), (2,)
    ),
}
