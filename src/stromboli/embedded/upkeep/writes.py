"""How the controllers in this package write: like any client, but without HTTP."""

from __future__ import annotations

from typing import Any, Final

from stromboli.embedded.kinds import Object
from stromboli.embedded.server import ApiServer
from stromboli.embedded.server.options import DeleteOptions, WriteOptions
from stromboli.embedded.server.routing import Route
from stromboli.embedded.status import StatusError
from stromboli.embedded.store import ObjectKey, Record

_OPTIONS: Final = WriteOptions(manager="stromboli-apiserver", dry_run=False, validation="Ignore")


class Writes:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def create(self, resource: str, namespace: str, body: Object, now: float) -> Record | None:
        """None if it was refused: the namespace may be going, the template may be impossible."""
        type = self._server.catalog.by_resource(resource)
        assert type is not None
        route = Route(type, namespace)
        try:
            value, _ = self._server.writer.read(type, body, _OPTIONS)
            return self._server.writer.create(route, value, _OPTIONS, now).record
        except StatusError:
            return None

    def update(self, record: Record, value: Object, now: float, *, subresource: str = "") -> None:
        type = self._server.catalog.by_resource(record.key.resource)
        if type is None:
            return
        route = Route(type, record.key.namespace, record.key.name, subresource)
        try:
            self._server.writer.update(route, record, value, _OPTIONS, now)
        except StatusError:
            return  # a conflict or a rule; the next pass sees the object as it is

    def set_status(self, record: Record, status: dict[str, Any], now: float) -> None:
        value = record.value()
        if value.get("status") != status:
            self.update(record, {**value, "status": status}, now, subresource="status")

    def delete(self, key: ObjectKey, now: float, *, uid: str = "", propagation: str = "Background") -> None:
        record = self._server.store.get(key)
        type = self._server.catalog.by_resource(key.resource)
        if record is None or type is None:
            return
        try:
            self._server.deleter.delete(type, record, DeleteOptions(uid=uid, propagation=propagation), now)
        except StatusError:
            return
