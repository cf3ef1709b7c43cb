"""JSON patch (RFC 6902): a list of operations, each on the result of the one before."""

from __future__ import annotations

import copy
from typing import Any, Final

from .errors import PatchError, PatchFailed

_MOST_OPERATIONS: Final = 10_000  # as in Kubernetes
_MOST_MOVED: Final = 50_000_000  # items of lists, all operations together: a fraction of a second
_MOST_COPIES: Final = 3_000_000  # bytes, roughly: copies of copies would fill any memory


def apply_json_patch(document: Any, operations: Any) -> Any:
    """A patched copy. Raises PatchError for a malformed patch, PatchFailed for one that does not fit the document."""
    if not isinstance(operations, list):
        raise PatchError("a JSON patch must be a list of operations")
    if len(operations) > _MOST_OPERATIONS:
        raise PatchError(f"the allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}")
    document = copy.deepcopy(document)
    copied = moved = 0
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError("an operation of a JSON patch must be an object")
        if operation.get("op") == "copy":
            copied += len(repr(_get(document, _pointer(operation, "from"))))
            if copied > _MOST_COPIES:
                raise PatchFailed("the patch copies too much")
        moved += _length_of_list(document, operation)
        if moved > _MOST_MOVED:
            raise PatchFailed("the patch changes long lists too often")
        document = _apply(document, operation)
    return document


def _length_of_list(document: Any, operation: dict[str, Any]) -> int:
    """Of the list that the operation changes: all items after the place are moved."""
    path = _pointer(operation, "path")
    try:
        parent = _get(document, path[:-1])
    except PatchFailed:
        return 0
    return len(parent) if isinstance(parent, list) else 0


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    path = _pointer(operation, "path")
    match operation.get("op"):
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            _get(document, path)
            return _set(document, path, _value(operation))
        case "move":
            source = _pointer(operation, "from")
            if path[: len(source)] == source and path != source:
                raise PatchFailed("a value cannot be moved into itself")
            moved = _get(document, source)
            return _add(_remove(document, source), path, moved)
        case "copy":
            return _add(document, path, copy.deepcopy(_get(document, _pointer(operation, "from"))))
        case "test":
            if _get(document, path) != operation.get("value"):
                raise PatchFailed(f"testing value {operation['path']} failed")
            return document
        case other:
            raise PatchFailed(f"unexpected kind of operation: {other!r}")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchError(f"the operation {operation.get('op')} needs a value")
    return copy.deepcopy(operation["value"])


def _pointer(operation: dict[str, Any], field: str) -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{field} must be a JSON pointer such as /spec/replicas")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(step, len(document) - 1)]
        else:
            raise PatchFailed(f"the path /{'/'.join(path)} does not exist")
    return document


def _index(step: str, largest: int) -> int:
    if not (step.isascii() and step.isdigit() and len(step) < 10) or int(step) > largest:
        raise PatchFailed(f"invalid index {step!r} of a list")
    return int(step)


def _parent(document: Any, path: list[str]) -> Any:
    parent = _get(document, path[:-1])
    if not isinstance(parent, dict | list):
        raise PatchFailed(f"the path /{'/'.join(path)} does not exist")
    return parent


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    else:
        parent.insert(_index(last, len(parent)), value)
    return document


def _set(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    else:
        parent[_index(last, len(parent) - 1)] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    _get(document, path)
    parent, last = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[_index(last, len(parent) - 1)]
    return document
