"""metadata.managedFields: which writer owns which fields.

An entry belongs to a manager (a name that the client gives), an operation (Apply, or Update for everything else), an
API version and perhaps a subresource. A write by Update gives the manager what it changed and takes that from all
others. What Apply does is in server_side_apply.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from stromboli.embedded.schema import Schema

from .comparison import compare
from .field_sets import FieldSet, difference, fields_of, is_valid, union, without_below

# What the server sets itself belongs to nobody.
_UNOWNED: Final = ("apiVersion", "kind")
_UNOWNED_METADATA: Final = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
MOST_UPDATERS: Final = 10  # entries of Update; the oldest are joined beyond that, as in Kubernetes
_JOINED: Final = "ancient-changes"


@dataclass(frozen=True, slots=True)
class Manager:
    """Whose fields these are."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def same_writer(self, other: Manager) -> bool:
        """Of an applier the version does not matter: it has one set of fields."""
        if self.operation == "Apply" == other.operation:
            return (self.name, self.subresource) == (other.name, other.subresource)
        return self == other

    def __str__(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return text if self.operation == "Apply" else f"{text} using {self.api_version}"


@dataclass(frozen=True, slots=True)
class Entry:
    manager: Manager
    fields: FieldSet
    time: str | None


def read_entries(obj: dict[str, Any], *, trusted: bool = False) -> list[Entry] | None:
    """The entries of an object; None if they are not well-formed. Those in the store are `trusted`."""
    written = obj.get("metadata", {}).get("managedFields")
    if not written:
        return []
    if not isinstance(written, list):
        return None
    entries = []
    for one in written:
        if not isinstance(one, dict) or one.get("operation") not in ("Apply", "Update"):
            return None
        fields = one.get("fieldsV1", {})
        if one.get("fieldsType", "FieldsV1") != "FieldsV1" or not (trusted or is_valid(fields)):
            return None
        names = [one.get(field, "") for field in ("manager", "operation", "apiVersion", "subresource")]
        if not all(isinstance(name, str) for name in names):
            return None
        entries.append(Entry(Manager(*names), fields, one.get("time")))
    return entries


def write_entries(obj: dict[str, Any], entries: Iterable[Entry]) -> None:
    written = []
    for entry in entries:
        if not entry.fields:
            continue
        one: dict[str, Any] = {
            "manager": entry.manager.name,
            "operation": entry.manager.operation,
            "apiVersion": entry.manager.api_version,
        }
        if entry.time is not None:
            one["time"] = entry.time
        one |= {"fieldsType": "FieldsV1", "fieldsV1": entry.fields}
        if entry.manager.subresource:
            one["subresource"] = entry.manager.subresource
        written.append(one)
    if written:
        obj["metadata"]["managedFields"] = written
    else:
        obj["metadata"].pop("managedFields", None)


def owned_fields(obj: dict[str, Any], schema: Schema) -> FieldSet:
    """All fields of an object that can have an owner."""
    return fields_of(ownable(obj), schema)


def ownable(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without what belongs to nobody."""
    kept = {name: part for name, part in obj.items() if name not in _UNOWNED}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        rest = {name: part for name, part in metadata.items() if name not in _UNOWNED_METADATA}
        if rest:
            kept["metadata"] = rest
        else:
            del kept["metadata"]
    return kept


def record_update(
    before: dict[str, Any] | None, after: dict[str, Any], schema: Schema, manager: Manager, now: str
) -> None:
    """Note in `after` who changed what since `before`. What the client wrote into managedFields counts if it is
    well-formed: so tools can hand over fields."""
    entries = _base_entries(before, after)
    changed: FieldSet
    removed: FieldSet = {}
    if before is None:
        changed = owned_fields(after, schema)
    else:
        changed, removed = compare(ownable(before), ownable(after), schema)
    if not changed and not removed:
        write_entries(after, entries)
        return
    lost = union(changed, removed) if changed and removed else changed or removed
    kept: list[Entry] = []
    mine: FieldSet = {}
    for entry in entries:
        if entry.manager == manager:
            mine = entry.fields
            kept.append(entry)
            continue
        rest = difference(entry.fields, lost)
        if removed:
            rest = without_below(rest, removed)
        kept.append(entry if rest == entry.fields else replace(entry, fields=rest))
    if removed:
        mine = without_below(mine, removed)
    mine = union(mine, changed)
    updated = [Entry(manager, mine, now) if entry.manager == manager else entry for entry in kept]
    if all(entry.manager != manager for entry in kept):
        updated.append(Entry(manager, mine, now))
    write_entries(after, _joined([entry for entry in updated if entry.fields]))


def _base_entries(before: dict[str, Any] | None, after: dict[str, Any]) -> list[Entry]:
    written = after.get("metadata", {}).get("managedFields")
    if before is None:
        return []
    if written == [{}]:
        return []  # how a client asks to forget all owners
    stored = before.get("metadata", {}).get("managedFields")
    entries = read_entries(after) if written and written != stored else None
    if entries is None:
        entries = read_entries(before, trusted=True)
    return entries or []


def _joined(entries: list[Entry]) -> list[Entry]:
    updates = [entry for entry in entries if entry.manager.operation == "Update" and not entry.manager.subresource]
    surplus = len(updates) - MOST_UPDATERS
    if surplus <= 0:
        return entries
    oldest = sorted(updates, key=lambda entry: entry.time or "")[: surplus + 1]
    fields: FieldSet = {}
    for entry in oldest:
        fields = union(fields, entry.fields)
    joined = Entry(Manager(_JOINED, "Update", oldest[-1].manager.api_version), fields, oldest[-1].time)
    return [joined, *(entry for entry in entries if entry not in oldest)]
