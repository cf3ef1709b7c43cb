"""Objects as the client wants them: as they are, as rows of a table, or reduced to their metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.embedded.kinds import ResourceType
from stromboli.embedded.status import bad_request
from stromboli.embedded.store import Record

from .content import Accepted, negotiate
from .messages import Request

SHAPES: Final = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


class Renderer:
    """Renders objects of one type for one request."""

    def __init__(self, type: ResourceType, request: Request, now: float) -> None:
        """Raises a StatusError if the client accepts nothing that we can make."""
        self.type = type
        self.now = now
        self._accepted: Accepted = negotiate(request.headers.get("accept", ""), SHAPES)
        self._include = _include(request.query)
        self._headers_sent = False

    @property
    def shape(self) -> str:
        return self._accepted.shape

    def data(self, record: Record) -> bytes:
        """The object itself, in the version of the request."""
        if self.type.version == self.type.storage_version:
            return record.data
        return msgspec.json.encode({**record.value(), "apiVersion": self.type.api_version})

    def one(self, record: Record) -> bytes:
        if not self.shape:
            return self.data(record)
        value = record.value()
        if self.shape == "Table":
            return msgspec.json.encode(self._table([value], {"resourceVersion": str(record.version)}))
        return msgspec.json.encode(self._partial(value))

    def event_object(self, record: Record) -> bytes:
        """As `one`; but in a watch only the first table has its columns described."""
        if self.shape != "Table":
            return self.one(record)
        table = self._table([record.value()], {"resourceVersion": str(record.version)})
        if self._headers_sent:
            table["columnDefinitions"] = None
        self._headers_sent = True
        return msgspec.json.encode(table)

    def bookmark(self, version: int, annotations: Mapping[str, str]) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = dict(annotations)
        api_version, kind = self.type.api_version, self.type.kind
        if self.shape == "Table":
            api_version, kind = f"meta.k8s.io/{self._accepted.version}", "Table"
            metadata = {"resourceVersion": str(version)}
        elif self.shape:
            api_version, kind = f"meta.k8s.io/{self._accepted.version}", "PartialObjectMetadata"
        return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})

    def many(self, records: Sequence[Record], metadata: dict[str, Any]) -> bytes:
        if self.shape == "Table":
            return msgspec.json.encode(self._table([record.value() for record in records], metadata))
        if self.shape:
            items = [self._partial(record.value()) for record in records]
            api_version = f"meta.k8s.io/{self._accepted.version}"
            written = {"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": metadata}
            return msgspec.json.encode(written | {"items": items})
        head = msgspec.json.encode(
            {"kind": self.type.list_kind, "apiVersion": self.type.api_version, "metadata": metadata}
        )
        return b"".join((head[:-1], b',"items":[', b",".join(self.data(record) for record in records), b"]}"))

    def _partial(self, value: dict[str, Any]) -> dict[str, Any]:
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{self._accepted.version}",
            "metadata": value["metadata"],
        }

    def _table(self, values: list[dict[str, Any]], metadata: dict[str, Any]) -> dict[str, Any]:
        columns = self.type.strategy.columns
        rows = []
        for value in values:
            row: dict[str, Any] = {"cells": [column.cell(value, self.now) for column in columns]}
            if self._include == "Object":
                row["object"] = value
            elif self._include == "Metadata":
                row["object"] = self._partial(value)
            rows.append(row)
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self._accepted.version}",
            "metadata": metadata,
            "columnDefinitions": [column.header() for column in columns],
            "rows": rows,
        }


def _include(query: Mapping[str, str]) -> str:
    include = query.get("includeObject", "") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise bad_request(f"unrecognized includeObject value: {include[:50]!r}")
    return include
