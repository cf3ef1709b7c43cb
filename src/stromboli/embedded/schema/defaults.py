"""Filling in the defaults of a schema. Changes the value in place.

Most parts of a schema have no defaults anywhere inside, and are not looked at.
"""

from __future__ import annotations

import copy

from .schema import MISSING, Json, Schema


def apply_defaults(value: Json, schema: Schema) -> None:
    if not _has_defaults(schema):
        return
    if isinstance(value, dict):
        for name, part in schema.properties.items():
            if part.default is not MISSING and (name not in value or (value[name] is None and not part.nullable)):
                value[name] = copy.deepcopy(part.default)
            if value.get(name) is not None:
                apply_defaults(value[name], part)
        if schema.values is not None:
            for name, part in value.items():
                if name not in schema.properties:
                    apply_defaults(part, schema.values)
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            apply_defaults(item, schema.items)


def _has_defaults(schema: Schema) -> bool:
    if schema.defaults_below is None:
        schema.defaults_below = False  # while we look: a type that contains itself adds nothing to the answer
        parts = [*schema.properties.values(), schema.values, schema.items]
        schema.defaults_below = any(
            part is not None and (part.default is not MISSING or _has_defaults(part)) for part in parts
        )
    return schema.defaults_below
