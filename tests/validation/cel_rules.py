"""What the rules say in CEL, as an API server evaluates them: over the document, not over our types.

Shares no code with the Python predicates. What servers have beyond CEL itself (quantities, functions of lists) is
written down here again, from Kubernetes' documentation.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from stromboli.api.kinds import CLUSTER_SCOPED, KINDS
from stromboli.api.rules import RULES, Door, Rule
from stromboli.api.rules.walk import parts
from stromboli.kube.crds.definitions import definitions

Document = dict[str, Any]
_DYN, _INT, _BOOL, _TEXT, _MAP = (
    cel.Type.DYN, cel.Type.INT, cel.Type.BOOL, cel.Type.STRING, cel.Type.MAP,
)  # fmt: skip
_LIST = cel.Type.List(_DYN)

_QUANTITY = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


class Found(NamedTuple):
    rule: Rule
    field: str
    sentence: str


def _quantity(text: str) -> dict[str, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is no quantity")
    sign, number, suffix = match.groups()
    value = Fraction(number.rstrip(".") if not number.startswith(".") else f"0{number}")
    if suffix and suffix.endswith("i"):
        value *= 1024 ** ("KMGTPE".index(suffix[0]) + 1)
    elif suffix:
        value *= Fraction(10) ** (int(suffix[1:]) if suffix[0] in "eE" and suffix[1:] else _SUFFIXES[suffix])
    return {"value": str(-value if sign == "-" else value)}


def _compare(one: dict[str, str], other: dict[str, str]) -> int:
    left, right = Fraction(one["value"]), Fraction(other["value"])
    return (left > right) - (left < right)


def _function(name: str, result: Any, *parameters: Any, is_member: bool, body: Any) -> Any:
    overload = cel.Overload(
        f"{name}_here", return_type=result, parameters=[*parameters], is_member=is_member, impl=body
    )
    return cel.FunctionDecl(name, [overload])


_ENVIRONMENT = cel.NewEnv(
    variables=dict.fromkeys(("self", "oldSelf", "object", "oldObject", "request", "params"), _DYN),
    extensions=[ext_strings.ExtStrings()],
    functions=[
        _function("quantity", _MAP, _TEXT, is_member=False, body=_quantity),
        _function("compareTo", _INT, _MAP, _MAP, is_member=True, body=_compare),
        _function("isInteger", _BOOL, _MAP, is_member=True, body=lambda one: "/" not in one["value"]),
        _function("asInteger", _INT, _MAP, is_member=True, body=lambda one: int(one["value"])),
        _function("sum", _DYN, _LIST, is_member=True, body=sum),
        _function("min", _DYN, _LIST, is_member=True, body=min),
    ],
)


@cache
def _compiled(expression: str) -> Any:
    return _ENVIRONMENT.compile(expression)


def evaluated(expression: str, **variables: Any) -> Any:
    """The value of an expression; raises AssertionError if it has none, as where a server would fail."""
    result = _compiled(expression).eval(data=variables)
    assert result.type() != cel.Type.ERROR, f"{expression}: {result.value()}"
    return result.plain_value()


@cache
def schemas() -> dict[str, Document]:
    return {
        definition["spec"]["names"]["kind"]: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for definition in definitions().values()
    }


def filled_in(value: Any, schema: Document) -> Any:
    """With the defaults of a schema, which a server sets before it evaluates rules."""
    if isinstance(value, list):
        return [filled_in(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    given = {name: copy.deepcopy(part["default"]) for name, part in properties.items() if "default" in part} | value
    others = schema.get("additionalProperties", {})
    return {name: filled_in(part, properties.get(name, others)) for name, part in given.items() if part is not None}


def cel_broken(document: Document, was: Document | None = None) -> list[Found]:
    """The rules that an object, or its change, breaks: with the field and the sentence that a server would name."""
    kind = KINDS[document["apiVersion"], document["kind"]]
    now, before = (None if one is None else seen_by_a_server(one) for one in (document, was))
    return [found for rule in RULES for found in _found(rule, kind, now, before, "", was is not None)]


def seen_by_a_server(document: Document) -> Document:
    seen = filled_in(document, schemas().get(document["kind"], {}))
    if KINDS[document["apiVersion"], document["kind"]] not in CLUSTER_SCOPED:
        # A request has a namespace, and an object gets that of its request.
        seen["metadata"] = {**seen["metadata"], "namespace": seen["metadata"].get("namespace") or "default"}
    return seen


def _found(rule: Rule, kind: type, value: Any, old: Any, path: str, is_update: bool) -> Iterator[Found]:
    if kind is rule.on and (not rule.on_update or (is_update and old is not None)):
        new, then = (_escaped(one) if rule.door is Door.DEFINITION else one for one in (value, old))
        if not evaluated(rule.cel, self=new, oldSelf=then):
            sentence = evaluated(rule.says, self=new, oldSelf=then) if rule.says else rule.must
            yield Found(rule, ".".join(filter(None, (path, rule.field))), sentence)
    for part in parts(kind, frozenset({rule.on}), on_update=rule.on_update):
        if part.name not in value:
            continue
        inner, at = value[part.name], f"{path}.{part.name}".removeprefix(".")
        if part.container == "list":
            for index, item in enumerate(inner):
                yield from _found(rule, part.kind, item, None, f"{at}[{index}]", is_update)
        else:
            yield from _found(rule, part.kind, inner, (old or {}).get(part.name), at, is_update)


def _escaped(value: Any) -> Any:
    """Definitions escape fields whose names are words of the language."""
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {"__namespace__" if name == "namespace" else name: _escaped(part) for name, part in value.items()}
