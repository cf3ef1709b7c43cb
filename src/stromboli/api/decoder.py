"""From a parsed document to a typed object, or to an error message about it.

A document is converted (`validation.conversion`), gets its defaults, and is validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from stromboli import plain_json
from stromboli.nearest_name import did_you_mean

from .defaults import default
from .errors import ApiError, quote, shortened
from .kinds import CLUSTER_SCOPED, KINDS, KObject
from .kinds.metadata import ApiObject
from .names import DEFAULT_NAMESPACE
from .unknown_fields import check_fields
from .validation import validate
from .validation.conversion import convert

T = TypeVar("T")


def decode(document: object, *, where: str = "") -> KObject:
    """The typed object of one parsed YAML or JSON document, with defaults and validated."""
    if not isinstance(document, Mapping):
        raise ApiError("", f"must be an object with apiVersion and kind, not {quote(document)}", where=where)
    try:
        kind = _kind_of(document)
        check_fields(document, kind)
        obj = convert(document, kind)
        default(obj)
        validate(obj)
    except ApiError as error:
        raise error.about(_object_name(document), where) from None
    return obj


def decode_json(data: bytes | str, type: type[T]) -> T:
    """A response of an API server as a struct. The server has validated it, so it is not validated again."""
    try:
        obj = plain_json.decode_shallow(data, type)
    except msgspec.ValidationError:
        document = plain_json.decode_shallow(data)
        try:
            obj = convert(document, type)
        except ApiError as error:
            raise error.about(_object_name(document), "") from None
    except msgspec.DecodeError as error:
        raise ApiError("", f"must be JSON: {error}") from None
    if isinstance(obj, ApiObject) and obj.__class__ not in CLUSTER_SCOPED and not obj.metadata.namespace:
        obj.metadata.namespace = DEFAULT_NAMESPACE
    return obj


def _kind_of(document: Mapping[str, Any]) -> type[KObject]:
    api_version, kind = document.get("apiVersion"), document.get("kind")
    for field, value in (("apiVersion", api_version), ("kind", kind)):
        if value is None or value == "":
            raise ApiError(field, "is required")
        if not isinstance(value, str):
            raise ApiError(field, f"must be text, not {quote(value)}")
    found = KINDS.get((str(api_version), str(kind)))
    if found is not None:
        return found
    versions = [version for version, known in KINDS if known == kind]
    if versions:
        raise ApiError("apiVersion", f"must be {' or '.join(versions)} for a {kind}, not {quote(api_version)}")
    kinds = sorted({known for _, known in KINDS})
    raise ApiError("kind", f"must be one of {', '.join(kinds)}, not {quote(kind)}{did_you_mean(str(kind), kinds)}")


def _object_name(document: object) -> str:
    """The kind, namespace and name of an object that could not be decoded, as far as they are usable."""
    if not isinstance(document, Mapping):
        return ""
    kind, meta = document.get("kind"), document.get("metadata")
    known = [found for (_, name), found in KINDS.items() if name == kind]
    name = meta.get("name") if isinstance(meta, Mapping) else None
    namespace = meta.get("namespace") if isinstance(meta, Mapping) else None
    words = [kind] if isinstance(kind, str) and kind else []
    if isinstance(name, str) and name:
        cluster_scoped = bool(known) and known[0] in CLUSTER_SCOPED
        words.append(name if cluster_scoped else f"{namespace or DEFAULT_NAMESPACE}/{name}")
    return shortened(" ".join(" ".join(words).split()))
