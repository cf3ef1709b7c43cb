"""One rule: what must hold, in Python and in CEL, and the sentence for whoever broke it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from msgspec import Struct

Version = tuple[int, int]

DEFINITIONS: Final[Version] = (1, 25)
"""The first Kubernetes version whose servers evaluate rules of definitions."""
POLICIES: Final[Version] = (1, 30)
"""The first version that evaluates ValidatingAdmissionPolicies, and messages that name values."""
MUTATIONS: Final[Version] = (1, 36)
"""The first version that evaluates MutatingAdmissionPolicies of v1."""


class Door(Enum):
    """Who refuses an object that breaks the rule before it is stored."""

    DEFINITION = "definition"
    """A rule of the CustomResourceDefinition. Servers compute beforehand what it may cost, and see no annotations."""
    POLICY = "policy"
    """A ValidatingAdmissionPolicy: annotations, kinds of Kubernetes, and what definitions may not cost."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What must hold for each struct `on`, wherever it is in an object, except in pod templates.

    `broken` and `cel` mean the same: the first returns the sentence for a struct that breaks the rule, and "" for
    others; the second is false for it. `says` is the sentence in CEL, with its values; definitions may not cost as
    much, and say `must`, which has none. So where there are policies, these have the rules with `says`. A rule of
    updates compares with the struct at the same place before: the second argument of `broken`, `oldSelf` in CEL.
    """

    on: type[Struct]
    field: str
    """The field that the refusal names, below the struct; "" is the struct itself."""
    must: str
    broken: Callable[..., str]
    cel: str
    says: str = ""
    door: Door = Door.DEFINITION
    on_update: bool = False
    is_costly: bool = False
    """Too much for one expression over all items of an object, as policies have it: the definition, which is evaluated
    item by item, keeps the rule."""

    @property
    def message(self) -> str:
        """The sentence where no values can be named."""
        return f"{self.field} {self.must}".strip()

    def door_on(self, server: Version) -> Door | None:
        """Who refuses on that version of Kubernetes. None: only the controllers do."""
        if server >= POLICIES and self.says and not self.is_costly:
            return Door.POLICY
        return self.door if server >= (DEFINITIONS if self.door is Door.DEFINITION else POLICIES) else None

    def sentence(self, *structs: Any) -> str:
        """What is wrong with a struct, or with its change; "" if nothing is."""
        return self.broken(*structs)


def unless(holds: bool, sentence: str) -> str:
    return "" if holds else sentence


def given(path: str) -> str:
    """In CEL: the field is there, and is not empty text."""
    # `namespace` is a reserved word in CEL.
    path = path.replace(".namespace", ".__namespace__")
    return f"(has({path}) && {path} != '')"


def text(value: str) -> str:
    """A value as a string of CEL."""
    return f"string({value})"
