"""Server-side apply: the client sends the fields it wants, and the server keeps account of who wants what.

merged   = what is there, with what is applied on top
removed  = what this applier applied last time and does not now, unless somebody else owns it
conflict = a field that the merge changes and somebody else owns; an error, unless the applier insists (force)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stromboli.embedded.schema import ANY, Schema

from .comparison import compare
from .field_sets import SELF, FieldSet, difference, intersection, paths, step_of, union
from .managed_fields import Entry, Manager, ownable, owned_fields, read_entries, write_entries


@dataclass(frozen=True, slots=True)
class Conflict:
    manager: Manager
    field: str


class ApplyConflict(Exception):
    def __init__(self, conflicts: list[Conflict]) -> None:
        self.conflicts = conflicts
        super().__init__(_message(conflicts))


def _message(conflicts: list[Conflict]) -> str:
    count = len(conflicts)
    if count == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].manager}: {conflicts[0].field}"
    by_manager: dict[str, list[str]] = {}
    for conflict in conflicts:
        by_manager.setdefault(str(conflict.manager), []).append(conflict.field)
    parts = [f"conflicts with {name}:\n" + "\n".join(f"- {one}" for one in by_manager[name]) for name in by_manager]
    return f"Apply failed with {count} conflicts: " + "\n".join(parts)


def apply(
    live: dict[str, Any], applied: dict[str, Any], schema: Schema, manager: Manager, *, force: bool, now: str
) -> dict[str, Any]:
    """The new object, with its managedFields. Raises ApplyConflict."""
    entries = read_entries(live, trusted=True) or []
    wanted = owned_fields(applied, schema)
    previous: FieldSet = {}
    others: list[Entry] = []
    previous_time: str | None = None
    for entry in entries:
        if entry.manager.same_writer(manager):
            previous, previous_time = entry.fields, entry.time
        else:
            others.append(entry)
    merged: dict[str, Any] = merge_applied(live, applied, schema)
    given_up = difference(previous, wanted)
    if given_up:
        owned: FieldSet = {}
        for entry in others:
            owned = union(owned, entry.fields)
        merged = _removed(merged, given_up, owned, schema)
    changed, removed = compare(ownable(live), ownable(merged), schema)
    others = _resolve(others, changed, removed, force=force)
    time = now if wanted != previous or changed or removed else previous_time
    write_entries(merged, [*others, Entry(manager, wanted, time)])
    return merged


def _resolve(others: list[Entry], changed: FieldSet, removed: FieldSet, *, force: bool) -> list[Entry]:
    kept, conflicts = [], []
    for entry in others:
        contested = intersection(entry.fields, changed) if changed else {}
        conflicts += [Conflict(entry.manager, path) for path in paths(contested)]
        rest = difference(entry.fields, contested) if contested else entry.fields
        if removed:
            rest = difference(rest, removed)
        kept.append(entry if rest == entry.fields else replace(entry, fields=rest))
    if conflicts and not force:
        raise ApplyConflict(conflicts)
    return kept


def merge_applied(live: Any, applied: Any, schema: Schema) -> Any:
    """What is there, with what is applied on top."""
    if isinstance(live, dict) and isinstance(applied, dict) and not schema.atomic:
        merged = dict(live)
        for name, part in applied.items():
            inner = schema.child(name) or ANY
            merged[name] = merge_applied(merged[name], part, inner) if name in merged and inner is not ANY else part
        return merged
    if isinstance(live, list) and isinstance(applied, list) and schema.is_merged_list:
        places = {step_of(item, schema): at for at, item in enumerate(live)}
        items = list(live)
        for item in applied:
            at = places.get(step_of(item, schema))
            if at is None:
                items.append(item)
            elif schema.keys:
                items[at] = merge_applied(items[at], item, schema.items or ANY)
        return items
    return applied


def _removed(value: Any, fields: FieldSet, owned: FieldSet, schema: Schema) -> Any:
    """The value without these fields, where nobody else owns them or something below them."""
    if isinstance(value, dict):
        return _removed_from_object(value, fields, owned, schema)
    if isinstance(value, list) and schema.is_merged_list:
        items = []
        for item in value:
            step = step_of(item, schema)
            part = fields.get(step)
            if part is None:
                items.append(item)
            elif step in owned:
                items.append(_removed(item, part, owned[step], schema.items or ANY) if schema.keys else item)
            elif part and SELF not in part:
                items.append(_removed(item, part, {}, schema.items or ANY))
        return items
    return value


def _removed_from_object(value: dict[str, Any], fields: FieldSet, owned: FieldSet, schema: Schema) -> dict[str, Any]:
    kept = dict(value)
    for step, part in fields.items():
        name = step[2:]
        if step == SELF or name not in kept or (step in owned and not owned[step]):
            continue
        if (not part or SELF in part) and step not in owned:
            del kept[name]
            continue
        kept[name] = _removed(kept[name], part, owned.get(step, {}), schema.child(name) or ANY)
        if kept[name] in ({}, []):
            del kept[name]
    return kept
