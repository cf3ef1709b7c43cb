"""The functions of expressions. What is not here is refused by name when an expression is compiled.

operators    arithmetic, comparisons, in
conversions  from one type to another, size
strings, formats, lists, times, quantities, optionals
"""

from typing import Final

from . import conversions, lists, operators, optionals, quantities, strings, times
from .function import Function, Functions

FUNCTIONS: Final[Functions] = (
    operators.FUNCTIONS
    | conversions.FUNCTIONS
    | times.FUNCTIONS
    | quantities.FUNCTIONS
    | optionals.FUNCTIONS
    | lists.FUNCTIONS
    | strings.FUNCTIONS
)
NAMESPACES: Final = frozenset(name.partition(".")[0] for name, _ in FUNCTIONS if "." in name)

__all__ = ["FUNCTIONS", "NAMESPACES", "Function"]
