"""What the server knows about the fields of a kind. One form for built-in and custom kinds.

Everything that looks into objects goes by it: pruning, defaults, validation, strategic merge, field ownership, and the
OpenAPI documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .rules import Rule

Json = Any
MISSING: Final = object()
"""The default of a field that has none: null may be a default."""


@dataclass(slots=True, eq=False)
class Schema:
    """The rules for one value. `type` is a JSON type, or one of ours:

    any        everything, with everything below it
    intstr     a whole number or a string
    quantity   a number with a unit, such as 500m
    time       a timestamp in whole seconds; microtime: in microseconds; bytes: base64
    """

    type: str = "any"
    name: str = ""  # of the type, for built-in kinds
    description: str = ""
    properties: dict[str, Schema] = field(default_factory=dict)
    values: Schema | None = None  # of a map with any keys
    items: Schema | None = None
    required: tuple[str, ...] = ()
    default: Json = MISSING
    nullable: bool = False
    enum: tuple[Json, ...] = ()
    open: bool = False  # keeps fields that it does not name
    atomic: bool = False  # has one owner as a whole
    keys: tuple[str, ...] = ()  # of the items of a list that is merged by key
    is_set: bool = False
    is_embedded: bool = False  # a whole object, with apiVersion, kind and metadata
    number: tuple[int, ...] = ()  # of the field in protobuf; several if it is inside embedded messages
    facets: Mapping[str, Json] = field(default_factory=dict)  # minimum, pattern and so on, as in OpenAPI
    rules: tuple[Rule, ...] = ()  # that values must follow beside all this
    rules_below: bool | None = None  # whether it, or anything inside, has rules; found out when it is needed
    seen_as_it_is: bool | None = None  # whether rules see values as JSON has them; likewise
    defaults_below: bool | None = None  # whether anything inside has a default; found out when it is needed

    def child(self, name: str) -> Schema | None:
        """The schema of a field, or None if there is none."""
        found = self.properties.get(name)
        return found if found is not None else self.values

    @property
    def is_map(self) -> bool:
        return self.type == "object"

    @property
    def is_merged_list(self) -> bool:
        """Whether its items have owners of their own."""
        return self.type == "array" and bool(self.keys or self.is_set) and not self.atomic


ANY: Final = Schema()
