"""Rules over amounts: what one resource list states is within what another states, for the resources in both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from stromboli.api.kinds.metadata import ResourceList
from stromboli.api.quantity import Written, amount

from .rule import Door, Rule, text

QUANTITY: Final = r"^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
"""The pattern of an amount that is not negative, as it stands between quotes in CEL."""


def within(
    on: type[Struct],
    smaller: tuple[str, Callable[[Any], ResourceList]],
    larger: tuple[str, Callable[[Any], ResourceList]],
    what: str,
) -> Rule:
    """Each list: its path below the struct, and how to read it. `what` the larger one is, for the sentence."""
    (field, few), (limit, most) = smaller, larger

    def broken(struct: Any) -> str:
        low, high = few(struct), most(struct)
        wrong = [name for name in low if name in high and amount(name, low[name]) > amount(name, high[name])]
        if not wrong:
            return ""
        name = min(wrong)
        return f"{name} must be at most {what}, which is {_said(high[name])}, not {_said(low[name])}"

    here, there = f"self.{field}", f"self.{limit}"
    missing = " || ".join(f"!has({path})" for path in (*_steps(here), *_steps(there)))
    exceeds = f"r in {there} && {quantity(f'{here}[r]')}.compareTo({quantity(f'{there}[r]')}) > 0"
    wrong = f"{here}.filter(r, {exceeds})"
    return Rule(
        on=on,
        field=field,
        must=f"must be at most {what}, for each resource",
        broken=broken,
        cel=f"{missing} || !{here}.exists(r, {exceeds})",
        says=f"{wrong}.map(r, r + ' must be at most {what}, which is ' + {text(f'{there}[r]')} + ', not ' + "
        f"{text(f'{here}[r]')}).min()",
        door=Door.POLICY,
    )


def quantity(value: str) -> str:
    """An amount in CEL, which people write as text or as a number."""
    return f"quantity(string({value}))"


def _said(value: Written) -> str:
    return str(value)


def _steps(path: str) -> list[str]:
    """`self.a.b` as `self.a` and `self.a.b`: each may be missing."""
    names = path.split(".")
    return [".".join(names[:end]) for end in range(2, len(names) + 1)]
