"""The sessions of one cycle: the first that nothing goes wrong in ends it.

    open ─▶ actions ─▶ close ─▶ the cycle
      ▲        │
      │        │ an error: charge it to an object
      └────────┘ put that aside, and open a new session

What was committed before an error stays decided, and binds may be on their way already. The new session finds it in the
ledger, as the next cycle would. All actions run again, because the first may have been the one that failed; those that
have nothing left to do are quick. After so many errors in one cycle no action is run any more, and the cycle ends with
what is decided; the next one continues, with everybody put aside who was charged.

All this follows from the cluster, the time, and the inputs: who is put aside, who was not reached, where it was cut. So
a recording of these gives the same decisions again, and the same errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Protocol

from stromboli.cluster import Cluster, JobKey
from stromboli.containment import ContainedError, ObjectRef
from stromboli.scheduling.conclusion import conclude
from stromboli.scheduling.cycle import Scheduler, end_actions
from stromboli.scheduling.decisions import Cycle, Decision
from stromboli.scheduling.session import Session
from stromboli.scheduling.turns import MayGoOn, Turns

from .attribution import charge
from .put_aside_said import notices, say_put_aside

MOST_WITH_ACTIONS: Final = 10  # sessions of a cycle in which actions are run
MOST_SESSIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Aside:
    error: str  # the class of the error
    entirely: bool = False  # also what it holds is given up


@dataclass(frozen=True, slots=True)
class CycleInputs:
    """What a cycle depends on besides the cluster, the time and the configuration."""

    put_aside: Mapping[ObjectRef, Aside] = field(default_factory=dict)
    first: Mapping[str, Sequence[JobKey]] = field(default_factory=dict)  # by action: who had no turn in the last one


class CycleObserver(Protocol):
    """Is told how far a cycle is, to measure it and to send what is decided."""

    def opened(self, session: Session) -> None: ...
    def acted(self, action: str, cycle: Cycle) -> None: ...


class NotContained(Exception):
    """The cycle failed. `errors`: whom it was charged to before that, and in the end, if anybody."""

    def __init__(self, errors: list[ContainedError]) -> None:
        super().__init__("a cycle failed")
        self.errors = errors


def run_contained(
    scheduler: Scheduler,
    cluster: Cluster,
    now: float,
    inputs: CycleInputs | None = None,
    *,
    may_go_on: MayGoOn | None = None,
    observer: CycleObserver | None = None,
) -> Cycle:
    """Decide as `Scheduler.run` does, but go on after errors. `may_go_on`: when it is to be cut."""
    given = inputs or CycleInputs()
    put_aside = dict(given.put_aside)
    turns = Turns(given.first, may_go_on)
    decided: list[Decision] = []
    errors: list[ContainedError] = []
    for sessions in count():
        attempt = _Attempt(turns, decided, observer, with_actions=sessions < MOST_WITH_ACTIONS)
        try:
            cluster.set_aside({ref: aside.entirely for ref, aside in put_aside.items()})
            cycle = attempt.run(scheduler, cluster, now)
            charged = {*given.put_aside, *(one.subject for one in errors)}  # without those that were pardoned
            say_put_aside(cycle, cluster, {ref: put_aside[ref] for ref in charged}, now)
            break
        except Exception as error:
            withdrawn = [ref for ref, aside in put_aside.items() if aside.entirely or ref.kind != "Reservation"]
            found = charge(error, turns.current, withdrawn, errors)
            if found is not None:
                found = replace(found, entirely=found.subject in put_aside)
                errors = [*_still_suspected(errors, found), found]
            if found is None or attempt.was_settling or sessions + 1 >= MOST_SESSIONS:
                raise NotContained(errors) from error
            put_aside[found.subject] = Aside(found.error, found.entirely)
        _check_undone(scheduler, cluster, errors)
    cycle.decisions += notices(errors)
    cycle.contained = errors
    cycle.cut = turns.cut
    cycle.not_reached = {action: list(jobs) for action, jobs in turns.not_reached.items()}
    return cycle


def _still_suspected(errors: Sequence[ContainedError], last: ContainedError) -> list[ContainedError]:
    """Without guesses that an error of the same kind has refuted: it happened while those were put aside."""
    return [one for one in errors if not one.is_guess or (one.error, one.where) != (last.error, last.where)]


class _Attempt:
    """One session of a cycle."""

    def __init__(
        self, turns: Turns, decided: list[Decision], observer: CycleObserver | None, *, with_actions: bool
    ) -> None:
        self._turns = turns
        self._decided = decided
        self._observer = observer
        self._with_actions = with_actions
        self._session: Session | None = None

    @property
    def was_settling(self) -> bool:
        return self._session is not None and self._session.is_settling

    def run(self, scheduler: Scheduler, cluster: Cluster, now: float) -> Cycle:
        self._turns.begin("")
        session = self._session = scheduler.open(cluster.snapshot(), now, self._turns, self._decided)
        if self._observer is not None:
            self._observer.opened(session)
        if self._with_actions:
            scheduler.act(session, self._after_action)
        end_actions(session)
        done = len(self._decided)
        try:
            conclude(session)
        except Exception:
            del self._decided[done:]  # the next session says it
            raise
        return session.cycle

    def _after_action(self, action: str) -> None:
        if self._observer is not None and self._session is not None:
            self._observer.acted(action, self._session.cycle)


def _check_undone(scheduler: Scheduler, cluster: Cluster, errors: list[ContainedError]) -> None:
    """An error inside an operation of the ledger may leave it inconsistent. Then everything has to be built again."""
    scheduler.forget()
    try:
        cluster.snapshot()
        cluster.validate()
    except Exception as error:
        raise NotContained(errors) from error
