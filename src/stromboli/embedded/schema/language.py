"""A short notation for the types of built-in kinds.

    Container "One program in a pod."
      name string! "Unique in the pod."
      ports [ContainerPort] key=containerPort,protocol
      restartPolicy string =Always enum=Always|OnFailure|Never

A line without indentation starts a type; `atomic` behind its name: it has one owner as a whole; `like T`: it has all
fields of T, too. The other lines are fields: a name, a type, and options. Types are `string int number bool time
microtime bytes quantity intstr raw`, the name of a type, `[T]` for a list and `{T}` for a map. `name@3` is a field with
the number 3 in protobuf, `name@2.1` one inside of an embedded message there. `!` means required,
`=x` a default, `null` that an absent value is written as null, `key=` how list items are merged, `set` a list of
distinct values, `min=` a minimum. A text in quotes is for `kubectl explain`.

Several thousand lines of JSON would say the same, and nobody would read them.
"""

from __future__ import annotations

import json
import re
from typing import Final

from .schema import ANY, MISSING, Json, Schema

_TEXT: Final = re.compile(r'\s+"([^"]*)"\s*$')
_SCALARS: Final = {
    "string": "string",
    "int": "integer",
    "number": "number",
    "bool": "boolean",
    "time": "time",
    "microtime": "microtime",
    "bytes": "bytes",
    "quantity": "quantity",
    "intstr": "intstr",
}


def parse_types(text: str, known: dict[str, Schema] | None = None) -> dict[str, Schema]:
    """The types in a text, by name. They may refer to each other in any order, and to `known` types."""
    types = dict(known or {})
    fields: list[tuple[int, Schema, str]] = []
    likes: dict[str, str] = {}
    current = ANY
    # First every type with what is required of it, then the fields: a field copies what is known of its type.
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] != " ":
            current = _start_type(line, types, likes)
            continue
        fields.append((number, current, line.strip()))
        name, written = line.split()[:2]
        if written.endswith("!"):
            current.required = (*current.required, name.partition("@")[0])
    for number, owner, line in fields:
        try:
            _add_field(owner, line, types)
        except (IndexError, KeyError, ValueError) as error:
            raise ValueError(f"line {number}: {line!r}: {error}") from None
    for name, other in likes.items():
        types[name].properties = types[other].properties | types[name].properties
        types[name].required = (*types[other].required, *types[name].required)
    undefined = sorted(name for name, schema in types.items() if schema.type != "object")
    if undefined:
        raise ValueError(f"types that are used and never defined: {', '.join(undefined)}")
    return types


def _start_type(line: str, types: dict[str, Schema], likes: dict[str, str]) -> Schema:
    line, description = _split_text(line)
    name, *options = line.split()
    schema = _named(name, types)
    schema.type, schema.description = "object", description
    if options[:1] == ["like"]:
        likes[name] = options[1]
    schema.atomic = "atomic" in options
    return schema


def _add_field(owner: Schema, line: str, types: dict[str, Schema]) -> None:
    line, description = _split_text(line)
    name, written, *options = line.split()
    name, _, number = name.partition("@")
    base = _type(written.removesuffix("!"), types)
    numbers = tuple(int(part) for part in number.split(".")) if number else ()
    owner.properties[name] = _with_options(base, options, description, numbers)


def _with_options(base: Schema, options: list[str], description: str, number: tuple[int, ...]) -> Schema:
    """A field shares what its type has, also what is still to be added to it: types may be recursive."""
    if not options and not description and not number:
        return base
    default: Json = MISSING
    facets: dict[str, Json] = {}
    enum: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    for option in options:
        name, equals, value = option.partition("=")
        if equals and not name:
            default = _literal(base, value)
        elif name == "null":
            default = None
        elif name == "enum":
            enum = tuple(value.split("|"))
        elif name == "key":
            keys = tuple(value.split(","))
        elif name == "min":
            facets["minimum"] = int(value)
        elif option not in ("set", "atomic"):
            raise ValueError(f"unknown option {option}")
    return Schema(
        type=base.type if base.type != "any" or not base.name else "object",
        name=base.name,
        description=description or base.description,
        properties=base.properties,
        values=base.values,
        items=base.items,
        required=base.required,
        default=default,
        nullable="null" in options,
        enum=enum,
        open=base.open,
        atomic="atomic" in options or base.atomic,
        keys=keys,
        is_set="set" in options,
        number=number,
        facets=facets,
    )


def _type(written: str, types: dict[str, Schema]) -> Schema:
    if written.startswith("["):
        return Schema(type="array", items=_type(written[1:-1], types))
    if written.startswith("{"):
        return Schema(type="object", values=_type(written[1:-1], types))
    if written in _SCALARS:
        return Schema(type=_SCALARS[written])
    return ANY if written == "raw" else _named(written, types)


def _named(name: str, types: dict[str, Schema]) -> Schema:
    if not name[0].isupper():
        raise ValueError(f"unknown type {name}")
    return types.setdefault(name, Schema(name=name))


def _literal(base: Schema, text: str) -> Json:
    if base.type in ("string", "time"):
        return text
    return json.loads(text)


def _split_text(line: str) -> tuple[str, str]:
    found = _TEXT.search(line)
    return (line[: found.start()], found.group(1)) if found else (line, "")
