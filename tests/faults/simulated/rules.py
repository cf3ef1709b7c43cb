"""Faults of single requests: which are armed, which request meets which, and the count of both.

A rule waits for requests of certain processes and kinds, and is used up after some of them. What a request is called
here (`LIST pods`, `PATCH podgroups/status`, `WATCH jobs.batch.volcano.sh`) is also what the tables of coverage show.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

FAULTS: Final = {
    "lose-request": "the connection breaks before the server has read the request",
    "ignore-request": "the request is never answered, and nothing is done",
    "lose-response": "the write is done, and the connection breaks",
    "hold-response": "the write is done, and the response never comes",
    "late-write": "the request is handled some seconds late",
    "late-response": "the response comes some seconds late",
    "409": "refused as a conflict",
    "422": "refused as invalid",
    "429": "refused, with Retry-After",
    "500": "an internal error, and nothing is done",
    "503": "unavailable, sometimes with Retry-After",
    "done-500": "an internal error, after the write was done",
    "stale-read": "answered from an old state",
    "cut-watch": "a watch breaks, in the middle of an event",
    "stall-watch": "a watch shows nothing for some seconds, and then everything",
    "gone-watch": "a watch ends with 410",
    "repeat-watch": "a watch repeats old events",
    "gap-watch": "no watch and no list for some seconds, and then what was missed is forgotten",
}


@dataclass
class Rule:
    fault: str
    who: str  # a pattern for names of processes
    what: str  # a pattern for requests
    times: int
    until: float
    amount: float  # seconds, or how far back

    def matches(self, who: str, what: str, now: float) -> bool:
        return self.times > 0 and now <= self.until and fnmatchcase(who, self.who) and fnmatchcase(what, self.what)


class Rules:
    def __init__(self) -> None:
        self.armed: list[Rule] = []
        self.hits: Counter[tuple[str, str]] = Counter()

    def meet(self, who: str, what: str, now: float, faults: tuple[str, ...] | None = None) -> Rule | None:
        for rule in self.armed:
            if (faults is None or rule.fault in faults) and rule.matches(who, what, now):
                rule.times -= 1
                self.hits[rule.fault, what] += 1
                return rule
        return None

    def note(self, fault: str, what: str) -> None:
        """Something else that happened on purpose."""
        self.hits[fault, what] += 1

    def clear(self) -> None:
        self.armed.clear()
