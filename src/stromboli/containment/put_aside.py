"""For how long an object is put aside after an error.

The first time for a second, then for twice as long each time, at most five minutes: a bug that a new state of the
cluster avoids costs little time, and one that stays costs little work. An object that was handled again for as long as
it had been put aside is forgotten, so its next error counts as its first.

An object that changes is tried again at once, because the change may be the remedy; but not more often than once in a
second, and its next error puts it aside for longer all the same. This is memory of the process: a restart tries
everything again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from .contained_error import ObjectRef

FIRST: Final = 1.0  # seconds
LONGEST: Final = 300.0


@dataclass(frozen=True, slots=True)
class _Record:
    error: str
    at: float  # when the last error happened
    seconds: float  # for how long it was put aside then
    until: float  # sooner, if it was changed
    entirely: bool


class PutAside:
    def __init__(self, *, first: float = FIRST, longest: float = LONGEST) -> None:
        self._first = first
        self._longest = longest
        self._records: dict[ObjectRef, _Record] = {}

    def charge(self, ref: ObjectRef, error: str, now: float, *, entirely: bool = False) -> float:
        """An error happened on the object. Returns for how many seconds it is put aside. `entirely`: as if nothing of
        it existed, because less did not help."""
        known = self._records.get(ref)
        seconds = self._first if known is None else min(2 * known.seconds, self._longest)
        self._records[ref] = _Record(error, now, seconds, now + seconds, entirely)
        return seconds

    def changed(self, ref: ObjectRef) -> None:
        """The object changed in a way that may matter."""
        known = self._records.get(ref)
        if known is not None:
            self._records[ref] = replace(known, until=min(known.until, known.at + self._first))

    def gone(self, ref: ObjectRef) -> None:
        """The object was deleted."""
        self._records.pop(ref, None)

    def at(self, now: float) -> Iterator[tuple[ObjectRef, str, bool]]:
        """Who is put aside at this time: (object, error, whether entirely), in the order of kinds and names."""
        for ref, record in sorted(self._records.items()):
            if now < record.until:
                yield ref, record.error, record.entirely
            elif now >= record.until + record.seconds:
                del self._records[ref]
