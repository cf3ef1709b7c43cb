"""Label selectors and field selectors, as queries write them and as objects hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from . import names
from .status import bad_request

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]

_SET: Final = re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_COMPARE: Final = re.compile(r"(?P<key>[^\s!=,()<>]+)\s*(?P<operator>==|=|!=|<|>)\s*(?P<value>[^\s,()!=<>]*)")
_EXISTS: Final = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s!=,()<>]+)")
_LONGEST: Final = 10_000


def parse_label_selector(text: str) -> list[Requirement]:
    """The requirements of a query such as `app=web,tier in (a, b),!old`; raises a StatusError."""
    if len(text) > _LONGEST:
        raise _unparsable(text[:50], "it is too long")
    requirements = []
    for part in _parts(text):
        requirements.append(_requirement(part, text))
    return requirements


def _parts(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    if not text.strip():
        return []
    parts, depth, current = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part.strip() for part in (*parts, current)]


def _requirement(part: str, text: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _check(found["key"], "In" if found["operator"] == "in" else "NotIn", values, text)
    if found := _COMPARE.fullmatch(part):
        operator = {"=": "In", "==": "In", "!=": "NotIn", "<": "Lt", ">": "Gt"}[found["operator"]]
        return _check(found["key"], operator, frozenset([found["value"]]), text)
    if found := _EXISTS.fullmatch(part):
        return _check(found["key"], "DoesNotExist" if found["not"] else "Exists", frozenset(), text)
    raise _unparsable(text, f"found {part!r}")


def _check(key: str, operator: str, values: frozenset[str], text: str) -> Requirement:
    if problem := names.qualified_name(key):
        raise _unparsable(text, f"key {key!r}: {problem}")
    for value in values:
        if problem := names.label_value(value):
            raise _unparsable(text, f"value {value!r}: {problem}")
        if operator in ("Gt", "Lt") and _integer(value) is None:
            raise _unparsable(text, f"value {value!r}: for 'Gt', 'Lt' operators, the value must be an integer")
    return _test(key, operator, values)


def _test(key: str, operator: str, values: frozenset[str]) -> Requirement:
    match operator:
        case "In":
            return lambda labels: labels.get(key) in values if key in labels else False
        case "NotIn":
            return lambda labels: key not in labels or labels[key] not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case _:
            bound = _integer(next(iter(values), ""))
            return lambda labels: _compares(operator, _integer(labels.get(key, "")), bound)


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _compares(operator: str, value: int | None, bound: int | None) -> bool:
    if value is None or bound is None:
        return False
    return value > bound if operator == "Gt" else value < bound


def _unparsable(text: str, problem: str) -> Exception:
    return bad_request(f'unable to parse requirement: "{text}": {problem}')


def matches(selector: Any, labels: Labels) -> bool:
    """Whether a selector in an object selects these labels. Without a selector nothing is selected."""
    if not isinstance(selector, dict):
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for one in selector.get("matchExpressions") or ():
        values = frozenset(one.get("values") or ())
        if not _test(str(one.get("key", "")), str(one.get("operator", "")), values)(labels):
            return False
    return True


def selector_text(selector: Any) -> str:
    """A selector of an object as a query."""
    if not isinstance(selector, dict):
        return ""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        key, values = one.get("key", ""), ",".join(one.get("values") or ())
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(forms.get(one.get("operator", ""), f"!{key}"))
    return ",".join(parts)


FieldRequirement = tuple[str, bool, str]
"""A field, whether it must be equal, and the value."""


def parse_field_selector(text: str) -> list[FieldRequirement]:
    requirements = []
    if len(text) > _LONGEST:
        raise bad_request(f"invalid selector: '{text[:50]}' is too long")
    for part in map(str.strip, text.split(",")):
        if not part:
            continue
        found = re.fullmatch(r"([^=!\s]+)\s*(==|!=|=)\s*(.*)", part)
        if found is None:
            raise bad_request(f"invalid selector: '{text[:200]}'; can't understand '{part[:100]}'")
        requirements.append((found[1], found[2] != "!=", found[3].replace("\\", "")))
    return requirements
