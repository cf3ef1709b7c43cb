"""How the controllers in this package write: like any client, but without HTTP."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Final

from stromboli.api.timestamps import format_timestamp
from stromboli.embedded.admission import CONTROLLERS
from stromboli.embedded.kinds import Object
from stromboli.embedded.server import ApiServer
from stromboli.embedded.server.options import DeleteOptions, WriteOptions
from stromboli.embedded.server.routes import Route
from stromboli.embedded.status import StatusError
from stromboli.embedded.store import ObjectKey, Record

_OPTIONS: Final = WriteOptions(manager="stromboli-apiserver", dry_run=False, validation="Ignore", user=CONTROLLERS)


class Writes:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def create_for(self, owner: Record, resource: str, body: Object, now: float) -> Record | None:
        """None if it was refused: the namespace may be going, the template may be impossible. An event says so."""
        try:
            return self._create(resource, owner.key.namespace, body, now)
        except StatusError as error:
            self.report(owner, "FailedCreate", f"Error creating: {error.message}", now)
            return None

    def _create(self, resource: str, namespace: str, body: Object, now: float) -> Record | None:
        type = self._server.catalog.by_resource(resource)
        assert type is not None
        value, _ = self._server.writer.read(type, body, _OPTIONS)
        return self._server.writer.create(Route(type, namespace), value, _OPTIONS, now).record

    def report(self, owner: Record, reason: str, message: str, now: float, *, warning: bool = True) -> None:
        """An event about an owner. There is one for each owner and reason, with the last message: the names in it
        differ."""
        value, stamp = owner.value(), format_timestamp(int(now))
        about = owner.metadata.uid if reason == "FailedCreate" else f"{owner.metadata.uid} {reason}"
        digest = hashlib.blake2b(about.encode(), digest_size=8).hexdigest()
        key = ObjectKey("events", owner.key.namespace, f"{owner.key.name[:200]}.{digest}")
        known = self._server.store.get(key)
        if known is not None:
            event = known.value()
            changes = {"count": event.get("count", 1) + 1, "lastTimestamp": stamp, "message": message[:1024]}
            self.update(known, event | changes, now)
            return
        subject = {
            "apiVersion": value["apiVersion"],
            "kind": value["kind"],
            "name": owner.key.name,
            "namespace": owner.key.namespace,
            "uid": owner.metadata.uid,
        }
        event = {
            "metadata": {"name": key.name},
            "involvedObject": subject,
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": _OPTIONS.manager},
        }
        with contextlib.suppress(StatusError):  # a namespace that is going takes no events
            self._create("events", owner.key.namespace, event, now)

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
            self._server.deleter.delete(
                type, record, DeleteOptions(uid=uid, propagation=propagation, user=CONTROLLERS), now
            )
        except StatusError:
            return
