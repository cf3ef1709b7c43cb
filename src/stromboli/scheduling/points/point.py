"""One extension point: a question, and the callbacks that answer it.

The type of a point is the type of its callbacks, and each kind of point has one rule by which answers are combined
(tiers from the top, plugins in the order of the file, features last):

    Point       by the one who asks: keys are compared one after the other, amounts are added up
    Refusals    the first refusal decides; no refusal is a yes
    Tests       `all` or `any`, as the question demands
    Lists       all that anybody lists
    Handlers    all are called
    Votes       a reject anywhere wins; the first tier with a permit decides
    Verdicts    see `callbacks.Verdict`

A point says who may answer. Most are for features and plugins of Stromboli only: what is asked there follows from how
they work, and changes with them. Plugins of other distributions use the methods of `extension_points`.

A point also says whether a callback forbids to treat alike tasks as one (`Batching`). So no short cut needs to know
which points there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar, TypeVarTuple

from stromboli.cluster import Job, Task
from stromboli.scheduling.callbacks import Refusal, Verdict, VictimVerdict, Vote
from stromboli.scheduling.configuration import Flag

BELOW_PLUGINS: Final = 1 << 30
"""The tier of features."""
# Looked up once: it takes long to find members of an enumeration.
_NO = Verdict.NO
_YES = Verdict.YES

Call = TypeVar("Call")
Item = TypeVar("Item")
About = TypeVarTuple("About")


class Batching(Enum):
    """What a callback forbids to do for several tasks in one step."""

    NOTHING = 0  # what it says of one task holds for all that are alike, or it is asked elsewhere
    PLACING = 1  # it is asked or told about every placement
    COUNTING = 2  # it is asked about single tasks: what one of them gets says nothing about the next


class NotForPlugins(Exception):
    """A plugin of another distribution used a point that is not part of the plugin interface."""


@dataclass(slots=True)
class Desk:
    """Who registers callbacks at this moment, and what all callbacks so far forbid."""

    owner: str = ""
    tier: int = 0
    is_ours: bool = True
    is_enabled: Callable[[Flag], bool] | None = None  # None: everything is
    hears_all: bool = False  # somebody is asked or told about every placement
    asks_all: bool = False  # somebody is asked about every task

    @contextmanager
    def open(
        self, owner: str, tier: int, is_enabled: Callable[[Flag], bool] | None, *, is_ours: bool
    ) -> Iterator[None]:
        self.owner, self.tier, self.is_enabled, self.is_ours = owner, tier, is_enabled, is_ours
        try:
            yield
        finally:
            self.owner = ""

    def permits(self, flag: Flag | None) -> bool:
        assert self.owner, "callbacks are registered when a plugin or feature is opened"
        return flag is None or self.is_enabled is None or self.is_enabled(flag)


@dataclass(frozen=True, slots=True)
class Hook(Generic[Call]):
    """A registered callback, with its tier and its plugin or feature."""

    tier: int
    plugin: str
    call: Call


class Point(Generic[Call]):
    """A question whose answers the one who asks combines."""

    __slots__ = ("_desk", "calls", "flag", "forbids", "hooks", "ours")

    def __init__(
        self, desk: Desk, flag: Flag | None = None, *, forbids: Batching = Batching.NOTHING, ours: bool = False
    ) -> None:
        """`flag`: the flag of the configuration that disables the callbacks of a plugin; None: they always count.
        `ours`: only features and plugins of Stromboli answer."""
        self.flag = flag
        self.ours = ours
        self.forbids = forbids
        self.hooks: list[Hook[Call]] = []
        self.calls: list[Call] = []
        self._desk = desk

    def __bool__(self) -> bool:
        return bool(self.calls)

    def add(self, call: Call, *, forbids: Batching | None = None) -> None:
        """`forbids`: what this callback forbids, if it is less than usual."""
        desk = self._desk
        if self.ours and not desk.is_ours:
            raise NotForPlugins(
                f"plugin {desk.owner} uses an extension point that is only for Stromboli's own features"
            )
        if desk.permits(self.flag):
            self.hooks.append(Hook(desk.tier, desk.owner, call))
            self.calls.append(call)
            forbids = self.forbids if forbids is None else forbids
            desk.asks_all |= forbids is Batching.COUNTING
            desk.hears_all |= forbids is not Batching.NOTHING


class Refusals(Point[Callable[[*About], Refusal | None]], Generic[*About]):
    __slots__ = ()

    def first(self, *about: *About) -> Refusal | None:
        for call in self.calls:
            refusal = call(*about)
            if refusal is not None:
                return refusal
        return None


class Tests(Point[Callable[[*About], bool]], Generic[*About]):
    __slots__ = ()

    # Loops, because these are asked for every job or task, and a generator takes longer.
    def all(self, *about: *About) -> bool:
        for call in self.calls:  # noqa: SIM110
            if not call(*about):
                return False
        return True

    def any(self, *about: *About) -> bool:
        for call in self.calls:  # noqa: SIM110
            if call(*about):
                return True
        return False


class Lists(Point[Callable[[*About], Iterable[Item]]], Generic[*About, Item]):
    __slots__ = ()

    def of(self, *about: *About) -> list[Item]:
        return [item for call in self.calls for item in call(*about)]


class Handlers(Point[Callable[[*About], None]], Generic[*About]):
    __slots__ = ()

    def call(self, *about: *About) -> None:
        for call in self.calls:
            call(*about)


class Votes(Point[Callable[[Job], Vote | Refusal]]):
    __slots__ = ()

    def refusal(self, job: Job) -> Refusal | None:
        permitted_in = -1
        for hook in self.hooks:
            if permitted_in >= 0 and hook.tier != permitted_in:
                return None
            answer = hook.call(job)
            if isinstance(answer, Refusal):
                return answer
            if answer == Vote.REJECT:
                return Refusal(code="Rejected", subject=hook.plugin)
            if answer == Vote.PERMIT:
                permitted_in = hook.tier
        return None


class Verdicts:
    """Who may be evicted by one rule: whoever is permitted, and not protected."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.permit: Point[VictimVerdict] = Point(desk)
        self.protect: Point[VictimVerdict] = Point(desk)
        self.by_namespace = False  # the name of the evictor's namespace matters to somebody

    def add(self, verdict: VictimVerdict, flag: Flag, *, protects: bool, by_shares: bool) -> None:
        if self._desk.permits(flag):
            (self.protect if protects else self.permit).add(verdict)
            self.by_namespace |= not by_shares

    def permits(self, evictor: Task, candidate: Task, whole: bool) -> bool:
        decided_in = -1
        for hook in self.permit.hooks:
            if decided_in >= 0 and hook.tier != decided_in:
                break
            verdict = hook.call(evictor, candidate, whole)
            if verdict == _NO:
                return False
            if verdict == _YES:
                decided_in = hook.tier
        return decided_in >= 0

    def protects(self, evictor: Task, candidate: Task, whole: bool) -> bool:
        for call in self.protect.calls:  # noqa: SIM110 - for every eviction, and a generator takes longer
            if call(evictor, candidate, whole) == _NO:
                return True
        return False
