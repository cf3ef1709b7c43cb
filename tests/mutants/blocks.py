"""Functions as blocks: stretches of statements of which a test reaches all or none, as far as one can tell.

A block begins with the body of each function, branch, loop or handler, and after each statement that has such a body,
because one of its branches may have left the function. The outermost function owns the blocks of those inside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

from .snapshot import ROOT

Function = ast.FunctionDef | ast.AsyncFunctionDef
REACHED = "__reached__"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


@dataclass(frozen=True)
class OuterFunction:
    """A function of a module or of a class, with everything inside it."""

    name: str  # with its classes, as in __qualname__
    node: Function

    @cached_property
    def digest(self) -> str:
        """Changes when the function does, wherever it stands in its file."""
        return sha256(ast.dump(self.node).encode()).hexdigest()[:16]


def outer_functions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[OuterFunction]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from outer_functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, Function):
            yield OuterFunction(prefix + node.name, node)


def statement_lists(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The bodies directly below a statement."""
    for field in ("body", "orelse", "finalbody"):
        if (statements := getattr(node, field, None)) and isinstance(statements, list):
            yield statements
    for branch in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield branch.body


def blocks(function: Function) -> list[list[ast.stmt]]:
    """The blocks of a function, in an order that only depends on its text. Block 0 is where it begins."""
    found: list[list[ast.stmt]] = []

    def divide(statements: list[ast.stmt]) -> None:
        block: list[ast.stmt] = []
        found.append(block)
        for statement in statements:
            if block and any(True for _ in statement_lists(block[-1])):
                block = []
                found.append(block)
            block.append(statement)
        for statement in statements:
            for inner in statement_lists(statement):
                divide(inner)

    divide(function.body)
    return found


def instrumented(source: str, module: str) -> str:
    """The same module, which calls __reached__ with the name of each block that it comes to."""
    tree = ast.parse(source)
    for function in outer_functions(tree):
        first = {id(block[0]): number for number, block in enumerate(blocks(function.node))}
        _mark(function.node, f"{module}:{function.name}:{function.digest}", first)
    place = 1 if ast.get_docstring(tree) is not None else 0
    while place < len(tree.body) and _is_future(tree.body[place]):
        place += 1
    tree.body.insert(place, ast.parse(f"from reached_blocks import reached as {REACHED}").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def _mark(node: ast.AST, function: str, first: dict[int, int]) -> None:
    for statements in statement_lists(node):
        marked: list[ast.stmt] = []
        for statement in statements:
            _mark(statement, function, first)
            if (number := first.get(id(statement))) is not None:
                marked.append(ast.parse(f"{REACHED}({f'{function}:{number}'!r})").body[0])
            marked.append(statement)
        statements[:] = marked


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
