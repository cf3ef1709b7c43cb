"""Dropping the fields that a schema does not name, and writing down which those were.

The API server of Kubernetes does so when it decodes a built-in kind, and for custom kinds by their schema. `null` means
"not given" and goes, too, where the schema does not allow it.
"""

from __future__ import annotations

from .schema import Json, Schema


def prune(value: Json, schema: Schema, path: str = "", unknown: list[str] | None = None) -> Json:
    """A copy without unknown fields; their paths are added to `unknown`."""
    if schema.type == "any" and not schema.properties:
        return value
    if isinstance(value, dict):
        return _pruned_object(value, schema, path, unknown)
    if isinstance(value, list) and schema.items is not None:
        return [prune(item, schema.items, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    return value


def _pruned_object(value: dict[str, Json], schema: Schema, path: str, unknown: list[str] | None) -> Json:
    if not schema.properties and schema.values is None:
        # An object without any known field, such as `emptyDir: {}` in a custom kind.
        if schema.open or schema.type != "object":
            return value
        if unknown is not None:
            unknown += [f"{path}.{name}" if path else name for name in value]
        return {}
    kept = {}
    for name, part in value.items():
        inside = f"{path}.{name}" if path else name
        known = schema.child(name)
        if known is None:
            if schema.open or (schema.is_embedded and name in ("apiVersion", "kind", "metadata")):
                kept[name] = part
            elif unknown is not None:
                unknown.append(inside)
        elif part is None:
            # Null means "not given", unless null itself is a value here.
            if known.nullable or known.type == "any":
                kept[name] = part
        else:
            kept[name] = prune(part, known, inside, unknown)
    return kept
