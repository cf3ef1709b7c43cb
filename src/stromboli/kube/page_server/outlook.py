"""What the page knows beyond the objects: the codes of reasons, and when waiting jobs are expected to start.

Both take a cycle, or many, on a copy of the cluster. So they are worked out beside the refreshes, only while somebody
looks, and less often the longer they take. A row has them as of the last time.

Trials need a simulation, which a process on a cluster does not know: worlds do not import each other. So whoever starts
the process gives the page somebody who answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from stromboli.insight import State, inspect
from stromboli.scheduling.cycle import Scheduler

MOST_OBJECTS: Final = 20_000
"""On larger clusters nothing is tried here: it would take the scheduler's process too long."""


class ExpectedRun(NamedTuple):
    start: float
    end: float | None  # if it says how long it runs


class WhatIf(Protocol):
    """Tries things on copies of the cluster. The calls take long, and run in a thread."""

    def expected_runs(self, state: State, scheduler: Scheduler) -> Mapping[str, ExpectedRun]:
        """Of waiting jobs, by the key of their group; those that start soon enough to be worth a forecast."""
        ...

    def prospects(
        self, state: State, scheduler: Scheduler, job: str, tell: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any] | None:
        """What would start a job, as data; None if there is no such job. `tell` is called again and again with what is
        known so far, and may raise an error to end the trials."""
        ...


@dataclass(frozen=True, slots=True)
class Outlook:
    """By the key of a group."""

    codes: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, ExpectedRun] = field(default_factory=dict)


def look_ahead(state: State, scheduler: Scheduler, what_if: WhatIf | None) -> Outlook:
    """The scheduler is a copy: a cycle changes what it remembers."""
    waiting = [job for job in inspect(state, scheduler).picture.jobs if job.waits]
    runs: Mapping[str, ExpectedRun] = {}
    if waiting and what_if is not None and len(state.objects) <= MOST_OBJECTS:
        runs = what_if.expected_runs(state, scheduler)
    return Outlook({job.group: job.reason for job in waiting}, runs)
