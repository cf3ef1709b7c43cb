"""Values in objects that cannot be used as they are, for the scheduler to warn about.

An object arrives again with every change of it, and its owner should read a warning once. So a warning is new only if
the value is. It is repeated after a restart of the scheduler, and after the value was right for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ObjectWarning:
    kind: Literal["PodGroup", "Reservation", "ResourceQuota"]
    key: str
    value: str


class ObjectWarnings:
    """At most one warning for each object."""

    def __init__(self) -> None:
        self._current: dict[tuple[str, str], ObjectWarning] = {}
        self._new: dict[tuple[str, str], ObjectWarning] = {}

    def report(self, warning: ObjectWarning) -> None:
        place = (warning.kind, warning.key)
        if self._current.get(place) != warning:
            self._current[place] = self._new[place] = warning

    def withdraw(self, kind: str, key: str) -> None:
        """The object is right now, or it is gone."""
        self._current.pop((kind, key), None)
        self._new.pop((kind, key), None)

    def current(self, kind: str, key: str) -> ObjectWarning | None:
        return self._current.get((kind, key))

    def take_new(self) -> list[ObjectWarning]:
        """The warnings that were not taken yet, in the order of the objects."""
        taken = [self._new[place] for place in sorted(self._new)]
        self._new.clear()
        return taken
