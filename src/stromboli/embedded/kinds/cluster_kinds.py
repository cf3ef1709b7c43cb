"""Nodes, namespaces, priority classes, leases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stromboli.embedded import names
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import invalid
from stromboli.embedded.status import forbidden as refused
from stromboli.embedded.store import Record

from .strategy import AGE, NAME, Column, Context, Object, Strategy, dig

PERMANENT_NAMESPACES: Final = ("default", "kube-system", "kube-public")
NAMESPACE_FINALIZER: Final = "kubernetes"
_HIGHEST_PRIORITY: Final = 1_000_000_000


def _node_status(node: Object, now: float) -> str:
    ready = [one for one in dig(node, "status", "conditions", default=[]) if one.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[0].get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if dig(node, "spec", "unschedulable") else word


def _roles(node: Object, now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = dig(node, "metadata", "labels", default={})
    return ",".join(sorted(name.removeprefix(prefix) for name in labels if name.startswith(prefix))) or "<none>"


def _address(kind: str) -> Any:
    def cell(node: Object, now: float) -> str:
        found = [one["address"] for one in dig(node, "status", "addresses", default=[]) if one.get("type") == kind]
        return str(found[0]) if found else "<none>"

    return cell


def _info(field: str) -> Any:
    return lambda node, now: dig(node, "status", "nodeInfo", field, default="<unknown>")


class NodeStrategy(Strategy):
    counts_generations = False
    selectable: Mapping[str, tuple[str, ...]] = {"spec.unschedulable": ("spec", "unschedulable")}
    columns = (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _roles),
        AGE,
        Column("Version", _info("kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), priority=1),
        Column("External-IP", _address("ExternalIP"), priority=1),
        Column("OS-Image", _info("osImage"), priority=1),
        Column("Kernel-Version", _info("kernelVersion"), priority=1),
        Column("Container-Runtime", _info("containerRuntimeVersion"), priority=1),
    )


class NamespaceStrategy(Strategy):
    name_rule = staticmethod(names.label)
    counts_generations = False
    selectable: Mapping[str, tuple[str, ...]] = {"status.phase": ("status", "phase")}
    columns = (NAME, Column("Status", lambda obj, now: dig(obj, "status", "phase", default="")), AGE)

    def default(self, obj: Object) -> None:
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", name)

    def before_create(self, obj: Object, context: Context) -> None:
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(NAMESPACE_FINALIZER)
        obj["status"] = {"phase": "Active"}

    def before_update(self, obj: Object, old: Object, context: Context) -> None:
        obj["spec"] = {**obj.get("spec", {}), "finalizers": dig(old, "spec", "finalizers", default=[])}
        obj["status"] = old.get("status", {})

    def may_delete(self, record: Record, context: Context) -> None:
        if record.key.name in PERMANENT_NAMESPACES:
            raise refused("namespaces", record.key.name, "this namespace may not be deleted")

    def before_graceful_deletion(self, obj: Object) -> None:
        obj.setdefault("status", {})["phase"] = "Terminating"


class PriorityClassStrategy(Strategy):
    columns = (
        NAME,
        Column("Value", lambda obj, now: obj.get("value", 0), type="integer"),
        Column("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), type="boolean"),
        AGE,
        Column("PreemptionPolicy", lambda obj, now: obj.get("preemptionPolicy", ""), priority=1),
    )

    def default(self, obj: Object) -> None:
        if "value" not in obj:
            obj["value"] = 0

    def validate(self, obj: Object) -> list[FieldError]:
        if obj["value"] > _HIGHEST_PRIORITY and not obj["metadata"].get("name", "").startswith("system-"):
            return [
                FieldError(
                    "FieldValueForbidden",
                    "value",
                    f"Forbidden: maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}",
                )
            ]
        return []

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        errors = []
        for field in ("value", "preemptionPolicy"):
            if obj.get(field) != old.get(field):
                problem = "may not be changed in an update." if field == "value" else "field is immutable"
                errors.append(FieldError("FieldValueForbidden", field, f"Forbidden: {problem}"))
        return errors


class LeaseStrategy(Strategy):
    counts_generations = False
    create_on_update = True
    columns = (NAME, Column("Holder", lambda obj, now: dig(obj, "spec", "holderIdentity", default="")), AGE)

    def validate(self, obj: Object) -> list[FieldError]:
        seconds = dig(obj, "spec", "leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            return [invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")]
        return []
