"""Fields that must not change once an object exists.

Where empty and missing mean the same, they count as equal. CEL has no `oldSelf` for an item of a list, but the values
of one field in all items can be compared with the old ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from .rule import Door, Rule, unless


def unchanged(kind: type[Struct], *, except_for: Collection[str], must: str) -> tuple[Rule, ...]:
    """One rule for each other field."""
    return tuple(
        _field(kind, field, must) for field in msgspec.structs.fields(kind) if field.encode_name not in except_for
    )


def _field(kind: type[Struct], field: FieldInfo, must: str) -> Rule:
    def broken(new: Any, old: Any) -> str:
        return unless(getattr(new, field.name) == getattr(old, field.name), must)

    return Rule(
        on=kind,
        field=field.encode_name,
        must=must,
        broken=broken,
        cel=f"{_value('self', field)} == {_value('oldSelf', field)}",
        on_update=True,
    )


def unchanged_in_each(
    kind: type[Struct], items: str, item: type[Struct], *, except_for: Collection[str], must: str
) -> tuple[Rule, ...]:
    """The same for each item of the list `items` of `kind`, whose order and length are fixed by another rule."""
    return tuple(
        _field_of_items(kind, items, field, must)
        for field in msgspec.structs.fields(item)
        if field.encode_name not in except_for
    )


def _field_of_items(kind: type[Struct], items: str, field: FieldInfo, must: str) -> Rule:
    says = f"{field.encode_name} {must}"

    def broken(new: Any, old: Any) -> str:
        before, after = getattr(old, items), getattr(new, items)
        if len(before) != len(after):
            return ""  # Another rule.
        same = all(getattr(one, field.name) == getattr(two, field.name) for one, two in zip(before, after, strict=True))
        return unless(same, says)

    each = f"map(i, {_value('i', field)})"
    return Rule(
        on=kind,
        field=items,
        must=says,
        broken=broken,
        cel=f"self.{items}.size() != oldSelf.{items}.size() || self.{items}.{each} == oldSelf.{items}.{each}",
        door=Door.POLICY,
        on_update=True,
    )


def _value(owner: str, field: FieldInfo) -> str:
    """A field that may be missing."""
    path = f"{owner}.{field.encode_name}"
    if field.default == "":
        return f"(has({path}) ? {path} : '')"
    if field.default_factory is list:
        return f"(has({path}) ? {path} : [])"
    if field.default_factory is dict:
        return f"(has({path}) ? {path} : {{}})"
    return f"(has({path}) ? [{path}] : [])"
