"""Filling in the defaults of a schema. Changes the value in place."""

from __future__ import annotations

import copy

from .schema import MISSING, Json, Schema


def apply_defaults(value: Json, schema: Schema) -> None:
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
