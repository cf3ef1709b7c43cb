"""How functions are declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stromboli.embedded.cel.syntax import Node
from stromboli.embedded.cel.values import no_such_overload

Body = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Function:
    """`body` takes the budget and the arguments, the first of which is what a member is called on."""

    body: Body
    counts: tuple[int, ...]
    """How many arguments there may be, without that."""
    check: Callable[[Sequence[Node]], None] | None = None
    """Looks at the arguments when an expression is compiled, and raises CompileError."""


Functions = dict[tuple[str, bool], Function]
"""By name, and whether it is called on something."""


def member(body: Body, *counts: int) -> Function:
    return Function(body, counts or (0,))


def want(kind: type | tuple[type, ...], *values: Any) -> None:
    """Raises CelError for values of other types. A bool is no int here."""
    for value in values:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise no_such_overload(*values)
