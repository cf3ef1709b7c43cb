"""The types of the built-in kinds, read once from the text files beside this module."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files

from .language import parse_types
from .schema import Schema


@cache
def builtin_types() -> dict[str, Schema]:
    folder = files(__package__)
    types: dict[str, Schema] = {}
    for name in ("core.schema", "groups.schema", "policies.schema", "workloads.schema"):
        types = parse_types(folder.joinpath(name).read_text(encoding="utf-8"), types)
    return types


@cache
def object_schema(kind: str) -> Schema:
    """The schema of a whole object of a built-in kind."""
    return with_metadata(builtin_types()[kind])


def with_metadata(schema: Schema) -> Schema:
    """The same schema with the fields that every object has."""
    return Schema(
        type="object",
        name=schema.name,
        description=schema.description,
        properties={
            "apiVersion": Schema(type="string", description="Group and version of the kind."),
            "kind": Schema(type="string", description="The kind of the object."),
            "metadata": replace(builtin_types()["ObjectMeta"], number=(1,)),
            **{
                name: part for name, part in schema.properties.items() if name not in ("apiVersion", "kind", "metadata")
            },
        },
        required=tuple(name for name in schema.required if name != "metadata"),
        values=schema.values,
        open=schema.open,
        facets=schema.facets,
        rules=schema.rules,
    )
