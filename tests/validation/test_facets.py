"""Each limit in a schema is one in Python, too: every field of a good object gets every value that is just inside and
just outside of what its schema says, or of another type. The two give one verdict, and name one field."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from stromboli.api import ApiError, decode
from stromboli.embedded.schema import custom_schema, validate_custom
from validation.cel_rules import filled_in, schemas
from validation.mutations import BASES

Document = dict[str, Any]
OBJECTS = [one for one in BASES if one["kind"] in schemas()]
OPEN = "x-kubernetes-preserve-unknown-fields"


@pytest.mark.parametrize("good", OBJECTS, ids=lambda one: one["kind"])
def test_every_limit_holds_in_both(good: Document) -> None:
    schema = schemas()[good["kind"]]
    tried = 0
    for path, part in _fields(good, schema):
        for value in _values(part):
            document = _with(good, path, value)
            if document is None:
                continue
            found = validate_custom(filled_in(document, schema), custom_schema(schema))
            error = _error_in(document)
            if found:
                assert error is not None, (path, value, found[0])
                assert any(_same(one.field, error.field) for one in found), (path, value, found[0], str(error))
            elif error is not None:
                # Then it is a rule, or what only the controllers see: not a matter of this field alone.
                assert not error.message.startswith("must be text"), (path, value, str(error))
            tried += 1
    assert tried > 20


def _error_in(document: Document) -> ApiError | None:
    try:
        decode(document)
    except ApiError as error:
        return error
    return None


def _same(one: str, other: str) -> bool:
    """A whole that lacks a part may be named by either."""
    one, other = (path.replace("[", ".").replace("]", "") for path in (one, other))
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _fields(value: Any, schema: Document, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Document]]:
    """Every field that the schema has at a place which the object has. Not those of pods, which Kubernetes judges."""
    if schema.get(OPEN):
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _fields(item, schema["items"], (*path, index))
    elif isinstance(value, dict):
        for name, part in schema.get("properties", dict.fromkeys(value, schema.get("additionalProperties"))).items():
            if path or name in ("spec", "action", "target"):
                yield (*path, name), part
                if name in value:
                    yield from _fields(value[name], part, (*path, name))


def _with(good: Document, path: tuple[Any, ...], value: Any) -> Document | None:
    document = copy.deepcopy(good)
    *steps, last = path
    owner: Any = document
    for step in steps:
        owner = owner[step]
    if isinstance(value, int) and isinstance(owner.get(last), list):
        # As many items as that.
        if not owner[last]:
            return None
        value = [_renamed(owner[last][0], at) for at in range(value)]
    owner[last] = value
    return document


def _renamed(item: Any, at: int) -> Any:
    if not isinstance(item, dict):
        return item
    names = {"name": f"n{at}", "mountPath": f"/n{at}"}
    return {name: names.get(name, part) for name, part in item.items() if name != "policies"}


def _values(schema: Document) -> Iterator[Any]:
    if schema.get("x-kubernetes-int-or-string"):
        yield from (-1, 0, 2**53, "", "1" * 64, "1" * 101, "1.", ".5", "+1", "1\n", " 1", True, [])
        return
    match schema.get("type"):
        case "integer":
            yield from (schema.get("minimum", 0) - 1, schema.get("maximum", 2**31 - 1) + 1, -(2**31) - 1, 1.0, 1.5, "1")
        case "number":
            yield from (-0.1, 1.1, "0.5", True)
        case "string":
            long = schema.get("maxLength", 0)
            yield from ("a" * long, "a" * (long + 1), "/" + "a" * long, "é" * long, "a\n", " ", "A", 1, True, [], {})
            yield from (one.lower() for one in schema.get("enum", ()))
        case "boolean":
            yield from ("true", 1)
        case "array":
            yield from (schema.get("maxItems", 64), schema.get("maxItems", 64) + 1, {}, "x")
        case "object":
            yield from ([], "x")
            most = schema.get("maxProperties", 0)
            yield from ({f"k{at}": 1 for at in range(size)} for size in (most, most + 1) if most)
