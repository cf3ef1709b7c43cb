"""Whose code an error is in: plugins and actions of other distributions are not ours to mend.

A registry that loads a class of another distribution announces it here. An error whose frames went through the code of
such a class is charged to its author: who reads "a bug in Stromboli" reports it to the wrong people. Classes are loaded
once in a process, so this is one table for the process. Nothing is looked up while there is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

_titles: dict[type, str] = {}


@dataclass(frozen=True, slots=True)
class PluginFailure:
    plugin: str  # such as: plugin "cheapest" of distribution "stromboli-thrift"
    where: str  # file and line
    error: str  # its class and what it says

    def __str__(self) -> str:
        return f"{self.plugin} failed at {self.where}: {self.error}"


class WrongAnswer(TypeError):
    """A callback returned what it must not. The callback has returned, so no frame of it is left to find."""

    def __init__(self, plugin: str, callback: Callable[..., Any], problem: str) -> None:
        super().__init__(f'plugin "{plugin}": {problem}')
        self.code: CodeType | None = getattr(callback, "__code__", None)
        self.module: str = getattr(callback, "__module__", "")


@dataclass(frozen=True, slots=True)
class _Place:
    module: str
    code: CodeType
    line: int
    owner: object = None  # whose method it is


def announce_plugin(part: type, title: str) -> None:
    """`title`: what the class is called, and which distribution it is of."""
    _titles[part] = title


def plugin_failure(error: BaseException) -> PluginFailure | None:
    """None if no code of another distribution is known to have had a part in it."""
    places = list(_places(error))
    for number, place in enumerate(places):
        parts = [part for part in _titles if _is_near(part, place.module)]
        if parts:
            owner = next((found for one in places[number:] if (found := _owner(one, parts)) is not None), parts[0])
            where = f"{Path(place.code.co_filename).name}:{place.line}"
            return PluginFailure(_titles[owner], where, f"{type(error).__name__}: {error}")
    return None if error.__cause__ is None else plugin_failure(error.__cause__)


def _places(error: BaseException) -> Iterator[_Place]:
    """What it came through, the innermost first."""
    if isinstance(error, WrongAnswer) and error.code is not None:
        yield _Place(error.module, error.code, error.code.co_firstlineno)
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    for frame, line in reversed(frames):
        yield _Place(str(frame.f_globals.get("__name__", "")), frame.f_code, line, frame.f_locals.get("self"))


def _is_near(part: type, module: str) -> bool:
    """Whether the module is that of the class, or beside it in the same package."""
    package = part.__module__.rpartition(".")[0] or part.__module__
    return module == part.__module__ or module.startswith(f"{package}.")


def _owner(place: _Place, parts: list[type]) -> type | None:
    """Which of several classes in one package it is: whose method, or whose function inside a method."""
    of_self = [part for part in parts if type(place.owner) is part]
    by_name = [
        part
        for part in parts
        if place.module == part.__module__ and place.code.co_qualname.startswith(f"{part.__qualname__}.")
    ]
    return next(iter([*of_self, *by_name]), None)
