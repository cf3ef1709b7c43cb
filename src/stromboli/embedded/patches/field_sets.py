"""Sets of fields, in the form that managedFields has: `{"f:spec": {"f:replicas": {}}}`.

    f:name     a field                      k:{"name":"main"}   an item of a list that is merged by key
    v:"text"   a value of a set             .                   the item or map itself

A set is a tree whose leaves are its members; with `.`, an inner node is a member, too. An atomic value is one leaf, as
is everything that the schema does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from stromboli.embedded.schema import ANY, MISSING, Schema

FieldSet = dict[str, Any]
SELF = "."


def fields_of(value: Any, schema: Schema) -> FieldSet:
    """All fields of a value."""
    members: FieldSet = {}
    if isinstance(value, dict) and schema.is_map and not schema.atomic:
        for name, part in value.items():
            members[f"f:{name}"] = fields_of(part, schema.child(name) or ANY)
    elif isinstance(value, list) and schema.is_merged_list:
        for step, item in steps(value, schema):
            inner = fields_of(item, schema.items or ANY) if schema.keys else {}
            members[step] = {SELF: {}, **inner} if schema.keys else {}
    return members


def steps(items: list[Any], schema: Schema) -> Iterator[tuple[str, Any]]:
    """The items of a list that is not atomic, each with its step."""
    for item in items:
        yield step_of(item, schema), item


def step_of(item: Any, schema: Schema) -> str:
    if not schema.keys:
        return f"v:{_compact(item)}"
    values = {}
    for key in sorted(schema.keys):
        value = item.get(key) if isinstance(item, dict) else None
        if value is None and schema.items is not None and key in schema.items.properties:
            default = schema.items.properties[key].default
            value = None if default is MISSING else default
        if value is not None:
            values[key] = value
    return f"k:{_compact(values)}"


def _compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or not right:
        # A leaf and a tree: the tree, with the leaf as a member.
        tree = left or right
        return tree
    merged = dict(left)
    for step, part in right.items():
        merged[step] = _joined(merged[step], part) if step in merged else part
    return merged


def _joined(left: FieldSet, right: FieldSet) -> FieldSet:
    if left and right:
        return union(left, right)
    tree = left or right
    return {SELF: {}, **tree} if tree and SELF not in tree else tree


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are not members of `right`."""
    kept: FieldSet = {}
    for step, part in left.items():
        other = right.get(step)
        if other is None:
            kept[step] = part
        elif part and other:
            rest = difference(part, other)
            if rest:
                kept[step] = rest
        elif part:
            # `other` is the leaf: it removes the inner node itself, not what is below it.
            rest = {name: inner for name, inner in part.items() if name != SELF}
            if rest:
                kept[step] = rest
        elif other and SELF not in other and step != SELF:
            kept[step] = part
    return kept


def without_below(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are neither members of `right` nor below one."""
    kept: FieldSet = {}
    for step, part in left.items():
        other = right.get(step)
        if other is None:
            kept[step] = part
        elif other and SELF not in other:
            rest = without_below(part, other)
            if rest or not part:
                kept[step] = rest
    return kept


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    shared: FieldSet = {}
    for step, part in left.items():
        other = right.get(step)
        if other is None:
            continue
        if part and other:
            inner = intersection(part, other)
            if inner:
                shared[step] = inner
        elif (not part and not other) or (not part and SELF in other) or (not other and SELF in part):
            shared[step] = {}
    return shared


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """The members as text, such as `.spec.replicas` or `.spec.containers[name="main"].image`."""
    for step, part in fields.items():
        if step == SELF:
            yield prefix
            continue
        here = prefix + _text(step)
        if part:
            yield from paths(part, here)
        else:
            yield here


def _text(step: str) -> str:
    kind, _, rest = step.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "v":
        return f"[={rest}]"
    keys = json.loads(rest)
    return "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"


def is_valid(fields: Any, depth: int = 0) -> bool:
    """Whether this came from somebody who knows the format."""
    if not isinstance(fields, dict) or depth > 100:
        return False
    for step, part in fields.items():
        if step != SELF and step[:2] not in ("f:", "k:", "v:", "i:"):
            return False
        if step[:2] in ("k:", "v:"):
            try:
                parsed = json.loads(step[2:])
            except ValueError:
                return False
            if step[0] == "k" and not isinstance(parsed, dict):
                return False
        if not is_valid(part, depth + 1):
            return False
    return True
