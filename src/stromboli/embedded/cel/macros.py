"""Macros: what looks like a call and evaluates its arguments in ways of its own, most of them once for each item.

has, all, exists, exists_one, filter, map       of lists, and of the keys of maps
all, exists, existsOne, transformList, transformMap, transformMapEntry
                                                with two variables: position and item, or key and value
cel.bind, optMap, optFlatMap                    names for values
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from .fields import has_field
from .syntax import Call, Name, Node, Select
from .values import NOTHING, CelError, CompileError, Maybe, no_such_overload

if TYPE_CHECKING:
    from .compiler import Code, Compiler, Frame

Macro = Callable[["Compiler", Call], "Code"]


def _has(compiler: Compiler, call: Call) -> Code:
    argument = call.arguments[0]
    if not isinstance(argument, Select):
        raise CompileError("has() needs a field, as in has(self.field)")
    operand, name = compiler.code(argument.operand), argument.field
    if argument.optional:
        raise CompileError("has() needs a field without .?")

    def has(frame: Frame) -> bool:
        value = operand(frame)
        return name in value if type(value) is dict else has_field(value, name)

    return has


class _Loop:
    """A macro over a list or a map: what it goes through, its variables, and the steps that each round takes."""

    def __init__(self, compiler: Compiler, call: Call, variables: int) -> None:
        assert call.target is not None
        self._range = compiler.code(call.target)
        self.places, before = compiler.with_variables(*_names(call.arguments[:variables]))
        self.bodies: list[Code] = []
        self._steps = 1
        for node in call.arguments[variables:]:
            code, size = compiler.body(node)
            self.bodies.append(code)
            self._steps += size
        compiler.restore(before)

    def rounds(self, frame: Frame) -> Iterator[Any]:
        """Sets the variables for each round, and yields the key of it: a position, or a key of a map."""
        value, budget, steps = self._range(frame), frame[0], self._steps
        if isinstance(value, Maybe):
            raise no_such_overload(value)
        if len(self.places) == 1:
            place = self.places[0]
            if not isinstance(value, list | dict):
                raise no_such_overload(value)
            for item in value:
                budget.take(steps)
                frame[place] = item
                yield item
            return
        first, second = self.places
        if not isinstance(value, list | dict):
            raise no_such_overload(value)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            budget.take(steps)
            frame[first], frame[second] = key, item
            yield key


def _names(nodes: tuple[Node, ...]) -> list[str]:
    names = [node.name for node in nodes if isinstance(node, Name)]
    if len(names) < len(nodes) or len(set(names)) < len(names):
        raise CompileError("the first arguments of a macro must be names of variables")
    return names


def _quantifier(variables: int, *, ends_with: bool) -> Macro:
    """`all` and `exists`. An error is no answer if another item gives one."""

    def macro(compiler: Compiler, call: Call) -> Code:
        loop = _Loop(compiler, call, variables)
        [test] = loop.bodies

        def run(frame: Frame) -> bool:
            failed: CelError | None = None
            for _ in loop.rounds(frame):
                try:
                    value = test(frame)
                except CelError as error:
                    failed = failed or error
                    continue
                if value is ends_with:
                    return bool(ends_with)
                if not isinstance(value, bool):
                    failed = failed or no_such_overload(value)
            if failed is not None:
                raise failed
            return not ends_with

        return run

    return macro


def _is(value: Any) -> bool:
    if not isinstance(value, bool):
        raise no_such_overload(value)
    return value


def _exists_one(variables: int) -> Macro:
    def macro(compiler: Compiler, call: Call) -> Code:
        loop = _Loop(compiler, call, variables)
        [test] = loop.bodies
        return lambda frame: sum(_is(test(frame)) for _ in loop.rounds(frame)) == 1

    return macro


def _filter(compiler: Compiler, call: Call) -> Code:
    loop = _Loop(compiler, call, 1)
    [test] = loop.bodies
    return lambda frame: [item for item in loop.rounds(frame) if _is(test(frame))]


def _map(variables: int) -> Macro:
    """`map` and `transformList`, with or without a test of what to take."""

    def macro(compiler: Compiler, call: Call) -> Code:
        loop = _Loop(compiler, call, variables)
        *tests, value = loop.bodies
        if not tests:
            return lambda frame: [value(frame) for _ in loop.rounds(frame)]
        test = tests[0]
        return lambda frame: [value(frame) for _ in loop.rounds(frame) if _is(test(frame))]

    return macro


def _transform_map(compiler: Compiler, call: Call) -> Code:
    loop = _Loop(compiler, call, 2)
    *tests, value = loop.bodies
    if not tests:
        return lambda frame: {key: value(frame) for key in loop.rounds(frame)}
    test = tests[0]
    return lambda frame: {key: value(frame) for key in loop.rounds(frame) if _is(test(frame))}


def _transform_map_entry(compiler: Compiler, call: Call) -> Code:
    loop = _Loop(compiler, call, 2)
    *tests, value = loop.bodies

    def run(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for _ in loop.rounds(frame):
            if tests and not _is(tests[0](frame)):
                continue
            entries = value(frame)
            if not isinstance(entries, dict):
                raise no_such_overload(entries)
            frame[0].take(len(entries))
            for key, part in entries.items():
                if key in made:
                    raise CelError(f"insert failed: key {key!r} already exists")
                made[key] = part
        return made

    return run


def _bind(compiler: Compiler, call: Call) -> Code:
    name, value, result = call.arguments
    code = compiler.code(value)
    [place], before = compiler.with_variables(*_names((name,)))
    body = compiler.code(result)
    compiler.restore(before)

    def bind(frame: Frame) -> Any:
        frame[place] = code(frame)
        return body(frame)

    return bind


def _opt_map(*, is_flat: bool) -> Macro:
    def macro(compiler: Compiler, call: Call) -> Code:
        assert call.target is not None
        target = compiler.code(call.target)
        [place], before = compiler.with_variables(*_names(call.arguments[:1]))
        body = compiler.code(call.arguments[1])
        compiler.restore(before)

        def run(frame: Frame) -> Maybe:
            value = target(frame)
            if not isinstance(value, Maybe):
                raise no_such_overload(value)
            if not value.is_given:
                return NOTHING
            frame[place] = value.value
            made = body(frame)
            if not is_flat:
                return Maybe(made)
            if not isinstance(made, Maybe):
                raise no_such_overload(made)
            return made

        return run

    return macro


MACROS: Final[dict[tuple[str, int, bool], Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier(1, ends_with=False),
    ("all", 3, True): _quantifier(2, ends_with=False),
    ("exists", 2, True): _quantifier(1, ends_with=True),
    ("exists", 3, True): _quantifier(2, ends_with=True),
    ("exists_one", 2, True): _exists_one(1),
    ("existsOne", 2, True): _exists_one(1),
    ("existsOne", 3, True): _exists_one(2),
    ("filter", 2, True): _filter,
    ("map", 2, True): _map(1),
    ("map", 3, True): _map(1),
    ("transformList", 3, True): _map(2),
    ("transformList", 4, True): _map(2),
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map(is_flat=False),
    ("optFlatMap", 2, True): _opt_map(is_flat=True),
}
"""By name, number of arguments, and whether they are called on something."""
