"""The expression language of Kubernetes (CEL), compiled to Python functions.

Definitions and admission policies say in it what must hold. Values are what JSON has, so types are known when an
expression is evaluated, not before. What is not supported is refused by name when an expression is compiled.

values     what expressions work on: equality, order, and the budget that bounds an evaluation
tokens, syntax    from a text to a tree
fields     fields of values, and items
macros     all, exists, map and others
functions  everything that is called
compiler   from a tree to a function
program    an expression, ready to be evaluated
"""

from .fields import Lazy
from .functions.times import moment_of, span_of
from .program import MOST_STEPS, Program, compiled
from .values import NOTHING, Budget, CelError, CompileError, KeyedList, Maybe, OverBudget, SetList, Struct, equal

__all__ = [
    "MOST_STEPS",
    "NOTHING",
    "Budget",
    "CelError",
    "CompileError",
    "KeyedList",
    "Lazy",
    "Maybe",
    "OverBudget",
    "Program",
    "SetList",
    "Struct",
    "compiled",
    "equal",
    "moment_of",
    "span_of",
]
