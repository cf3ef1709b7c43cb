"""Which pods something can be about, and what can be about a pod.

A term of affinity selects pods by namespaces and labels. There may be a hundred thousand terms, and to try each of
them for each pod would take too long. Nearly every term reaches one namespace only, and requires a label. So things
are found by these: the terms of one tenant cost nothing for the pods of another, unless they are written about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from stromboli.api import LabelSelector
from stromboli.cluster import Task

Clue = tuple[str, tuple[str, ...] | None]
"""A label and the only values of it that a selector can match (None: any), so that other tasks need not be tried."""


def clue_of(selector: LabelSelector | None) -> Clue | None:
    """A label that a selector requires, with its values; None if there is none that is easy to find."""
    if selector is None:
        return ("", ())
    for label, value in sorted(selector.match_labels.items()):
        return (label, (value,))
    for requirement in selector.match_expressions:
        if requirement.operator == "In":
            return (requirement.key, tuple(requirement.values))
    for requirement in selector.match_expressions:
        if requirement.operator == "Exists":
            return (requirement.key, None)
    return None


class Reach(NamedTuple):
    """The pods that something can be about."""

    namespaces: tuple[str, ...] | None  # None: any
    clue: Clue | None  # None: any labels


_Thing = TypeVar("_Thing")
_Address = tuple[str, str, str | None]  # namespace, label and its value
_ANY: Final = ""


class ByReach(Generic[_Thing]):
    """Things by whom they can be about."""

    def __init__(self) -> None:
        self._at: dict[_Address, list[_Thing]] = {}

    def __bool__(self) -> bool:
        return bool(self._at)

    def add(self, thing: _Thing, reach: Reach) -> None:
        for address in _addresses(reach):
            self._at.setdefault(address, []).append(thing)

    def about(self, task: Task) -> list[_Thing]:
        """All that can be about a task, each once: it has one namespace, and one value of a label."""
        at, found = self._at, list[_Thing]()
        if not at:
            return found
        for namespace in (task.namespace, _ANY):
            found += at.get((namespace, _ANY, None), ())
            for label, value in task.pod.metadata.labels.items():
                found += at.get((namespace, label, value), ())
                found += at.get((namespace, label, None), ())
        return found


def _addresses(reach: Reach) -> Iterator[_Address]:
    label, values = reach.clue or (_ANY, None)
    wanted: Iterable[str | None] = (None,) if values is None else dict.fromkeys(values)
    for namespace in dict.fromkeys((_ANY,) if reach.namespaces is None else reach.namespaces):
        for value in wanted:
            yield namespace, label, value
