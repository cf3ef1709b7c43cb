"""Kinds that this server mostly just stores."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from stromboli.embedded import names
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import invalid

from . import durations
from .strategy import AGE, NAME, Column, Context, Object, Strategy, dig


def _size(*fields: str) -> Any:
    return lambda obj, now: sum(len(obj.get(field) or {}) for field in fields)


def _text(*path: str) -> Any:
    return lambda obj, now: str(dig(obj, *path, default=""))


class ConfigMapStrategy(Strategy):
    counts_generations = False
    columns = (NAME, Column("Data", _size("data", "binaryData")), AGE)

    def validate(self, obj: Object) -> list[FieldError]:
        return _key_errors(obj, "data") + _key_errors(obj, "binaryData")

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return _immutable_errors(obj, old, ("data", "binaryData"))


class SecretStrategy(Strategy):
    counts_generations = False
    selectable: Mapping[str, tuple[str, ...]] = {"type": ("type",)}
    columns = (NAME, Column("Type", _text("type")), Column("Data", _size("data")), AGE)

    def default(self, obj: Object) -> None:
        plain = obj.pop("stringData", None)
        if plain:
            data = obj.setdefault("data", {})
            data |= {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}

    def validate(self, obj: Object) -> list[FieldError]:
        return _key_errors(obj, "data")

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        errors = _immutable_errors(obj, old, ("data",))
        if obj.get("type") != old.get("type"):
            errors.append(invalid("type", obj.get("type"), "field is immutable"))
        return errors


def _key_errors(obj: Object, field: str) -> list[FieldError]:
    problem = (
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME', "
        " or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    )
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    return [
        invalid(f"{field}[{key}]", key, problem)
        for key in obj.get(field) or {}
        if not key or len(key) > 253 or not set(key) <= allowed or key in (".", "..")
    ]


def _immutable_errors(obj: Object, old: Object, fields: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    changed = [field for field in (*fields, "immutable") if obj.get(field) != old.get(field)]
    return [
        FieldError("FieldValueForbidden", field, "Forbidden: field is immutable when `immutable` is set")
        for field in changed
    ]


class EventStrategy(Strategy):
    counts_generations = False
    create_on_update = True
    selectable: Mapping[str, tuple[str, ...]] = {
        "involvedObject.kind": ("involvedObject", "kind"),
        "involvedObject.namespace": ("involvedObject", "namespace"),
        "involvedObject.name": ("involvedObject", "name"),
        "involvedObject.uid": ("involvedObject", "uid"),
        "involvedObject.apiVersion": ("involvedObject", "apiVersion"),
        "involvedObject.resourceVersion": ("involvedObject", "resourceVersion"),
        "involvedObject.fieldPath": ("involvedObject", "fieldPath"),
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "source": ("source", "component"),
        "type": ("type",),
    }

    @staticmethod
    def _last_seen(event: Object, now: float) -> str:
        seen = event.get("lastTimestamp") or event.get("firstTimestamp") or event.get("eventTime")
        return durations.since(seen, now)

    @staticmethod
    def _object(event: Object, now: float) -> str:
        about = event.get("involvedObject") or {}
        return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"

    columns = (
        Column("Last Seen", lambda obj, now: EventStrategy._last_seen(obj, now)),
        Column("Type", _text("type")),
        Column("Reason", _text("reason")),
        Column("Object", lambda obj, now: EventStrategy._object(obj, now)),
        Column("Subobject", _text("involvedObject", "fieldPath"), priority=1),
        Column("Source", _text("source", "component"), priority=1),
        Column("Message", _text("message")),
        Column("First Seen", lambda obj, now: durations.since(obj.get("firstTimestamp"), now), priority=1),
        Column("Count", lambda obj, now: obj.get("count", 1), type="string", priority=1),
        Column("Name", _text("metadata", "name"), format="name", priority=1),
    )

    def validate(self, obj: Object) -> list[FieldError]:
        about = dig(obj, "involvedObject", "namespace", default="")
        namespace = obj["metadata"].get("namespace", "")
        if about != namespace and not (about == "" and namespace == "default"):
            return [invalid("involvedObject.namespace", about, "does not match event.namespace")]
        return []


class ServiceStrategy(Strategy):
    name_rule = staticmethod(names.label)
    counts_generations = False
    columns = (
        NAME,
        Column("Type", _text("spec", "type")),
        Column("Cluster-IP", lambda obj, now: dig(obj, "spec", "clusterIP", default="<none>")),
        Column("External-IP", lambda obj, now: ",".join(dig(obj, "spec", "externalIPs", default=[])) or "<none>"),
        Column("Port(s)", lambda obj, now: ServiceStrategy._ports(obj)),
        AGE,
    )

    @staticmethod
    def _ports(service: Object) -> str:
        ports = dig(service, "spec", "ports", default=[])
        return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"

    def default(self, obj: Object) -> None:
        for port in dig(obj, "spec", "ports", default=[]):
            port.setdefault("targetPort", port.get("port"))

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {"loadBalancer": {}}
        spec = obj.setdefault("spec", {})
        if not spec.get("clusterIP") and spec.get("type") != "ExternalName":
            # Nothing listens there: any address that is always the same will do.
            first, second = hashlib.blake2b(obj["metadata"]["uid"].encode(), digest_size=2).digest()
            spec["clusterIP"] = f"10.96.{first}.{second}"
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]

    def before_update(self, obj: Object, old: Object, context: Context) -> None:
        obj["status"] = old.get("status", {})
        for field in ("clusterIP", "clusterIPs"):
            if not dig(obj, "spec", field) and dig(old, "spec", field):
                obj.setdefault("spec", {})[field] = old["spec"][field]

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        before, after = dig(old, "spec", "clusterIP"), dig(obj, "spec", "clusterIP")
        if before and before != after and dig(obj, "spec", "type") != "ExternalName":
            return [invalid("spec.clusterIP", after, "field is immutable")]
        return []


class QuotaStrategy(Strategy):
    counts_generations = False
    returns_deleted = True

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {}


class ServiceAccountStrategy(Strategy):
    counts_generations = False
    returns_deleted = True
    columns = (NAME, Column("Secrets", _size("secrets")), AGE)


class ClaimStrategy(Strategy):
    counts_generations = False
    returns_deleted = True
    columns = (
        NAME,
        Column("Status", _text("status", "phase")),
        Column("Volume", _text("spec", "volumeName")),
        Column("StorageClass", _text("spec", "storageClassName")),
        AGE,
    )

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {"phase": "Pending"}


class StorageClassStrategy(Strategy):
    counts_generations = False
    columns = (
        NAME,
        Column("Provisioner", _text("provisioner")),
        Column("ReclaimPolicy", _text("reclaimPolicy")),
        Column("VolumeBindingMode", _text("volumeBindingMode")),
        AGE,
    )


class PlainStrategy(Strategy):
    counts_generations = False


class RoleStrategy(PlainStrategy):
    name_rule = staticmethod(names.path_segment)
