"""The structs of an object for which there are rules, with the paths at which they are.

What a type contains is found out once. Types without rules below them are not visited at all: a scheduler reads pods by
the thousand, and they have one rule.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from stromboli.api.errors import member_path
from stromboli.api.kinds import batch, flow, metadata, topology

_OURS: Final = (batch.__name__, flow.__name__, topology.__name__, metadata.__name__)
"""Where the structs are defined in which we look for others: not those of pods, which Kubernetes judges."""

TEMPLATES: Final = (batch.CronJobTemplate, flow.JobTemplate)
"""From these, objects are made later. What must not change in an object may change in its template."""


class Part(NamedTuple):
    """A field in which structs are: directly, or in a list or a mapping. `place` is its number among the fields."""

    attribute: str
    name: str
    container: str
    kind: type[Struct]
    place: int


def structs(
    value: Struct, ruled: frozenset[type[Struct]], path: str = "", *, on_update: bool = False
) -> Iterator[tuple[str, Struct]]:
    """Every struct in `value`, with itself, that is of one of the types `ruled`; with its path. The innermost come
    first: what is wrong with a part explains what is wrong with the whole."""
    for part in parts(type(value), ruled, on_update=on_update):
        inner = getattr(value, part.attribute)
        at = f"{path}.{part.name}".removeprefix(".")
        if part.container == "list":
            for index, item in enumerate(inner):
                yield from structs(item, ruled, f"{at}[{index}]", on_update=on_update)
        elif part.container == "dict":
            for name, item in inner.items():
                yield from structs(item, ruled, member_path(at, name), on_update=on_update)
        elif inner is not None:
            yield from structs(inner, ruled, at, on_update=on_update)
    if type(value) in ruled:
        yield path, value


@cache
def parts(kind: type[Struct], ruled: frozenset[type[Struct]], *, on_update: bool = False) -> tuple[Part, ...]:
    """The fields of a type at or below which there is a struct of the types `ruled`; if `on_update`, of which rules of
    updates speak."""
    return tuple(
        Part(field.name, field.encode_name, *inside, place)
        for place, field in enumerate(msgspec.structs.fields(kind))
        if (inside := _inside(field.type)) is not None
        and inside[1].__module__ in _OURS
        and not (on_update and (inside[1] in TEMPLATES or kind in TEMPLATES))
        and (inside[1] in ruled or parts(inside[1], ruled, on_update=on_update))
    )


def _inside(annotation: Any) -> tuple[str, type[Struct]] | None:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _first(arguments)
    if origin in (list, dict):
        found = _inside(arguments[-1])
        return None if found is None else (origin.__name__, found[1])
    return ("", annotation) if isinstance(annotation, type) and issubclass(annotation, Struct) else None


def _first(annotations: Collection[Any]) -> tuple[str, type[Struct]] | None:
    return next((found for one in annotations if (found := _inside(one)) is not None), None)
