"""From a path to what it names.

/api/v1/namespaces/NS/pods/NAME/SUBRESOURCE
/apis/GROUP/VERSION/PLURAL/NAME
"""

from __future__ import annotations

from dataclasses import dataclass

from stromboli.embedded.kinds import ResourceType
from stromboli.embedded.status import unknown_path
from stromboli.embedded.store import ObjectKey

from .catalog import Catalog


@dataclass(frozen=True, slots=True)
class Route:
    type: ResourceType
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.type.resource, self.namespace, self.name)


def find_route(path: str, catalog: Catalog) -> Route:
    """Raises a StatusError if there is no such resource."""
    segments = path.split("/")[1:]
    if segments and segments[-1] == "":
        segments.pop()
    if any(segment in ("", ".", "..") for segment in segments):
        raise unknown_path()
    match segments:
        case ["api", "v1", *rest]:
            return _resource_route("", "v1", rest, catalog)
        case ["apis", group, version, *rest]:
            return _resource_route(group, version, rest, catalog)
    raise unknown_path()


def _resource_route(group: str, version: str, rest: list[str], catalog: Catalog) -> Route:
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and catalog.find(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3:
        raise unknown_path()
    found = catalog.find(group, version, rest[0])
    if found is None or (namespace and not found.namespaced):
        raise unknown_path()
    name = rest[1] if len(rest) > 1 else ""
    if name and found.namespaced and not namespace:
        raise unknown_path()
    return Route(found, namespace, name, rest[2] if len(rest) > 2 else "")
