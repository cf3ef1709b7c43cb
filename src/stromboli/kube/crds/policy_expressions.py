"""A rule of a struct, as expressions over the objects in which the struct is.

Rules speak of `self`, wherever it is. A definition has a place for them at each struct; a policy sees only the whole
object. So `self` is replaced by the path to it, and for each list or mapping on the way by a variable of a macro:

    self.minAvailable <= self.replicas        of each task becomes
    !has(object.spec.tasks) || object.spec.tasks.all(i1, i1.minAvailable <= i1.replicas)

The sentence is that of the first item that breaks the rule, with its position:

    object.spec.tasks.map(i1, !(…), 'spec.tasks[' + string(object.spec.tasks.indexOf(i1)) + '].minAvailable: ' + …)[0]
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from stromboli.api.rules import Rule
from stromboli.api.rules.walk import Part, parts


class Placed(NamedTuple):
    """A rule at one place of an object: the field, what must hold, and an expression for the field and the sentence if
    it does not; "" where nothing is to be added to those of the rule.

    A server says the first denial. In the order of `order` that is the one which `broken_rules` finds first."""

    order: tuple[float, ...]
    field: str
    must: str
    says: str


def places_of(rule: Rule, kind: type[Struct]) -> Iterator[Placed]:
    """The rule at every place where objects of `kind` have its struct."""
    for path in _paths(kind, rule):
        field = ".".join(filter(None, (_field(path), rule.field)))
        adds = rule.says or any(part.container for part in path)
        order = (*(part.place for part in path), math.inf)
        says = _says(rule, path, "object", "oldObject") if adds else ""
        yield Placed(order, field, _must(rule, path, "object", "oldObject"), says)


def _paths(kind: type[Struct], rule: Rule) -> Iterator[tuple[Part, ...]]:
    if kind is rule.on:
        yield ()
    for part in parts(kind, frozenset({rule.on}), on_update=rule.on_update):
        for rest in _paths(part.kind, rule):
            yield (part, *rest)


def _field(path: tuple[Part, ...]) -> str:
    return ".".join(part.name + ("[]" if part.container else "") for part in path)


def _must(rule: Rule, path: tuple[Part, ...], self: str, old: str, depth: int = 1) -> str:
    if not path:
        return f"({_over(rule.cel, self, old)})"
    part, *rest = path
    here, before = f"{self}.{part.name}", f"{old}.{part.name}"
    missing = f"!has({here})" + (f" || !has({before})" if rule.on_update else "")
    if not part.container:
        return f"{missing} || {_must(rule, tuple(rest), here, before, depth)}"
    assert not rule.on_update, "CEL does not know which item of the old list this one was"
    item = f"i{depth}"
    inside = _must(rule, tuple(rest), _item(part, here, item), "", depth + 1)
    return f"{missing} || {here}.all({item}, {inside})"


def _item(part: Part, here: str, variable: str) -> str:
    return variable if part.container == "list" else f"{here}[{variable}]"


def _says(rule: Rule, path: tuple[Part, ...], self: str, old: str = "", at: str = "", depth: int = 1) -> str:
    """Text in CEL: the field of the first struct that breaks the rule, and the sentence about it. `at` is the part of
    the field that is known before."""
    if not path:
        field = ".".join(filter(None, (at, rule.field)))
        sentence = _over(rule.says, self, old) if rule.says else f"'{rule.must}'"
        return f"'{field}: ' + {sentence}"
    part, *rest = path
    here, name = f"{self}.{part.name}", ".".join(filter(None, (at, part.name)))
    if not part.container:
        return _says(rule, tuple(rest), here, f"{old}.{part.name}", name, depth)
    variable = f"i{depth}"
    item = _item(part, here, variable)
    position = variable if part.container == "dict" else f"string({here}.indexOf({variable}))"
    breaks = f"!({_must(rule, tuple(rest), item, '', depth + 1)})"
    # After the position comes `]`, and then the rest as if the field began there.
    inside = _says(rule, tuple(rest), item, "", "]", depth + 1)
    return f"{here}.map({variable}, {breaks}, '{name}[' + {position} + {inside})[0]"


def _over(expression: str, self: str, old: str) -> str:
    return re.sub(r"\boldSelf\b", old, re.sub(r"\bself\b", self, expression))
