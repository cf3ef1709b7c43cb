"""Unknown fields in the documents of our own kinds.

A misspelt field that is silently skipped is found weeks later, when a limit that nobody set is exceeded. So a field
that a Queue, PodGroup, Job, CronJob, JobFlow, JobTemplate, Command, Reservation or HyperNode does not have is an error,
which names the nearest one that exists.

Kubernetes' own kinds are different: our types hold only the fields that we read of them, so unknown ones are skipped.
That also holds inside our kinds, for metadata, conditions and pod templates. Selectors and references in our kinds are
held whole, and the schemas of the CRDs say so too.

Only documents that a user gives us are checked. What an API server sends has gone through the schemas of the CRDs, and
newer versions may have added fields.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final, Union, get_args, get_origin

from msgspec.structs import fields

from stromboli.nearest_name import nearest_name

from .errors import ApiError, member_path
from .kinds import batch, flow, topology
from .kinds.metadata import ApiStruct, LabelSelector, LabelSelectorRequirement, ObjectReference, OwnerReference

_OURS: Final = (batch.__name__, flow.__name__, topology.__name__)
_WHOLE: Final = (LabelSelector, LabelSelectorRequirement, ObjectReference, OwnerReference)
_OPEN: Final = (batch.PodGroupCondition, batch.JobCondition)
"""Kubernetes' conditions with a little more; other writers add fields of their own."""


def check_fields(document: Mapping[str, Any], kind: type[ApiStruct]) -> None:
    """Raise an ApiError for the first unknown field of a document of one of our own kinds."""
    if _is_ours(kind):
        _check_struct(document, kind, "")


def unknown_field(path: str, name: object, known: Collection[str]) -> ApiError:
    """The error about a field that does not exist."""
    return ApiError(member_path(path, name).removeprefix("."), f"is unknown; {_hint(str(name), known)}")


def _hint(name: str, known: Collection[str]) -> str:
    if near := nearest_name(name, known):
        return f"did you mean {near}?"
    return f"known: {', '.join(sorted(known))}"


def _is_ours(kind: type) -> bool:
    return kind in _WHOLE or (kind.__module__ in _OURS and kind not in _OPEN)


def _check_struct(document: Mapping[str, Any], kind: type[ApiStruct], path: str) -> None:
    schema = _schema(kind)
    for name, value in document.items():
        if name not in schema:
            raise unknown_field(path, name, schema)
        nested = schema[name]
        if nested is not None:
            _check_value(value, nested, member_path(path, name).removeprefix("."))


def _check_value(value: object, nested: tuple[str, type[ApiStruct]], path: str) -> None:
    """Values of the wrong type are skipped here: they are reported when the document is converted."""
    container, kind = nested
    if container == "list" and isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                _check_struct(item, kind, f"{path}[{index}]")
    elif container == "dict" and isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(item, Mapping):
                _check_struct(item, kind, member_path(path, name))
    elif not container and isinstance(value, Mapping):
        _check_struct(value, kind, path)


@cache
def _schema(kind: type[ApiStruct]) -> dict[str, tuple[str, type[ApiStruct]] | None]:
    """The fields of a struct, each with the struct of ours that it holds, directly or in a list or mapping."""
    return {field.encode_name: _nested(field.type) for field in fields(kind)}


def _nested(annotation: Any) -> tuple[str, type[ApiStruct]] | None:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return next((found for part in arguments if (found := _nested(part)) is not None), None)
    if origin in (list, dict):
        inside = _nested(arguments[-1])
        return None if inside is None else (origin.__name__, inside[1])
    if isinstance(annotation, type) and issubclass(annotation, ApiStruct) and _is_ours(annotation):
        return "", annotation
    return None
