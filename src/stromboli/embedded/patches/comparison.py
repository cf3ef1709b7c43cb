"""Which fields differ between two states of an object."""

from __future__ import annotations

from typing import Any

from stromboli.embedded.schema import ANY, Schema

from .field_sets import SELF, FieldSet, fields_of, steps, union


def compare(before: Any, after: Any, schema: Schema) -> tuple[FieldSet, FieldSet]:
    """The fields that were changed or added, and those that were removed."""
    if before == after:
        return {}, {}
    if isinstance(before, dict) and isinstance(after, dict) and schema.is_map and not schema.atomic:
        old = {f"f:{name}": (part, schema.child(name) or ANY) for name, part in before.items()}
        new = {f"f:{name}": (part, schema.child(name) or ANY) for name, part in after.items()}
        return _compare_members(old, new)
    if isinstance(before, list) and isinstance(after, list) and schema.is_merged_list:
        items = schema.items or ANY
        old = {step: (item, items if schema.keys else ANY) for step, item in steps(before, schema)}
        new = {step: (item, items if schema.keys else ANY) for step, item in steps(after, schema)}
        return _compare_members(old, new)
    return {SELF: {}}, {}


def _compare_members(
    old: dict[str, tuple[Any, Schema]], new: dict[str, tuple[Any, Schema]]
) -> tuple[FieldSet, FieldSet]:
    changed: FieldSet = {}
    removed: FieldSet = {}
    for step, (value, schema) in new.items():
        if step not in old:
            changed[step] = _members(step, value, schema)
            continue
        was = old[step][0]
        if was == value:
            continue
        inner_changed, inner_removed = compare(was, value, schema)
        if inner_changed == {SELF: {}}:
            # The value as a whole: what was below it is gone, and what is below it now is new.
            changed[step] = _members(step, value, schema)
            gone = fields_of(was, schema)
            if gone:
                removed[step] = gone
            continue
        if inner_changed:
            changed[step] = inner_changed
        if inner_removed:
            removed[step] = inner_removed
    for step, (value, schema) in old.items():
        if step not in new:
            removed[step] = union({SELF: {}}, _members(step, value, schema))
    return changed, removed


def _members(step: str, value: Any, schema: Schema) -> FieldSet:
    inner = fields_of(value, schema)
    return {SELF: {}, **inner} if step.startswith("k:") else inner
