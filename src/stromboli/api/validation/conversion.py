"""From parsed YAML or JSON to a struct, or to an error that names the field.

What is written correctly takes the short path: one conversion by msgspec. What does not convert is first normalized the
way an API server reads it: null means "not given", 2.0 is 2, YAML's dates are text, and a number or boolean in an
annotation is its text (annotations hold only text, and everybody writes `sim.stromboli.io/at: 5`). What is still wrong
after that is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, TypeVar

import msgspec

from stromboli.api.errors import ApiError, member_path, quote

T = TypeVar("T")

_PLACE = re.compile(r"(?P<problem>.*?)(?: - at (?:`(?P<key>key)` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def convert(document: object, type: type[T], *, at: str = "") -> T:
    """`at`: the field that has this value, if it is a part of a document."""
    try:
        return msgspec.convert(document, type)
    except msgspec.ValidationError:
        normalized = _normalized(document)
    try:
        return msgspec.convert(normalized, type)
    except msgspec.ValidationError as error:
        found = _translated(str(error), normalized)
        raise ApiError(".".join(filter(None, (at, found.field))), found.message) from None


def _normalized(value: Any, *, inside: str = "") -> Any:
    if isinstance(value, Mapping):
        return {
            name: _normalized(part, inside=name if isinstance(name, str) else "")
            if inside != "annotations"
            else _annotation(part)
            for name, part in value.items()
            if part is not None
        }
    if isinstance(value, list):
        return [_normalized(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return _date_text(value) if isinstance(value, date) else value


def _annotation(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return _date_text(value) if isinstance(value, date) else value


def _date_text(value: date) -> str:
    """The text the user wrote. YAML reads a time without a zone as UTC, which Kubernetes writes as `Z`."""
    if not isinstance(value, datetime):
        return value.isoformat()
    return value.isoformat().removesuffix("+00:00") + ("" if value.utcoffset() else "Z")


def _translated(problem: str, document: object) -> ApiError:
    """msgspec's error (`Expected `int`, got `str` - at `$.spec.weight``) in our format (`spec.weight: must be …`)."""
    place = _PLACE.fullmatch(problem)
    text = place["problem"] if place else problem
    steps = [match[0] for match in _STEP.finditer((place["path"] or "") if place else "")]
    missing, expected = _MISSING.fullmatch(text), _EXPECTED.fullmatch(text)
    got = expected["got"] if expected else ""
    in_key = bool(place and place["key"])
    path, value = next(_candidates(document, steps, "" if in_key else got), ("".join(steps), None))
    path = path.removeprefix(".")
    if missing:
        return ApiError(f"{path}.{missing['field']}".removeprefix("."), "is required")
    if expected:
        words = [word for word in expected["expected"].split(" | ") if word != "null"]
        if "float" in words and "int" in words:
            words.remove("int")
        expected_types = " or ".join(_TYPE_WORDS.get(word, word) for word in words)
        if in_key:
            return ApiError(path, f"must have keys that are {expected_types}; write them in quotes")
        return ApiError(path, f"must be {expected_types}, not {quote(value)}")
    return ApiError(path, f"cannot be read: {text[:1].lower()}{text[1:]}")


def _candidates(value: Any, steps: list[str], got: str, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields that match msgspec's path. It does not name the key of a mapping, so all keys are tried."""
    if not steps:
        if not got or _type_name(value) == got:
            yield path, value
        return
    step, rest = steps[0], steps[1:]
    if step == "[...]":
        if isinstance(value, Mapping):
            for name, part in value.items():
                yield from _candidates(part, rest, got, member_path(path, name))
        elif isinstance(value, list):
            for index, part in enumerate(value):
                yield from _candidates(part, rest, got, f"{path}[{index}]")
    elif step.startswith("["):
        index = int(step[1:-1])
        if isinstance(value, list) and index < len(value):
            yield from _candidates(value[index], rest, got, path + step)
    elif isinstance(value, Mapping) and step[1:] in value:
        yield from _candidates(value[step[1:]], rest, got, path + step)


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, list) else type(value).__name__
