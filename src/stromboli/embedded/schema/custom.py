"""From the OpenAPI schema in a CustomResourceDefinition to ours, and from ours to OpenAPI."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from .rules import Rule, RuleError, read_rule, unreadable
from .schema import MISSING, Json, Schema

_FACETS: Final = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "format", "oneOf", "anyOf", "allOf", "not",
)  # fmt: skip


class SchemaError(Exception):
    """A definition that makes no sense; the path and the problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def custom_schema(
    written: Json,
    path: str = "openAPIV3Schema",
    *,
    typed: bool = False,
    without: Collection[str] = (),
    is_correlated: bool = True,
) -> Schema:
    """Our schema for an OpenAPI v3 schema; raises SchemaError. `typed`: it is that of a definition, which somebody
    writes: everything must have a type, and every rule must make sense; the parts of `anyOf` and the like need none.
    `without`: rules that somebody else checks. `is_correlated`: rules may compare with the value before."""
    if not isinstance(written, Mapping):
        raise SchemaError(path, "must be an object")
    properties = _mapping(written, "properties", path)
    values = written.get("additionalProperties")
    is_open = bool(written.get("x-kubernetes-preserve-unknown-fields")) or values is True
    keys = tuple(str(name) for name in written.get("x-kubernetes-list-map-keys") or ())

    def inner(part: Json, at: str, *, correlated: bool = True) -> Schema:
        is_here = is_correlated and correlated
        return custom_schema(part, f"{path}.{at}", typed=typed, without=without, is_correlated=is_here)

    schema = Schema(
        type=_type(written, path, typed=typed),
        description=str(written.get("description", "")),
        properties={str(name): inner(part, f"properties[{name}]") for name, part in properties.items()},
        values=inner(values, "additionalProperties") if isinstance(values, Mapping) else None,
        items=inner(written["items"], "items", correlated=bool(keys)) if "items" in written else None,
        required=tuple(str(name) for name in written.get("required") or ()),
        default=written.get("default", MISSING),
        nullable=bool(written.get("nullable")),
        enum=tuple(written.get("enum") or ()),
        open=is_open,
        atomic="atomic" in (written.get("x-kubernetes-map-type"), written.get("x-kubernetes-list-type")),
        keys=keys,
        is_set=written.get("x-kubernetes-list-type") == "set",
        is_embedded=bool(written.get("x-kubernetes-embedded-resource")),
        facets={name: written[name] for name in _FACETS if name in written},
    )
    if "x-kubernetes-validations" in written:
        schema.rules = tuple(_rules(written, schema, path, typed=typed, without=without, is_correlated=is_correlated))
    return schema


def _rules(
    written: Mapping[str, Any], schema: Schema, path: str, *, typed: bool, without: Collection[str], is_correlated: bool
) -> Iterator[Rule]:
    for index, one in enumerate(written["x-kubernetes-validations"] or ()):
        at = f"{path}.x-kubernetes-validations[{index}]"
        if not isinstance(one, Mapping):
            raise SchemaError(at, "must be an object")
        if one.get("rule") in without:
            continue
        try:
            yield read_rule(one, schema, is_correlated=is_correlated)
        except RuleError as error:
            if typed:
                raise SchemaError(f"{at}.{error.field}", error.problem) from None
            yield unreadable(one, error.problem)


def _mapping(written: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    found = written.get(name) or {}
    if not isinstance(found, Mapping):
        raise SchemaError(f"{path}.{name}", "must be an object")
    return found


def _type(written: Mapping[str, Any], path: str, *, typed: bool) -> str:
    if written.get("x-kubernetes-int-or-string"):
        return "intstr"
    kind = written.get("type")
    if kind is None:
        if typed and not written.get("x-kubernetes-preserve-unknown-fields"):
            raise SchemaError(f"{path}.type", "must not be empty for specified object fields")
        return "any"
    if kind not in ("object", "array", "string", "integer", "number", "boolean"):
        raise SchemaError(f"{path}.type", f"unknown type {kind!r}")
    return str(kind)


_SCALARS: Final[Mapping[str, Mapping[str, Json]]] = {
    "intstr": {"type": "string", "format": "int-or-string"},
    "quantity": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "integer": {"type": "integer", "format": "int64"},
}


def to_openapi(schema: Schema, reference: str) -> dict[str, Json]:
    """As OpenAPI. Named types become references: `reference` and the name."""
    if schema.name and schema.properties:
        return {"description": schema.description, **_reference(schema, reference)}
    return definition(schema, reference)


def _member(schema: Schema, reference: str) -> dict[str, Json]:
    """The schema of the items of a list or the values of a map. Its type has a description of its own."""
    return _reference(schema, reference) if schema.name and schema.properties else definition(schema, reference)


def _reference(schema: Schema, reference: str) -> dict[str, Json]:
    return {"allOf": [{"$ref": reference + schema.name}], "default": {}}


def definition(schema: Schema, reference: str) -> dict[str, Json]:
    """The schema of a type itself."""
    written: dict[str, Json] = {}
    if schema.description:
        written["description"] = schema.description
    if schema.type == "any":
        written |= {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    else:
        written |= _SCALARS.get(schema.type, {"type": schema.type})
    if schema.type == "object":
        if schema.properties:
            written["properties"] = {name: to_openapi(part, reference) for name, part in schema.properties.items()}
        if schema.values is not None:
            written["additionalProperties"] = _member(schema.values, reference)
        if schema.required:
            written["required"] = list(schema.required)
        if schema.open:
            written["x-kubernetes-preserve-unknown-fields"] = True
        if schema.atomic:
            written["x-kubernetes-map-type"] = "atomic"
    if schema.type == "array":
        written["items"] = _member(schema.items, reference) if schema.items else {}
        written |= _list_extensions(schema)
    if schema.default is not MISSING and schema.default is not None:
        written["default"] = schema.default
    if schema.enum:
        written["enum"] = list(schema.enum)
    return written | {name: value for name, value in schema.facets.items() if name != "format"}


def _list_extensions(schema: Schema) -> dict[str, Json]:
    if schema.keys:
        return {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(schema.keys),
            "x-kubernetes-patch-merge-key": schema.keys[0],
            "x-kubernetes-patch-strategy": "merge",
        }
    if schema.is_set:
        return {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
    return {"x-kubernetes-list-type": "atomic"}
