"""Errors in every function that is handed the odd job.

A list of places where errors could happen would be out of date soon. So the places are found by running: every function
of `stromboli.scheduling` that got the odd job, or one of its tasks, as an argument. Each of them in turn then raises an
error whenever it gets it. What combines several errors (`containment` itself) is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import stromboli.scheduling
from containment.contained_worlds import is_odd
from stromboli.scheduling.cycle import Scheduler

_ROOT = str(Path(stromboli.scheduling.__file__).parent) + "/"
_OURSELVES = ("containment/", "turns/")

Place = tuple[str, int, str]  # file, line, name


class InjectedError(Exception):
    pass


def place_of(code: CodeType) -> Place | None:
    """Where a function of the scheduler is; None if it is not one in which errors are contained."""
    file = code.co_filename
    if not file.startswith(_ROOT) or file.removeprefix(_ROOT).startswith(_OURSELVES):
        return None
    return (file.removeprefix(_ROOT), code.co_firstlineno, code.co_name)


def _gets_odd(frame: FrameType) -> bool:
    code = frame.f_code
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(is_odd(frame.f_locals.get(name)) for name in given)


@contextmanager
def found(places: dict[Place, None]) -> Iterator[None]:
    """Note every function that gets the odd job."""
    known: dict[CodeType, Place | None] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in known:
            known[code] = place_of(code)
        place = known[code]
        if place is not None and place not in places and _gets_odd(frame):
            places[place] = None

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


@contextmanager
def raising(place: Place) -> Iterator[None]:
    """Raise an error in this function whenever it gets the odd job."""
    known: dict[CodeType, bool] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in known:
            known[code] = place_of(code) == place
        if known[code] and _gets_odd(frame):
            raise InjectedError(f"in {place}")

    with _before_sessions(lambda: sys.settrace(trace)):  # an error ends the tracing
        try:
            yield
        finally:
            sys.settrace(None)


@contextmanager
def _before_sessions(call: Callable[[], None]) -> Iterator[None]:
    usual = Scheduler.open

    def opened(*arguments: Any, **more: Any) -> Any:
        call()
        return usual(*arguments, **more)

    Scheduler.open = opened  # type: ignore[method-assign]
    try:
        yield
    finally:
        Scheduler.open = usual  # type: ignore[method-assign]
