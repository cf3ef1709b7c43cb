"""What can be changed in a module, one place at a time.

A change keeps the module valid Python, and most often a program that still does something: the other side of a
boundary, a condition that always holds, a call left out. Constants outside functions, defaults of parameters and texts
are left alone.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .blocks import Function, OuterFunction, blocks, outer_functions, parsed

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Change:
    path: Path  # of the module, below the top of the checkout
    module: str
    function: OuterFunction
    block: int
    kind: str
    line: int
    number: int  # among the changes of the function
    place: int  # of the node, in the order of _nodes
    replacement: ast.AST

    @property
    def key(self) -> str:
        """The same as long as the function is the same, whatever happens elsewhere."""
        return f"{self.module}:{self.function.name}:{self.number}:{self.kind}:{self.function.digest}"

    @cached_property
    def changed(self) -> Function:
        """The function with the change in it."""
        changed = copy.deepcopy(self.function.node)
        target = next(node for place, node, _ in _nodes(changed, {}) if place == self.place)
        replacement = ast.copy_location(copy.deepcopy(self.replacement), target)

        class Replace(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> ast.AST:
                return replacement if node is target else self.generic_visit(node)

        Replace().generic_visit(changed)
        return ast.fix_missing_locations(changed)

    @property
    def source(self) -> str:
        """The whole module with the change in it."""
        tree = copy.deepcopy(parsed(self.path))
        for function in outer_functions(tree):
            if function.name == self.function.name and function.node.lineno == self.function.node.lineno:
                function.node.body = copy.deepcopy(self.changed.body)
        return ast.unparse(ast.fix_missing_locations(tree))

    @property
    def difference(self) -> list[str]:
        """Both versions of the lines that differ, without what stands around them."""
        before, after = (ast.unparse(node).splitlines() for node in (self.function.node, self.changed))
        lines = list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]
        return [line for line in lines if not line.startswith("@@")]


def changes_of(path: Path, module: str) -> list[Change]:
    found: list[Change] = []
    for function in outer_functions(parsed(path)):
        if not _is_for_people(function.name):
            found.extend(_changes_of_function(path, module, function))
    return found


def _is_for_people(name: str) -> bool:
    return name.rpartition(".")[2] in ("__repr__", "__str__", "validate")


def _changes_of_function(path: Path, module: str, function: OuterFunction) -> Iterator[Change]:
    number_of = {id(s): number for number, block in enumerate(blocks(function.node)) for s in block}
    number = 0
    for place, node, block in _nodes(function.node, number_of):
        for kind, replacement in _replacements(node, function.node):
            line = getattr(node, "lineno", function.node.lineno)
            yield Change(path, module, function, block, kind, line, number, place, replacement)
            number += 1


def _nodes(function: Function, number_of: dict[int, int]) -> Iterator[tuple[int, ast.AST, int]]:
    """Each node of the body that runs when the function does, with its place in that order and its block."""
    place = 0

    def walk(node: ast.AST, block: int) -> Iterator[tuple[int, ast.AST, int]]:
        nonlocal place
        block = number_of.get(id(node), block)
        yield place, node, block
        place += 1
        for child in _children(node):
            yield from walk(child, block)

    for statement in function.body:
        yield from walk(statement, 0)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "format_spec", "type_comment"):
            continue
        if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr) or getattr(node, "arg", "") == "strict":
            continue
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST) and not isinstance(child, ast.arguments):
                yield child


def _replacements(node: ast.AST, function: Function) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                for other in COMPARISONS[type(operator)]:
                    ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
                    yield "comparison", ast.Compare(node.left, ops, node.comparators)
        case ast.BoolOp():
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
            for index in range(len(node.values)):
                rest = [*node.values[:index], *node.values[index + 1 :]]
                yield "operand", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node.operand
        case ast.UnaryOp(op=ast.USub()) if not isinstance(node.operand, ast.Constant):
            yield "arithmetic", node.operand
        case ast.BinOp() if type(node.op) in ARITHMETIC and not _joins_text(node):
            yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.AugAssign():
            if type(node.op) in ARITHMETIC:
                yield "arithmetic", ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
            yield "statement", ast.Pass()
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", ast.Constant(value + 1)
            yield "constant", ast.Constant(value - 1)
        case ast.Expr(value=ast.Call() | ast.Await() as call) if not _is_log(call):
            yield "statement", ast.Pass()
        case ast.Delete() | ast.Raise():
            yield "statement", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", ast.Pass()
        case ast.If():
            yield "condition", ast.If(ast.Constant(True), node.body, node.orelse)
            yield "condition", ast.If(ast.Constant(False), node.body, node.orelse)
        case ast.IfExp():
            yield "condition", node.body
            yield "condition", node.orelse
        case ast.While() if not isinstance(node.test, ast.Constant):
            yield "condition", ast.While(ast.Constant(False), node.body, node.orelse)
        case ast.comprehension() if node.ifs:
            for index in range(len(node.ifs)):
                rest = [*node.ifs[:index], *node.ifs[index + 1 :]]
                yield "condition", ast.comprehension(node.target, node.iter, rest, node.is_async)
        case ast.Return(value=ast.expr() as value):
            yield from _returns(value, function)
        case ast.Call(func=ast.Name(id=name)) if name in OPPOSITES:
            yield OPPOSITES[name] + " for " + name, ast.Call(ast.Name(OPPOSITES[name]), node.args, node.keywords)
        case ast.Break():
            yield "break", ast.Continue()
        case ast.Continue():
            yield "continue", ast.Break()


def _returns(value: ast.expr, function: Function) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(value, ast.Constant):
        return  # changed as a constant, or nothing to begin with
    if isinstance(function.returns, ast.Name) and function.returns.id == "bool":
        yield "return", ast.Return(ast.Constant(True))
        yield "return", ast.Return(ast.Constant(False))
    else:
        yield "return", ast.Return(ast.Constant(None))


def _joins_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _is_log(call: ast.Call | ast.Await) -> bool:
    """What people read, not what happens."""
    if isinstance(call, ast.Await) or not isinstance(call.func, ast.Attribute):
        return False
    return ast.unparse(call.func.value).rpartition(".")[2].strip("_").lower() in ("log", "logger")
