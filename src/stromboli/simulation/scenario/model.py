"""A scenario: which objects users create, change and delete, and which components restart, each with its time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stromboli.api import KObject, key, kind_name
from stromboli.errors import UserError
from stromboli.simulation.virtual_time import Microseconds

from .lifetimes import Lifetime
from .yaml_documents import Origin


@dataclass(frozen=True, slots=True)
class ScenarioObject:
    """A user creates an object, and may delete it later."""

    object: KObject
    lifetime: Lifetime
    origin: Origin

    @property
    def title(self) -> str:
        return kind_and_key(type(self.object), key(self.object))

    def error(self, field: str, message: str) -> UserError:
        return self.origin.error(message, title=self.title, field=field)


@dataclass(frozen=True, slots=True)
class ScenarioPatch:
    """A user changes an object."""

    at: Microseconds
    kind: type[KObject]
    key: str
    patch: dict[str, Any]
    origin: Origin

    @property
    def title(self) -> str:
        return f"Patch of {kind_and_key(self.kind, self.key)}"

    def error(self, field: str, message: str) -> UserError:
        return self.origin.error(message, title=self.title, field=field)


@dataclass(frozen=True, slots=True)
class ScenarioRestart:
    """A component restarts and loses what it has in memory."""

    at: Microseconds
    component: str
    origin: Origin
    away: Microseconds | None = None  # how long it is stopped; None: it starts again at once


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """A user asks the descheduler for a run."""

    at: Microseconds
    profile: str  # "": all of them
    job: str  # the group to make room for; "": none in particular
    origin: Origin


@dataclass(slots=True)
class Scenario:
    objects: list[ScenarioObject] = field(default_factory=list)
    patches: list[ScenarioPatch] = field(default_factory=list)
    restarts: list[ScenarioRestart] = field(default_factory=list)
    runs: list[ScenarioRun] = field(default_factory=list)


def kind_and_key(kind: type[KObject], object_key: str) -> str:
    return f"{kind_name(kind)} {object_key}"
