"""The tree of an expression.

conditional   a ? b : c
or, and       each with all of their terms
relation      == != < <= > >= in
sums          + -
products      * / %
unary         ! -
member        a.b  a.?b  a.b(…)  a[…]  a[?…]  Name{field: …}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from .tokens import Token, tokens
from .values import LARGEST_INT, CompileError

DEEPEST: Final = 50
_MOST_IN_A_ROW: Final = 100
RELATIONS: Final = ("==", "!=", "<", "<=", ">", ">=", "in")
# Words that are reserved for languages like this one. Fields may have such names, variables may not.
_RESERVED: Final = (
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
)  # fmt: skip


class Node:
    """A part of an expression."""


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: Any


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    operand: Node
    field: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Index(Node):
    operand: Node
    index: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call(Node):
    target: Node | None
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Logic(Node):
    operator: str
    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    condition: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class Items(Node):
    items: tuple[tuple[Node, bool], ...]
    """Each with whether it is optional."""


@dataclass(frozen=True, slots=True)
class Entries(Node):
    """A map, or with a name a struct."""

    entries: tuple[tuple[Node, Node, bool], ...]
    struct: str = ""


def parse(text: str) -> Node:
    """Raises CompileError."""
    parser = _Parser(list(tokens(text)))
    node = parser.expression()
    parser.expect_end()
    return node


def parts(node: Node) -> Iterator[Node]:
    """The nodes directly below one."""
    match node:
        case Select():
            yield node.operand
        case Index():
            yield from (node.operand, node.index)
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.arguments
        case Logic():
            yield from node.terms
        case Conditional():
            yield from (node.condition, node.yes, node.no)
        case Items():
            yield from (item for item, _ in node.items)
        case Entries():
            for key, value, _ in node.entries:
                yield from (key, value)


def size_of(node: Node) -> int:
    return 1 + sum(size_of(part) for part in parts(node))


def names_in(node: Node) -> Iterator[str]:
    if isinstance(node, Name):
        yield node.name
    for part in parts(node):
        yield from names_in(part)


def fields_of(node: Node, variable: str) -> Iterator[str]:
    """The fields of a variable that an expression names."""
    if isinstance(node, Select) and node.operand == Name(variable):
        yield node.field
    for part in parts(node):
        yield from fields_of(part, variable)


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0
        self._depth = 0

    # -- tokens -------------------------------------------------------------------------------------------------------

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _is(self, *operators: str) -> bool:
        token = self._tokens[self._at]
        is_operator = token.kind == "operator" or (token.kind == "name" and token.value == "in")
        return is_operator and token.value in operators

    def _take(self, *operators: str) -> str:
        """The operator that comes next, if it is one of these; else ""."""
        return str(self._next().value) if self._is(*operators) else ""

    def _expect(self, operator: str) -> None:
        if not self._take(operator):
            raise self._problem(f"expected {operator!r}")

    def expect_end(self) -> None:
        if self._tokens[self._at].kind != "end":
            raise self._problem("expected the end")

    def _problem(self, expected: str) -> CompileError:
        token = self._tokens[self._at]
        found = "the end" if token.kind == "end" else repr(token.value)
        return CompileError(f"syntax error at character {token.at + 1}: {expected}, found {found}")

    # -- expressions --------------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise CompileError(f"the expression is nested more than {DEEPEST} levels deep")
        node = self._logic("||")
        if self._take("?"):
            yes = self._logic("||")
            self._expect(":")
            node = Conditional(node, yes, self.expression())
        self._depth -= 1
        return node

    def _logic(self, operator: str) -> Node:
        terms = [self._logic("&&") if operator == "||" else self._relation()]
        while self._take(operator):
            terms.append(self._logic("&&") if operator == "||" else self._relation())
        return terms[0] if len(terms) == 1 else Logic(operator, tuple(terms))

    def _relation(self) -> Node:
        return self._chain(RELATIONS, self._sum)

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/", "%"), self._unary)

    def _chain(self, operators: tuple[str, ...], below: Callable[[], Node]) -> Node:
        node = below()
        length = 0
        while operator := self._take(*operators):
            length += 1
            if length > _MOST_IN_A_ROW:
                raise CompileError(f"more than {_MOST_IN_A_ROW} of the operators {' '.join(operators)} in a row")
            node = Call(None, f"_{operator}_", (node, below()))
        return node

    def _unary(self) -> Node:
        operators: list[str] = []
        while operator := self._take("!", "-"):
            if operators and operators[-1] != operator:
                raise self._problem("expected a value")
            operators.append(operator)
        token = self._tokens[self._at]
        is_number = token.kind == "literal" and isinstance(token.value, int | float)
        if operators == ["-"] and is_number:
            self._next()
            return self._member_of(Literal(-token.value))
        if is_number and isinstance(token.value, int) and token.value > LARGEST_INT:
            raise CompileError(f"{token.value} is too large for a whole number")
        node = self._member_of(self._primary())
        if len(operators) % 2:
            node = Call(None, f"{operators[0]}_", (node,))
        return node

    def _member_of(self, node: Node) -> Node:
        length = 0
        while operator := self._take(".", "[", "{"):
            length += 1
            if length > _MOST_IN_A_ROW:
                raise CompileError(f"more than {_MOST_IN_A_ROW} fields or calls in a row")
            if operator == "[":
                optional = bool(self._take("?"))
                node = Index(node, self.expression(), optional)
                self._expect("]")
            elif operator == "{":
                node = Entries(self._entries(fields=True), self._path(node))
            else:
                node = self._field_of(node)
        return node

    def _field_of(self, node: Node) -> Node:
        optional = bool(self._take("?"))
        token = self._next()
        if token.kind != "name":
            self._at -= 1
            raise self._problem("expected a name")
        if optional or not self._take("("):
            return Select(node, token.value, optional)
        return Call(node, token.value, self._arguments())

    def _path(self, node: Node) -> str:
        if isinstance(node, Name):
            return node.name
        if isinstance(node, Select) and not node.optional:
            return f"{self._path(node.operand)}.{node.field}"
        raise self._problem("expected an operator")

    def _primary(self) -> Node:
        token = self._next()
        if token.kind == "literal":
            return Literal(token.value)
        if token.kind == "name" and token.value != "in":
            if token.value in ("true", "false", "null"):
                return Literal({"true": True, "false": False, "null": None}[token.value])
            if self._take("("):
                return Call(None, token.value, self._arguments())
            if token.value in _RESERVED:
                raise CompileError(f"{token.value} is a reserved word")
            return Name(token.value)
        if token.kind == "operator" and token.value == "(":
            node = self.expression()
            self._expect(")")
            return node
        if token.kind == "operator" and token.value == "[":
            return Items(self._items())
        if token.kind == "operator" and token.value == "{":
            return Entries(self._entries(fields=False))
        self._at -= 1
        raise self._problem("expected a value")

    def _arguments(self) -> tuple[Node, ...]:
        arguments: list[Node] = []
        while not self._take(")"):
            if arguments:
                self._expect(",")
            arguments.append(self.expression())
        return tuple(arguments)

    def _items(self) -> tuple[tuple[Node, bool], ...]:
        items: list[tuple[Node, bool]] = []
        while not self._take("]"):
            optional = bool(self._take("?"))
            items.append((self.expression(), optional))
            if not self._take(","):
                self._expect("]")
                break
        return tuple(items)

    def _entries(self, *, fields: bool) -> tuple[tuple[Node, Node, bool], ...]:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._take("}"):
            optional = bool(self._take("?"))
            key = self._field_name() if fields else self.expression()
            self._expect(":")
            entries.append((key, self.expression(), optional))
            if not self._take(","):
                self._expect("}")
                break
        return tuple(entries)

    def _field_name(self) -> Node:
        token = self._next()
        if token.kind != "name":
            self._at -= 1
            raise self._problem("expected the name of a field")
        return Literal(token.value)
