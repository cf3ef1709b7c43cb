"""A stored object: its key, its version, and its JSON.

The JSON is made once, when the object is written. Reads, lists and all watches send the same bytes. Whoever wants to
change an object decodes it and gets a copy of its own, which is cheaper than copying dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec


class StorageError(Exception):
    """A change could not be stored, for example because the disk is full; `str()` says where and why."""


class ObjectKey(NamedTuple):
    resource: str  # with its group: "pods", "jobs.batch"
    namespace: str  # "" if the kind is cluster-scoped
    name: str


class Owner(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """The metadata that the server itself looks at."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Owner, ...] = ()


class _Envelope(msgspec.Struct):
    metadata: Metadata = Metadata()


_envelope = msgspec.json.Decoder(_Envelope)
_object = msgspec.json.Decoder(dict[str, Any])


class Record:
    """Immutable, though nothing enforces it."""

    __slots__ = ("data", "key", "metadata", "version")

    def __init__(self, key: ObjectKey, version: int, data: bytes) -> None:
        self.key = key
        self.version = version
        self.data = data
        self.metadata = _envelope.decode(data).metadata

    def value(self) -> dict[str, Any]:
        """A copy of the object, for the caller to change."""
        return _object.decode(self.data)


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Change(NamedTuple):
    """One commit. The record of a deletion is the last state of the object, with the version of the deletion."""

    type: ChangeType
    record: Record
    before: Record | None

    @property
    def version(self) -> int:
        return self.record.version
