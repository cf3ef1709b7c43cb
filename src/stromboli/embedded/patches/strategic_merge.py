"""Strategic merge patch: a merge patch that knows which lists are merged by key.

    {"spec": {"containers": [{"name": "main", "image": "new"}]}}                changes one container
    {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}            removes it
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}                removes a value of a set
    {"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}]}}   gives the order
    {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"]}]}} drops all other fields

Only built-in kinds have such patches. The schema says which lists are merged.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import msgspec

from stromboli.embedded.schema import ANY, Schema

from .errors import PatchError

_GONE: Final = object()
_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"


def apply_strategic_merge(document: dict[str, Any], patch: Any, schema: Schema) -> dict[str, Any]:
    """A patched copy; raises PatchError."""
    if not isinstance(patch, dict):
        raise PatchError("a strategic merge patch must be an object")
    return _merge(document, patch, schema)


def _merge(document: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(f"unknown {_DIRECTIVE} directive {directive!r}")
    merged = dict(document)
    _retain(merged, patch.get(_RETAIN))
    for name, change in patch.items():
        if name.startswith("$"):
            continue
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged_value(merged.get(name), change, schema.child(name) or ANY)
    for name, change in patch.items():
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            removed = set(map(_identity, _list(change, name)))
            present = merged.get(field)
            if isinstance(present, list):
                merged[field] = [item for item in present if _identity(item) not in removed]
        elif name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            present = merged.get(field)
            if isinstance(present, list):
                merged[field] = _ordered(present, _list(change, name), schema.child(field) or ANY)
    return merged


def _retain(merged: dict[str, Any], keys: Any) -> None:
    if keys is not None:
        kept = set(map(_identity, _list(keys, _RETAIN)))
        for name in [name for name in merged if name not in kept]:
            del merged[name]


def _merged_value(present: Any, change: Any, schema: Schema) -> Any:
    if isinstance(change, dict):
        return _merge(present if isinstance(present, dict) else {}, change, schema)
    if isinstance(change, list):
        before = present if isinstance(present, list) else []
        if schema.keys:
            return _merged_by_key(before, change, schema)
        if schema.is_set:
            known = set(map(_identity, before))
            return before + [item for item in change if _identity(item) not in known]
        return [_without_directives(item) for item in change]
    return change


def _merged_by_key(before: list[Any], changes: list[Any], schema: Schema) -> list[Any]:
    key, items = schema.keys[0], schema.items or ANY
    if any(isinstance(change, dict) and change.get(_DIRECTIVE) == "replace" for change in changes):
        return [change for change in changes if not (isinstance(change, dict) and _DIRECTIVE in change)]
    merged: list[Any] = list(before)
    places: dict[Hashable, list[int]] = {}  # of the items with a key
    for at, item in enumerate(merged):
        if isinstance(item, dict):
            places.setdefault(_identity(item.get(key)), []).append(at)
    for change in changes:
        if not isinstance(change, dict):
            raise PatchError("an item of a list that is merged by key must be an object")
        if key not in change:
            raise PatchError(f"map: {sorted(change)} does not contain declared merge key: {key}")
        identity = _identity(change[key])
        found = places.get(identity)
        if change.get(_DIRECTIVE) == "delete":
            for at in places.pop(identity, ()):
                merged[at] = _GONE
        elif found:
            merged[found[0]] = _merge(merged[found[0]], change, items)
        else:
            places[identity] = [len(merged)]
            merged.append(_merge({}, change, items))
    return [item for item in merged if item is not _GONE]


def _ordered(present: list[Any], order: list[Any], schema: Schema) -> list[Any]:
    """Items in the given order; those that it does not name keep their place after the item before them."""
    key = schema.keys[0] if schema.keys else ""

    def identity(item: Any) -> Hashable:
        return _identity(item.get(key) if key and isinstance(item, dict) else item)

    wanted: dict[Hashable, int] = {}
    for item in order:
        wanted.setdefault(identity(item), len(wanted))
    named = sorted((item for item in present if identity(item) in wanted), key=lambda item: wanted[identity(item)])
    result: list[Any] = []
    rest = iter(named)
    for item in present:
        result.append(next(rest) if identity(item) in wanted else item)
    return result


def _identity(value: Any) -> Hashable:
    """Equal for equal values. To look for each value in a list instead would take a body of three megabytes hours."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic")


def _without_directives(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: value for name, value in item.items() if not name.startswith("$")}
    return item


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise PatchError(f"{name} must be a list")
    return value
