"""Fields that must not change once an object exists.

Where empty and missing mean the same, they count as equal, and so do they and the value that they stand for, which
`default` sets before we compare: CEL is told which one. CEL has no `oldSelf` for an item of a list, but the values
of one field in all items can be compared with the old ones. Pod templates are compared in both directions: where a
schema does not name all fields, `self == oldSelf` holds for a kube-apiserver if `self` has an unknown field in place of
a known one, such as `resorces` instead of `resources`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from stromboli.api.kinds.pods import PodTemplateSpec

from .rule import Door, Rule, unless

Defaults = Mapping[str, str | int]
"""What fields stand for that are empty, 0 or missing."""

NONE: Final[Defaults] = {}


def unchanged(
    kind: type[Struct], *, except_for: Collection[str], must: str, defaults: Defaults = NONE
) -> tuple[Rule, ...]:
    """One rule for each other field."""
    return tuple(
        _field(kind, field, must, defaults)
        for field in msgspec.structs.fields(kind)
        if field.encode_name not in except_for
    )


def _field(kind: type[Struct], field: FieldInfo, must: str, defaults: Defaults) -> Rule:
    quote = "" if isinstance(defaults.get(field.encode_name), int) else '"'
    is_named = field.default == "" or field.encode_name in defaults

    def broken(new: Any, old: Any) -> str:
        now, before = getattr(new, field.name), getattr(old, field.name)
        values = f": it is {quote}{before}{quote}, not {quote}{now}{quote}" if is_named else ""
        return unless(now == before, f"{must}{values}")

    new, old = (_value(one, field, defaults) for one in ("self", "oldSelf"))
    equal = f"{new} == {old}"
    return Rule(
        on=kind,
        field=field.encode_name,
        must=must,
        broken=broken,
        cel=f"{equal} && {old} == {new}" if PodTemplateSpec in get_args(field.type) else equal,
        says=f"'{must}: it is {quote}' + string({old}) + '{quote}, not {quote}' + string({new}) + '{quote}'"
        if is_named
        else "",
        on_update=True,
    )


def unchanged_in_each(
    kind: type[Struct],
    items: str,
    item: type[Struct],
    *,
    except_for: Collection[str],
    must: str,
    defaults: Defaults = NONE,
) -> tuple[Rule, ...]:
    """The same for each item of the list `items` of `kind`, whose order and length are fixed by another rule."""
    return tuple(
        _field_of_items(kind, items, field, must, defaults)
        for field in msgspec.structs.fields(item)
        if field.encode_name not in except_for
    )


def _field_of_items(kind: type[Struct], items: str, field: FieldInfo, must: str, defaults: Defaults) -> Rule:
    says = f"{field.encode_name} {must}"

    def broken(new: Any, old: Any) -> str:
        before, after = getattr(old, items), getattr(new, items)
        if len(before) != len(after):
            return ""  # Another rule.
        same = all(getattr(one, field.name) == getattr(two, field.name) for one, two in zip(before, after, strict=True))
        return unless(same, says)

    each = f"map(i, {_value('i', field, defaults)})"
    return Rule(
        on=kind,
        field=items,
        must=says,
        broken=broken,
        cel=f"self.{items}.size() != oldSelf.{items}.size() || self.{items}.{each} == oldSelf.{items}.{each}",
        door=Door.POLICY,
        on_update=True,
    )


def _value(owner: str, field: FieldInfo, defaults: Defaults) -> str:
    """A field that may be missing."""
    path = f"{owner}.{field.encode_name}"
    default = defaults.get(field.encode_name)
    if default is not None:
        empty, filled = ("''", f"'{default}'") if isinstance(default, str) else ("0", str(default))
        return f"(has({path}) && {path} != {empty} ? {path} : {filled})"
    if field.default == "":
        return f"(has({path}) ? {path} : '')"
    if field.default_factory is list:
        return f"(has({path}) ? {path} : [])"
    if field.default_factory is dict:
        return f"(has({path}) ? {path} : {{}})"
    return f"(has({path}) ? [{path}] : [])"
