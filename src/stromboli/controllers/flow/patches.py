"""A template with the changes that a flow makes to it.

Both are JSON, as users wrote them, so that no field is lost that our types do not have. Mappings are merged. A value
replaces the one before, and null removes it. What a list is depends on its field, as Volcano's design of patches says:
a container is known by its name, a mount by its path, and a command is one thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NAMED_BY: Final[Mapping[str, str]] = {
    "tasks": "name",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "tolerations": "key",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
}
"""Lists whose items are merged, by their fields, and by what an item is known."""
_REPLACED: Final = frozenset({"affinity", "securityContext", "networkTopology", "livenessProbe", "readinessProbe"})
"""Mappings that are one thing."""
_PODS: Final = "template"
_NEVER_REMOVED: Final = frozenset({"containers"})
"""Clients written in Go send null for these where a patch has none."""


def patched(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a Job with a patch. Neither is changed."""
    return _merged(spec, patch, volumes_by="mountPath")


def _merged(before: Mapping[str, Any], patch: Mapping[str, Any], *, volumes_by: str) -> dict[str, Any]:
    """`volumes_by`: what a volume is known by. Those of a Job have no names."""
    result = dict(before)
    for field, value in patch.items():
        known = result.get(field)
        if value is None:
            if field not in _NEVER_REMOVED:
                result.pop(field, None)
        elif isinstance(value, dict) and isinstance(known, dict) and field not in _REPLACED:
            result[field] = _merged(known, value, volumes_by="name" if field == _PODS else volumes_by)
        elif isinstance(value, list) and isinstance(known, list) and (field in _NAMED_BY or field == "volumes"):
            named_by = volumes_by if field == "volumes" else _NAMED_BY[field]
            result[field] = _merged_list(known, value, named_by, volumes_by, whole=field == "volumes")
        else:
            result[field] = value
    return result


def _merged_list(before: list[Any], patch: list[Any], named_by: str, volumes_by: str, *, whole: bool) -> list[Any]:
    """`whole`: an item replaces the one of its name."""
    result = list(before)
    places = {item.get(named_by): place for place, item in enumerate(result) if isinstance(item, dict)}
    for item in patch:
        name = item.get(named_by) if isinstance(item, dict) else None
        place = None if name is None else places.get(name)
        if place is None and name is None and isinstance(item, dict) and len(result) == 1:
            place = 0  # there is only one that can be meant
        if place is None:
            result.append(item)
        elif whole:
            result[place] = item
        else:
            result[place] = _merged(result[place], item, volumes_by=volumes_by)
    return result
