"""`format`: %s, %d, %f, %b, %o, %x and %X. There is no %e."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from stromboli.embedded.cel.syntax import Items, Literal, Node
from stromboli.embedded.cel.values import (
    Budget,
    CelError,
    CompileError,
    Duration,
    Timestamp,
    TypeName,
    no_such_overload,
)

from .conversions import string
from .function import want

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.([0-9]{1,3}))?(.)|$)", re.DOTALL)
_KNOWN: Final = "sdfboxX"


def check_format(arguments: Sequence[Node]) -> None:
    target, given = arguments
    if not isinstance(target, Literal) or not isinstance(target.value, str):
        return
    clauses = [found[2] for found in _CLAUSE.finditer(target.value) if found[0] != "%%"]
    unknown = [one for one in clauses if one is None or one not in _KNOWN]
    if unknown:
        raise CompileError(f"format: this server does not know %{unknown[0] or ''}")
    if isinstance(given, Items) and len(given.items) != len(clauses):
        raise CompileError(f"format: {len(clauses)} clauses, and {len(given.items)} values")


def formatted(budget: Budget, text: Any, given: Any) -> str:
    want(str, text)
    want(list, given)
    budget.take(len(text) // 10)
    values = iter(given)

    def one(found: re.Match[str]) -> str:
        budget.take(1)
        if found[0] == "%%":
            return "%"
        kind = found[2] or ""
        clause = _CLAUSES.get(kind)
        if clause is None:
            raise CelError(f"could not parse formatting clause: unrecognized formatting clause {kind!r}")
        try:
            value = next(values)
        except StopIteration:
            raise CelError("index out of range: there are more clauses than values") from None
        written = clause(budget, value, int(found[1] or 6))
        budget.take(len(written) // 10)  # of what is in lists and maps, before that: it may be there many times
        return written

    return _CLAUSE.sub(one, text)


def _shown(budget: Budget, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, TypeName):
        return value.name
    if isinstance(value, list):
        budget.take(len(value))
        return f"[{', '.join(_nested(budget, item) for item in value)}]"
    if isinstance(value, dict):
        budget.take(len(value))
        pairs = sorted((_nested(budget, key), _nested(budget, part)) for key, part in value.items())
        return f"{{{', '.join(f'{key}:{part}' for key, part in pairs)}}}"
    return string(budget, value)


def _nested(budget: Budget, value: Any) -> str:
    if isinstance(value, str):
        budget.take(1 + len(value) // 10)
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return f"b{json.dumps(string(budget, value), ensure_ascii=False)}"
    if isinstance(value, Timestamp | Duration):
        return f"{'timestamp' if isinstance(value, Timestamp) else 'duration'}({json.dumps(string(budget, value))})"
    if isinstance(value, float):
        return f"{value:.6f}"
    return _shown(budget, value)


def _decimal(budget: Budget, value: Any, precision: int) -> str:
    want(int, value)
    return str(value)


def _fixed(budget: Budget, value: Any, precision: int) -> str:
    want(float, value)
    return f"{value:,.{precision}f}"


def _binary(budget: Budget, value: Any, precision: int) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    want(int, value)
    return f"{value:b}"


def _octal(budget: Budget, value: Any, precision: int) -> str:
    want(int, value)
    return f"{value:o}"


def _hexadecimal(budget: Budget, value: Any, precision: int) -> str:
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value).hex()
    if type(value) is int:
        return f"{value:x}"
    raise no_such_overload(value)


_CLAUSES: Final[dict[str, Callable[[Budget, Any, int], str]]] = {
    "s": lambda budget, value, precision: _shown(budget, value),
    "d": _decimal,
    "f": _fixed,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": lambda budget, value, precision: _hexadecimal(budget, value, precision).upper(),
}
