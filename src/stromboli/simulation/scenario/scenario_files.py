"""Reading scenario files.

Reading is all or nothing. All errors that can be found in the scenario itself are reported before anything is
simulated: documents that cannot be decoded here, and in `validation` unknown names, two objects of one name at the same
time, and patches that would leave an invalid object. What depends on the state of the run (a Job whose queue is closed
by then) is rejected during the run, with a warning.

The order of files and of documents has no meaning. Everything is ordered by time, kind and name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from stromboli.api import KINDS, ApiError, KObject, decode, is_namespaced, key, names, unknown_field
from stromboli.api.errors import quote
from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.api.upstream import translated, translated_place
from stromboli.errors import UserError
from stromboli.nearest_name import did_you_mean
from stromboli.simulation.virtual_time import Microseconds, microseconds

from .lifetimes import extract_lifetime
from .model import Scenario, ScenarioObject, ScenarioPatch, ScenarioRestart, ScenarioRun, kind_and_key
from .yaml_documents import Document, Origin, read_documents

COMPONENTS = ("scheduler", "controllers", "descheduler", "all")


def read_scenario(paths: Iterable[str], on_document: Callable[[str], None] = lambda file: None) -> Scenario:
    """Read all files as one scenario; raises UserError with a message of one line.

    Each document is validated by itself; `check_scenario` checks how they fit together. `on_document` is called with
    the name of the file of each.
    """
    scenario = Scenario()
    for path in paths:
        for document in read_documents(path):
            on_document(document.origin.file)
            _read(document, scenario)
    return scenario


def _read(document: Document, scenario: Scenario) -> None:
    content, origin = document.content, document.origin
    if isinstance(content, Mapping) and content.get("apiVersion") == names.SIM_API_VERSION:
        fields = _Fields(content, origin)
        match content.get("kind"):
            case "Patch":
                scenario.patches.append(fields.patch())
            case "Restart":
                scenario.restarts.append(fields.restart())
            case "Run":
                scenario.runs.append(fields.run())
            case other:
                near = did_you_mean(str(other), ("Patch", "Restart", "Run"))
                message = f"must be Patch, Restart or Run for {names.SIM_API_VERSION}, not {quote(other)}{near}"
                raise origin.error(message, field="kind")
        return
    try:
        obj = decode(content)
    except ApiError as error:
        raise origin.error(error.message, title=error.what, field=error.field) from None
    try:
        bare, lifetime = extract_lifetime(obj)
    except ApiError as error:
        raise origin.error(error.message, title=kind_and_key(type(obj), key(obj)), field=error.field) from None
    scenario.objects.append(ScenarioObject(translated(bare), lifetime, origin))


class _Fields:
    """The fields of a Patch, Restart or Run document."""

    def __init__(self, content: Mapping[str, Any], origin: Origin) -> None:
        self._content = content
        self._origin = origin
        self._title = str(content.get("kind"))

    def patch(self) -> ScenarioPatch:
        self._only("at", "target", "patch")
        target = self._mapping("target")
        for name in target:
            if name not in ("apiVersion", "kind", "namespace", "name"):
                raise self._unknown("target", name, ("apiVersion", "kind", "namespace", "name"))
        kind = self._target_kind(target)
        name = self._text(target, "name")
        namespace = self._text(target, "namespace", required=False) or names.DEFAULT_NAMESPACE
        object_key = f"{namespace}/{name}" if is_namespaced(kind) else name
        self._title = f"Patch of {kind_and_key(kind, object_key)}"
        kind, object_key = translated_place(kind, object_key)
        patch = self._mapping("patch")
        if not patch:
            raise self._error("patch", "must change at least one field")
        try:
            msgspec.json.encode(patch)
        except (TypeError, ValueError):
            raise self._error("patch", "must be a value that JSON can hold") from None
        return ScenarioPatch(self._at(), kind, object_key, dict(patch), self._origin)

    def restart(self) -> ScenarioRestart:
        self._only("at", "component", "for")
        component = self._content.get("component")
        if component not in COMPONENTS:
            problem = "is required" if component is None else f"must not be {quote(component)}"
            raise self._error("component", f"{problem}; known: {', '.join(COMPONENTS)}")
        away = self._duration("for") if self._content.get("for") is not None else None
        return ScenarioRestart(self._at(), component, self._origin, away)

    def run(self) -> ScenarioRun:
        self._only("at", "component", "profile", "job")
        component = self._content.get("component")
        if component != "descheduler":
            raise self._error("component", f"must be descheduler, not {quote(component)}")
        profile = self._text(self._content, "profile", required=False, inside="")
        job = self._text(self._content, "job", required=False, inside="")
        if job and "/" not in job:
            job = f"{names.DEFAULT_NAMESPACE}/{job}"
        return ScenarioRun(self._at(), profile, job, self._origin)

    def _at(self) -> Microseconds:
        return self._duration("at")

    def _duration(self, name: str) -> Microseconds:
        given = self._content.get(name)
        if given is None:
            raise self._error(name, "is required")
        try:
            return microseconds(parse_duration(given))
        except QuantityError as error:
            raise self._error(name, str(error)) from None

    def _target_kind(self, target: Mapping[str, Any]) -> type[KObject]:
        kind = self._text(target, "kind")
        version = self._text(target, "apiVersion", required=False)
        found = {api: known for (api, name), known in KINDS.items() if name == kind}
        if not found:
            kinds = sorted({name for _, name in KINDS})
            wrong = f"not {quote(kind)}{did_you_mean(kind, kinds)}"
            raise self._error("target.kind", f"must be one of {', '.join(kinds)}, {wrong}")
        if version and version not in found:
            raise self._error("target.apiVersion", f"must be {' or '.join(sorted(found))}, not {quote(version)}")
        return found[version] if version else next(iter(found.values()))

    def _only(self, *known: str) -> None:
        for name in self._content:
            if name not in ("apiVersion", "kind", "metadata", *known):
                raise self._unknown("", name, known)

    def _mapping(self, name: str) -> Mapping[str, Any]:
        value = self._content.get(name)
        if value is None:
            raise self._error(name, "is required")
        if not isinstance(value, Mapping):
            raise self._error(name, "must be a mapping")
        return value

    def _text(self, target: Mapping[str, Any], name: str, *, required: bool = True, inside: str = "target.") -> str:
        value = target.get(name)
        if value is None or value == "":
            if required:
                raise self._error(f"{inside}{name}", "is required")
            return ""
        if not isinstance(value, str):
            raise self._error(f"{inside}{name}", "must be text")
        return value

    def _unknown(self, path: str, name: object, known: tuple[str, ...]) -> UserError:
        error = unknown_field(path, name, known)
        return self._error(error.field, error.message)

    def _error(self, field: str, message: str) -> UserError:
        return self._origin.error(message, title=self._title, field=field)
