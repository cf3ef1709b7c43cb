"""What is special about a kind. The server does for all kinds what all have in common; the rest is a strategy.

The hooks run in this order: `default`, then `before_create` or `before_update`, then `validate` and, on an update,
`validate_update`. Objects are plain dictionaries that belong to the request, and hooks change them in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from stromboli.embedded import names
from stromboli.embedded.schema import FieldError, Schema
from stromboli.embedded.store import Record, Store

from . import durations

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """What a hook may look at besides its object."""

    store: Store
    random: Random
    now: float
    scheduler_name: str = ""  # of the scheduler that places pods which name none; "": leave them alone


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that `kubectl get` shows."""

    name: str
    cell: Callable[[Object, float], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0: shown with -o wide only

    def header(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def dig(obj: Any, *path: str, default: Any = None) -> Any:
    for step in path:
        if not isinstance(obj, dict) or obj.get(step) is None:
            return default
        obj = obj[step]
    return obj


def _name(obj: Object, now: float) -> str:
    return str(dig(obj, "metadata", "name", default=""))


def age(obj: Object, now: float) -> str:
    return durations.since(dig(obj, "metadata", "creationTimestamp"), now)


NAME: Final = Column("Name", _name, format="name", description="Name of the object.")
AGE: Final = Column("Age", age, description="Time since the creation of the object.")


class Strategy:
    """A kind without peculiarities."""

    name_rule: names.NameRule = staticmethod(names.subdomain)
    counts_generations = True
    """Whether metadata.generation counts the changes of the spec."""
    create_on_update = False
    returns_deleted = False
    """Whether a deletion answers with the object; otherwise it answers with a Status."""
    default_propagation = "Background"
    """What becomes of dependents if a deletion does not say."""
    selectable: Mapping[str, tuple[str, ...]] = {}
    """Fields that a field selector may name, besides the name and the namespace."""
    columns: tuple[Column, ...] = (NAME, AGE)

    def default(self, obj: Object) -> None:
        pass

    def before_create(self, obj: Object, context: Context) -> None:
        pass

    def before_update(self, obj: Object, old: Object, context: Context) -> None:
        pass

    def validate(self, obj: Object) -> list[FieldError]:
        return []

    def is_judged_again(self, obj: Object, old: Object) -> bool:
        """Whether a change is one of what `validate` looks at."""
        return True

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return []

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return []

    def may_delete(self, record: Record, context: Context) -> None:
        """Raise a StatusError to keep the object."""

    def grace_seconds(self, obj: Object, requested: int | None) -> int | None:
        """How long the object stays after a deletion; None for kinds that go at once."""
        return None

    def before_graceful_deletion(self, obj: Object) -> None:
        """Called when a deletion begins and the object stays for now."""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the fields of a Scale are in an object."""

    spec: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class ResourceType:
    """A kind in one version, with the paths it is served under."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    schema: Schema
    strategy: Strategy = field(default_factory=Strategy)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    has_status: bool = False
    scale: ScalePaths | None = None
    is_custom: bool = False
    storage_version: str = ""
    warning: str = ""  # for users of a deprecated version

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.storage_version = self.storage_version or self.version

    @property
    def resource(self) -> str:
        """The plural with its group, as in messages and keys: "pods", "jobs.batch"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_api_version(self) -> str:
        return f"{self.group}/{self.storage_version}" if self.group else self.storage_version
