"""From the tree of an expression to a function.

Each node becomes a closure over those below it. A closure takes the frame, a list: the budget first, then the variables
that were declared, then those of macros, each at a place that is known when the expression is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from .fields import field_of, is_given, item_of, key_of, optional_field, optional_item
from .functions import FUNCTIONS, NAMESPACES
from .macros import MACROS
from .syntax import Call, Conditional, Entries, Index, Items, Literal, Logic, Name, Node, Select, size_of
from .values import CelError, CompileError, Struct, TypeName, no_such_overload

Frame = list[Any]
Code = Callable[[Frame], Any]

BUDGET: Final = 0
_STRUCTS: Final = ("Object", "JSONPatch")
_TYPES: Final = {
    name: TypeName(name)
    for name in ("bool", "int", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type")
}


class Compiler:
    """Compiles one expression. `size` is that of its frame."""

    def __init__(self, variables: Iterable[str]) -> None:
        self._places = {name: at for at, name in enumerate(variables, start=1)}
        self.size = 1 + len(self._places)

    def code(self, node: Node) -> Code:
        match node:
            case Literal(value=value):
                return lambda frame: value
            case Name():
                return self._name(node)
            case Select():
                return self._select(node)
            case Index():
                return self._index(node)
            case Call():
                return self._call(node)
            case Logic():
                return self._logic(node)
            case Conditional():
                return self._conditional(node)
            case Items():
                return self._items(node)
            case Entries():
                return self._struct(node) if node.struct else self._map(node)
        raise AssertionError(node)

    def with_variables(self, *names: str) -> tuple[list[int], dict[str, int]]:
        """New variables, for a macro: their places, and what is to be given back to `restore`."""
        before = self._places
        places = [self.size + at for at in range(len(names))]
        self.size += len(names)
        self._places = before | dict(zip(names, places, strict=True))
        return places, before

    def restore(self, before: dict[str, int]) -> None:
        self._places = before

    def body(self, node: Node) -> tuple[Code, int]:
        """What a macro evaluates again and again, and the steps that it takes each time."""
        return self.code(node), size_of(node)

    # -- names, fields, items -----------------------------------------------------------------------------------------

    def _name(self, node: Name) -> Code:
        place = self._places.get(node.name)
        if place is not None:
            return lambda frame: frame[place]
        if node.name in _TYPES:
            return lambda frame, found=_TYPES[node.name]: found  # type: ignore[misc]
        raise CompileError(f"undeclared reference to '{node.name}'")

    def _select(self, node: Select) -> Code:
        operand, name = self.code(node.operand), node.field
        if node.optional:
            return lambda frame: optional_field(operand(frame), name)

        def select(frame: Frame) -> Any:
            value = operand(frame)
            if type(value) is dict:
                try:
                    return value[name]
                except KeyError:
                    raise CelError(f"no such key: {name}") from None
            return field_of(value, name)

        return select

    def _index(self, node: Index) -> Code:
        operand, index = self.code(node.operand), self.code(node.index)
        if node.optional:
            return lambda frame: optional_item(operand(frame), index(frame), frame[BUDGET])
        return lambda frame: item_of(operand(frame), index(frame), frame[BUDGET])

    # -- logic --------------------------------------------------------------------------------------------------------

    def _logic(self, node: Logic) -> Code:
        """An error is no answer if another term gives one."""
        terms = [self.code(term) for term in node.terms]
        ends_with = node.operator == "||"

        def logic(frame: Frame) -> bool:
            failed: CelError | None = None
            for term in terms:
                try:
                    value = term(frame)
                except CelError as error:
                    failed = failed or error
                    continue
                if value is ends_with:
                    return bool(ends_with)
                if value is not (not ends_with):
                    failed = failed or no_such_overload(value)
            if failed is not None:
                raise failed
            return not ends_with

        return logic

    def _conditional(self, node: Conditional) -> Code:
        condition, yes, no = (self.code(part) for part in (node.condition, node.yes, node.no))

        def conditional(frame: Frame) -> Any:
            value = condition(frame)
            if value is True:
                return yes(frame)
            if value is False:
                return no(frame)
            raise no_such_overload(value)

        return conditional

    # -- calls --------------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Code:
        macro = MACROS.get((node.function, len(node.arguments), node.target is not None))
        is_bind = node.function == "bind" and node.target == Name("cel")
        if macro is not None and (node.function != "bind" or is_bind):
            return macro(self, node)
        name, arguments = node.function, list(node.arguments)
        target = node.target
        namespaced = isinstance(target, Name) and target.name in NAMESPACES and target.name not in self._places
        if namespaced:
            assert isinstance(target, Name)
            name = f"{target.name}.{name}"
        is_member = target is not None and not namespaced
        if is_member and target is not None:
            arguments.insert(0, target)
        codes = [self.code(one) for one in arguments[:1]]
        found = FUNCTIONS.get((name, is_member))
        if found is None:
            raise CompileError(f"undeclared reference to '{name}': this server has no such function")
        count = len(node.arguments)
        if count not in found.counts:
            raise CompileError(f"found no matching overload for '{name}' with {count} arguments")
        if found.check is not None:
            found.check(arguments)
        return _called(found.body, codes + [self.code(one) for one in arguments[1:]])

    # -- literals -----------------------------------------------------------------------------------------------------

    def _items(self, node: Items) -> Code:
        items = [(self.code(item), optional) for item, optional in node.items]
        if not any(optional for _, optional in items):
            plain = [item for item, _ in items]
            return lambda frame: [item(frame) for item in plain]

        def make(frame: Frame) -> list[Any]:
            made = []
            for item, optional in items:
                value = item(frame)
                if not optional:
                    made.append(value)
                elif is_given(value):
                    made.append(value.value)
            return made

        return make

    def _map(self, node: Entries) -> Code:
        entries = [(self.code(key), self.code(value), optional) for key, value, optional in node.entries]

        def make(frame: Frame) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key, value, optional in entries:
                at, found = key_of(key(frame), frame[BUDGET]), value(frame)
                if at in made:
                    raise CelError(f"duplicate key in map literal: {at}")
                if not optional:
                    made[at] = found
                elif is_given(found):
                    made[at] = found.value
            return made

        return make

    def _struct(self, node: Entries) -> Code:
        name = node.struct
        if name.partition(".")[0] not in _STRUCTS or (name.startswith("JSONPatch") and name != "JSONPatch"):
            raise CompileError(f"undeclared reference to '{name}'")
        fields = [(_constant(key), self.code(value), optional) for key, value, optional in node.entries]
        for field, _, _ in fields:
            if name == "JSONPatch" and field not in ("op", "path", "from", "value"):
                raise CompileError(f"undefined field '{field}' of JSONPatch")

        def make(frame: Frame) -> Struct:
            made: dict[str, Any] = {}
            for field, value, optional in fields:
                found = value(frame)
                if not optional:
                    made[field] = found
                elif is_given(found):
                    made[field] = found.value
            return Struct(name, made)

        return make


def _constant(node: Node) -> str:
    assert isinstance(node, Literal)
    return str(node.value)


def _called(body: Callable[..., Any], arguments: list[Code]) -> Code:
    match arguments:
        case [one]:
            return lambda frame: body(frame[BUDGET], one(frame))
        case [one, other]:
            return lambda frame: body(frame[BUDGET], one(frame), other(frame))
    return lambda frame: body(frame[BUDGET], *[one(frame) for one in arguments])
