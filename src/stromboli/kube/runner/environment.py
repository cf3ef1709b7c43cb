"""The environment of a container: values, fields of its pod, its resources, ConfigMaps and Secrets.

A ConfigMap or Secret that is missing is waited for, as kubelets do. What cannot be given at all is an error: a program
that runs with an empty value does harm silently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from stromboli.api.quantity import QuantityError, parse_quantity

from .sandbox_process import CannotRun

_VARIABLE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER")
_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


class NotYet(Exception):
    """Says what a container waits for before it can be started."""


class DataSource(Protocol):
    """The data of ConfigMaps and Secrets."""

    def data(self, kind: str, name: str) -> Mapping[str, bytes] | None:
        """None: there is none of that name in the pod's namespace."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod is, and what surrounds it."""

    address: str = "127.0.0.1"
    capacity: Mapping[str, str | int | float] = field(default_factory=dict)
    """Of its node."""
    services: Mapping[str, str] = field(default_factory=dict)
    """Variables about services."""


def environment_of(
    pod: Mapping[str, Any], container: Mapping[str, Any], source: DataSource, place: Place
) -> dict[str, str]:
    """Raises CannotRun or NotYet."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment["HOSTNAME"] = host_name(pod)
    if pod["spec"].get("enableServiceLinks", True):
        environment |= place.services
    for group in container.get("envFrom") or ():
        environment |= _group(group, source)
    for variable in container.get("env") or ():
        name = variable["name"]
        if not variable.get("valueFrom"):
            environment[name] = expand(variable.get("value") or "", environment)
            continue
        value = _value(pod, container, name, variable["valueFrom"], source, place)
        if value is not None:
            environment[name] = value
    return environment


def host_name(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def expand(text: str, environment: Mapping[str, str]) -> str:
    """With `$(NAME)` replaced as Kubernetes does."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return environment.get(found[1], found[0])

    return _VARIABLE.sub(value, text)


def _group(group: Mapping[str, Any], source: DataSource) -> Iterable[tuple[str, str]]:
    prefix = group.get("prefix") or ""
    for written, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        reference = group.get(written)
        if reference is None:
            continue
        data = source.data(kind, reference.get("name", ""))
        if data is None:
            if reference.get("optional"):
                return
            raise NotYet(f"{kind} {reference.get('name', '')} does not exist; create it")
        for name, value in sorted(data.items()):
            # Keys that are no names of variables are left out, as kubelets do.
            if _NAME.fullmatch(prefix + name):
                yield prefix + name, _text(value, kind, reference["name"], name)


def _value(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    name: str,
    written: Mapping[str, Any],
    source: DataSource,
    place: Place,
) -> str | None:
    for reference, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if written.get(reference) is not None:
            return _key(written[reference], kind, source)
    if written.get("fieldRef") is not None:
        path = written["fieldRef"].get("fieldPath", "")
        value = field_of(pod, path, place)
        if value is None:
            raise CannotRun(f"the variable {name} asks for {path or 'no field'}, which is unknown here")
        return value
    if written.get("resourceFieldRef") is not None:
        return resource_of(pod, container, written["resourceFieldRef"], place)
    raise CannotRun(
        f"the variable {name} comes from {', '.join(sorted(written)) or 'nowhere'}, which is not known here"
    )


def _key(reference: Mapping[str, Any], kind: str, source: DataSource) -> str | None:
    name, key = reference.get("name", ""), reference.get("key", "")
    data = source.data(kind, name)
    if data is not None and key in data:
        return _text(data[key], kind, name, key)
    if reference.get("optional"):
        return None
    if data is None:
        raise NotYet(f"{kind} {name} does not exist; create it")
    raise NotYet(f"{kind} {name} has no key {key}; add it")


def _text(value: bytes, kind: str, name: str, key: str) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise CannotRun(f"the key {key} of {kind} {name} is no text, so it cannot be in a variable; mount it as a file")
    return text


def field_of(pod: Mapping[str, Any], path: str, place: Place) -> str | None:
    metadata, spec = pod["metadata"], pod["spec"]
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.podIP": place.address,
        "status.podIPs": place.address,
        "status.hostIP": "127.0.0.1",
        "status.hostIPs": "127.0.0.1",
    }
    if path in known:
        return str(known[path])
    if path in ("metadata.labels", "metadata.annotations"):
        values = metadata.get(path.removeprefix("metadata.")) or {}
        return "".join(f'{name}="{_escaped(value)}"\n' for name, value in sorted(values.items()))
    found = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    return str((metadata.get(found[1]) or {}).get(found[2], "")) if found else None


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_of(pod: Mapping[str, Any], container: Mapping[str, Any], written: Mapping[str, Any], place: Place) -> str:
    """A request or limit of a container, rounded up to the divisor. What has no limit may use the whole node."""
    named = written.get("containerName")
    if named and named != container["name"]:
        others = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
        container = next((one for one in others if one["name"] == named), {"name": named})
    resource = written.get("resource", "")
    which, _, name = resource.partition(".")
    resources = container.get("resources") or {}
    text = (resources.get(which) or {}).get(name)
    if text is None and which == "requests":
        text = (resources.get("limits") or {}).get(name, "0")
    if text is None:
        text = place.capacity.get(name, "0")
    if which not in ("limits", "requests"):
        raise CannotRun(f"a variable or file asks for {resource}, which is neither a limit nor a request")
    divisor = str(written.get("divisor") or "1")
    try:
        unit = parse_quantity("1" if divisor == "0" else divisor)
        return str(-(-parse_quantity(text) // unit))
    except QuantityError as error:
        raise CannotRun(f"{resource} cannot be read: {error}") from None
