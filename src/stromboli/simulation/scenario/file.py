"""Scenario files: what happens, and when.

Reading is all or nothing. Whatever can be wrong with a scenario by itself is found here, before anything is
simulated: documents that cannot be read, names that nothing answers to, two objects of one name at one time,
a patch that would leave an invalid object behind. What only the state of the run can tell (a Job whose queue
is closed by then) is left to the run, which refuses it with a warning and goes on.

The order of files and of documents means nothing. Everything is keyed by time, kind and name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stromboli.api import KINDS, ApiError, KObject, Reservation, decode, is_namespaced, key, names
from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.errors import UserError
from stromboli.simulation.virtual_time import Moment, moment

from .documents import Document, Origin, read_documents
from .lifetimes import Lifetime, take_lifetime

COMPONENTS = ("scheduler", "controllers", "descheduler", "all")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A user creates an object, and perhaps deletes it later."""

    object: KObject
    lifetime: Lifetime
    origin: Origin

    @property
    def what(self) -> str:
        return called(type(self.object), key(self.object))

    def fault(self, field: str, message: str) -> UserError:
        return self.origin.fault(message, what=self.what, field=field)


@dataclass(frozen=True, slots=True)
class PatchOrder:
    """A user changes an object."""

    at: Moment
    kind: type[KObject]
    key: str
    patch: dict[str, Any]
    origin: Origin

    @property
    def what(self) -> str:
        return f"Patch of {called(self.kind, self.key)}"

    def fault(self, field: str, message: str) -> UserError:
        return self.origin.fault(message, what=self.what, field=field)


@dataclass(frozen=True, slots=True)
class RestartOrder:
    """A component loses its memory."""

    at: Moment
    component: str
    origin: Origin


@dataclass(slots=True)
class Scenario:
    arrivals: list[Arrival] = field(default_factory=list)
    patches: list[PatchOrder] = field(default_factory=list)
    restarts: list[RestartOrder] = field(default_factory=list)


def called(kind: type[KObject], object_key: str) -> str:
    return f"{kind.__name__} {object_key}"


def read_scenario(paths: Iterable[str]) -> Scenario:
    """Read all files, as one scenario; raises UserError with the one line that says what is wrong.

    Each document is checked by itself; how they fit together is for `checking.check_scenario`.
    """
    scenario = Scenario()
    for path in paths:
        for document in read_documents(path):
            _read(document, scenario)
    return scenario


def _read(document: Document, scenario: Scenario) -> None:
    content, origin = document.content, document.origin
    if isinstance(content, Mapping) and content.get("apiVersion") == names.SIM_API_VERSION:
        order = _Order(content, origin)
        match content.get("kind"):
            case "Patch":
                scenario.patches.append(order.patch())
            case "Restart":
                scenario.restarts.append(order.restart())
            case other:
                message = f'must be Patch or Restart for {names.SIM_API_VERSION}, not "{other}"'
                raise origin.fault(message, field="kind")
        return
    if isinstance(content, Mapping) and content.get("kind") == Reservation.__name__:
        raise origin.fault("is not supported yet", what=Reservation.__name__, field="kind")
    try:
        obj = decode(content)
    except ApiError as error:
        raise origin.fault(error.message, what=error.what, field=error.field) from None
    except RecursionError:
        raise origin.fault("a value must not contain itself") from None
    try:
        bare, lifetime = take_lifetime(obj)
    except ApiError as error:
        raise origin.fault(error.message, what=called(type(obj), key(obj)), field=error.field) from None
    scenario.arrivals.append(Arrival(bare, lifetime, origin))


class _Order:
    """A document of our own kinds, field by field."""

    def __init__(self, content: Mapping[str, Any], origin: Origin) -> None:
        self._content = content
        self._origin = origin
        self._what = str(content.get("kind"))

    def patch(self) -> PatchOrder:
        self._only("at", "target", "patch")
        target = self._mapping("target")
        for name in target:
            if name not in ("apiVersion", "kind", "namespace", "name"):
                raise self._fault(f"target.{name}", "is unknown; known: apiVersion, kind, namespace, name")
        kind = self._target_kind(target)
        name = self._text(target, "name")
        namespace = self._text(target, "namespace", required=False) or names.DEFAULT_NAMESPACE
        object_key = f"{namespace}/{name}" if is_namespaced(kind) else name
        self._what = f"Patch of {called(kind, object_key)}"
        patch = self._mapping("patch")
        if not patch:
            raise self._fault("patch", "changes nothing; say at least one field")
        try:
            msgspec.json.encode(patch)
        except (RecursionError, TypeError, ValueError):
            raise self._fault("patch", "must be a value that JSON can hold") from None
        return PatchOrder(self._at(), kind, object_key, dict(patch), self._origin)

    def restart(self) -> RestartOrder:
        self._only("at", "component")
        component = self._content.get("component")
        if component not in COMPONENTS:
            given = "is required" if component is None else f'must not be "{component}"'
            raise self._fault("component", f"{given}; known: {', '.join(COMPONENTS)}")
        if component == "descheduler":
            raise self._fault("component", "descheduler is not supported yet")
        return RestartOrder(self._at(), component, self._origin)

    def _at(self) -> Moment:
        at = self._content.get("at")
        if at is None:
            raise self._fault("at", "is required")
        try:
            return moment(parse_duration(at))
        except QuantityError as error:
            raise self._fault("at", str(error)) from None

    def _target_kind(self, target: Mapping[str, Any]) -> type[KObject]:
        kind = self._text(target, "kind")
        version = self._text(target, "apiVersion", required=False)
        found = {api: known for (api, name), known in KINDS.items() if name == kind}
        if not found:
            listed = ", ".join(sorted({name for _, name in KINDS}))
            raise self._fault("target.kind", f'must be one of {listed}, not "{kind}"')
        if version and version not in found:
            raise self._fault("target.apiVersion", f'must be {" or ".join(sorted(found))}, not "{version}"')
        return found[version] if version else next(iter(found.values()))

    def _only(self, *known: str) -> None:
        for name in self._content:
            if name not in ("apiVersion", "kind", "metadata", *known):
                raise self._fault(str(name), f"is unknown; known: {', '.join(known)}")

    def _mapping(self, name: str) -> Mapping[str, Any]:
        value = self._content.get(name)
        if value is None:
            raise self._fault(name, "is required")
        if not isinstance(value, Mapping):
            raise self._fault(name, "must be a mapping")
        return value

    def _text(self, target: Mapping[str, Any], name: str, *, required: bool = True) -> str:
        value = target.get(name)
        if value is None or value == "":
            if required:
                raise self._fault(f"target.{name}", "is required")
            return ""
        if not isinstance(value, str):
            raise self._fault(f"target.{name}", "must be text")
        return value

    def _fault(self, field: str, message: str) -> UserError:
        return self._origin.fault(message, what=self._what, field=field)
