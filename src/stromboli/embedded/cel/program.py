"""An expression, ready to be evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from .compiler import Compiler
from .syntax import fields_of, names_in, parse, size_of
from .values import Budget, CelError, CompileError

_LONGEST_KEPT: Final = 5_000  # characters: a compiled expression has two hundred bytes for each
MOST_STEPS: Final = 1_000_000
"""Of one evaluation: less than a second."""


class Program:
    """`uses` says which of its variables an expression names."""

    __slots__ = ("_code", "_size", "_steps", "_tree", "_variables", "text", "uses")

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        """Raises CompileError."""
        self.text = text
        try:
            tree = parse(text)
            compiler = Compiler(variables)
            self._code = compiler.code(tree)
            self._steps = size_of(tree)
            self.uses = frozenset(names_in(tree)) & frozenset(variables)
            self._tree = tree
        except RecursionError:
            raise CompileError("the expression is nested too deeply") from None
        self._size = compiler.size
        self._variables = variables

    def fields_of(self, variable: str) -> frozenset[str]:
        """The fields of a variable that the expression names."""
        return frozenset(fields_of(self._tree, variable))

    def value(self, variables: Mapping[str, Any], budget: Budget) -> Any:
        """Raises CelError if there is none, and OverBudget."""
        frame: list[Any] = [budget, *[variables.get(name) for name in self._variables]]
        frame.extend([None] * (self._size - len(frame)))
        own = Budget(min(MOST_STEPS, budget.left))
        frame[0] = own
        before = own.left
        try:
            own.take(self._steps)
            return self._code(frame)
        except RecursionError:
            raise CelError("the expression is nested too deeply") from None
        finally:
            budget.left -= before - own.left


def compiled(text: str, variables: tuple[str, ...]) -> Program:
    """Raises CompileError."""
    if len(text) > _LONGEST_KEPT:
        return Program(text, variables)
    return _kept(text, variables)


_kept: Final = lru_cache(maxsize=512)(Program)
