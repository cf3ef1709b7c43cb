"""The words of an expression: names, numbers, strings and operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from .values import LARGEST_INT, CompileError

LONGEST: Final = 100_000  # characters of an expression, as in Kubernetes

_QUOTED: Final = r"""'{3}(?:[^\\]|\\.)*?'{3}|"{3}(?:[^\\]|\\.)*?"{3}|'(?:[^\\'\n\r]|\\.)*'|"(?:[^\\"\n\r]|\\.)*\""""
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>[ \t\n\r\f]+|//[^\n]*)
  | (?P<string>(?:[rR]?[bB]?|[bB][rR])(?:{_QUOTED}))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<int>0[xX][0-9a-fA-F]+|[0-9]+)(?P<unsigned>[uU]?)
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<operator>&&|\|\||==|!=|<=|>=|[<>+\-*/%!?:.,()\[\]{{}}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<o>[0-3][0-7]{2})|(?P<c>.))",
    re.DOTALL,
)
_PLAIN: Final = {
    **{"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"},
    **{character: character for character in "\\?\"'`"},
}


class Token(NamedTuple):
    kind: str
    """literal, name, operator or end"""
    value: Any
    at: int


def tokens(text: str) -> Iterator[Token]:
    """Raises CompileError. The last one is the end."""
    if len(text) > LONGEST:
        raise CompileError(f"the expression has {len(text)} characters, and may have {LONGEST}")
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise CompileError(f"syntax error at character {at + 1}: {text[at : at + 20]!r}")
        kind = found.lastgroup
        if kind == "string":
            yield Token("literal", _string(found["string"]), at)
        elif found["float"]:
            yield Token("literal", float(found["float"]), at)
        elif found["int"]:
            yield Token("literal", _whole(found), at)
        elif kind != "space":
            yield Token(str(kind), found[0], at)
        at = found.end()
    yield Token("end", "", at)


def _whole(found: re.Match[str]) -> int:
    if found["unsigned"]:
        raise CompileError(f"{found[0]}: unsigned numbers are not supported")
    number = int(found["int"], 16 if found["int"][:2] in ("0x", "0X") else 10) if len(found["int"]) < 30 else 2**64
    # One more than the largest: behind a minus it is the smallest.
    if number > LARGEST_INT + 1:
        raise CompileError(f"{found['int'][:40]} is too large for a whole number")
    return number


def _string(written: str) -> str | bytes:
    prefix = written[: len(written) - len(written.lstrip("rRbB"))].lower()
    rest = written[len(prefix) :]
    quotes = 3 if rest[:3] in ("'''", '"""') and len(rest) >= 6 else 1
    inner = rest[quotes:-quotes]
    if "b" not in prefix:
        return inner if "r" in prefix else _ESCAPE.sub(_unescaped, inner)
    if "r" in prefix:
        return inner.encode()
    parts, at = [], 0
    for found in _ESCAPE.finditer(inner):
        number = found["x"] or found["o"]
        parts.append(inner[at : found.start()].encode())
        parts.append(bytes([int(number, 16 if found["x"] else 8)]) if number else _unescaped(found).encode())
        at = found.end()
    return b"".join([*parts, inner[at:].encode()])


def _unescaped(found: re.Match[str]) -> str:
    number = found["x"] or found["u"] or found["U"]
    if number or found["o"]:
        code = int(number, 16) if number else int(found["o"], 8)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise CompileError(f"{found[0]} is no character")
        return chr(code)
    plain = _PLAIN.get(found["c"] or "")
    if plain is None:
        raise CompileError(f"{found[0]} is no escape sequence")
    return plain
