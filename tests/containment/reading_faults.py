"""Errors in every function that is handed an odd object on its way from the API server into a process.

As in `fault_injection`, the places are found by running. Here they are outside of sessions: what decodes a message,
keeps objects, translates and applies them, and writes what was decided. Such a function is exchanged for one that
raises an error whenever it gets an odd object, in whichever thread.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import msgspec

import stromboli
from containment.contained_worlds import ODD
from containment.contained_worlds import is_odd as is_odd_job
from stromboli.api import ApiObject
from stromboli.kube.client import Envelope

_ROOT = str(Path(stromboli.__file__).parent) + "/"
_DEEPEST = 2  # levels of dataclasses in which an odd object is looked for

Place = tuple[str, int, str]  # file, line, name


class InjectedError(Exception):
    pass


def is_odd(value: object, depth: int = 0) -> bool:
    """Whether a value is an odd object, or a message or an event about it. Lists are about nobody in particular."""
    match value:
        case ApiObject():
            return value.metadata.name.startswith(ODD)
        case msgspec.Raw() | bytes():
            return b'"name": "odd' in bytes(value)[:2000]
        case Envelope():
            return is_odd(value.object)
        case _ if depth < _DEEPEST and is_dataclass(value) and type(value).__module__.endswith(_MESSAGES):
            return any(is_odd(getattr(value, one.name, None), depth + 1) for one in fields(value))
        case _:
            return is_odd_job(value)


_MESSAGES = (".events", ".dispatcher", ".change_batches", ".changes")


@contextmanager
def found(folders: tuple[str, ...], places: dict[Place, CodeType]) -> Iterator[None]:
    """Note every function in these folders of the source that gets an odd object."""
    known: dict[CodeType, Place | None] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in known:
            known[code] = _place_of(code, folders)
        place = known[code]
        if place is not None and place not in places:
            given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(is_odd(frame.f_locals.get(name)) for name in given):
                places[place] = code

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def _place_of(code: CodeType, folders: tuple[str, ...]) -> Place | None:
    if not code.co_filename.startswith(_ROOT) or code.co_name.startswith("<"):
        return None
    file = code.co_filename.removeprefix(_ROOT)
    return (file, code.co_firstlineno, code.co_qualname) if file.startswith(folders) else None


@contextmanager
def raising(place: Place, code: CodeType, raised: list[int]) -> Iterator[None]:
    """Raise an error in this function whenever it gets an odd object, and count how often."""

    def instead(usual: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        for argument in (*given, *named.values()):  # a variable of this frame, as of that of the function itself
            if is_odd(argument):
                raised.append(1)
                raise InjectedError(f"in {place}")
        return usual(*given, **named)

    gc.unfreeze()  # whatever an earlier test has frozen is not found
    functions = [one for one in gc.get_referrers(code) if isinstance(one, FunctionType) and one.__code__ is code]
    assert functions, f"no function has the code of {place}"
    for function in functions:
        usual = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
        usual.__kwdefaults__ = function.__kwdefaults__
        function.__code__ = _calling(partial(instead, usual), len(code.co_freevars))
    try:
        yield
    finally:
        for function in functions:
            function.__code__ = code


def _calling(instead: Callable[..., Any], free: int) -> CodeType:
    """Code that calls `instead`. A function keeps its closure, so its code must have as many free variables."""
    names = ", ".join(f"free_{number}" for number in range(free))
    source = f"""
def outside({names}):
    def inside(*given, **named):
        [{names}]
        call = "INSTEAD"
        return call(given, named)
    return inside
"""
    made: dict[str, Any] = {}
    exec(compile(source, "<injected>", "exec"), made)
    code: CodeType = made["outside"](*range(free)).__code__
    return code.replace(co_consts=tuple(instead if one == "INSTEAD" else one for one in code.co_consts))
