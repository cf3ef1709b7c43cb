"""The objects of the store as controllers want them, and changes of controllers as the store wants them.

Controllers see typed objects, which hold the fields that are read. Templates of pods are the exception: they come with
everything that was written in them (`WrittenTemplate`), so that two that differ in anything are different, and pods
that are made from them have every field.
"""

from __future__ import annotations

import copy
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from stromboli.api import (
    BatchCronJob,
    BatchJob,
    ControllerRevision,
    DaemonSet,
    Deployment,
    KObject,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodTemplateSpec,
    ReplicaSet,
    StatefulSet,
    decode_json,
)
from stromboli.controllers.workloads import WrittenTemplate
from stromboli.controllers.written_fields import with_changes
from stromboli.embedded.kinds import Object
from stromboli.embedded.store import ObjectKey, Record, Store

T = TypeVar("T", bound=KObject)

RESOURCES: Final[dict[type[Any], str]] = {
    Pod: "pods",
    Node: "nodes",
    ReplicaSet: "replicasets.apps",
    Deployment: "deployments.apps",
    StatefulSet: "statefulsets.apps",
    DaemonSet: "daemonsets.apps",
    ControllerRevision: "controllerrevisions.apps",
    BatchJob: "jobs.batch",
    BatchCronJob: "cronjobs.batch",
    PersistentVolumeClaim: "persistentvolumeclaims",
    PodDisruptionBudget: "poddisruptionbudgets.policy",
}
_TEMPLATES: Final[dict[type[Any], tuple[str, ...]]] = {
    ReplicaSet: ("spec", "template"),
    Deployment: ("spec", "template"),
    StatefulSet: ("spec", "template"),
    DaemonSet: ("spec", "template"),
    ControllerRevision: ("data", "spec", "template"),
    BatchJob: ("spec", "template"),
    BatchCronJob: ("spec", "jobTemplate", "spec", "template"),
}
_ALWAYS_WRITTEN: Final[dict[type[Any], tuple[str, ...]]] = {
    ReplicaSet: ("replicas",),
    StatefulSet: ("replicas", "availableReplicas"),
    DaemonSet: ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
}
"""Numbers of a status that are written also if they are 0."""
_DIRECTIVE: Final = "$patch"
"""The data of a revision are a patch that takes its set back there: the template replaces the present one."""


class StoredObjects:
    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, kind: type[T], key: str) -> T | None:
        record = self.record(kind, key)
        return None if record is None else typed(record, kind)

    def list(self, kind: type[T], namespace: str = "") -> list[T]:
        return [typed(record, kind) for record in self._store.list(RESOURCES[kind], namespace)]

    def record(self, kind: type[Any], key: str) -> Record | None:
        namespace, _, name = key.rpartition("/")
        return self._store.get(ObjectKey(RESOURCES[kind], namespace, name))


def typed(record: Record, kind: type[T]) -> T:
    obj = decode_json(record.data, kind)
    path = _TEMPLATES.get(kind)
    return obj if path is None else _with_written(obj, path, record.value())


def _with_written(obj: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        written = {name: part for name, part in (value or {}).items() if name != _DIRECTIVE}
        return WrittenTemplate(**{name: getattr(obj, name) for name in ("metadata", "spec")}, written=written)
    name = path[0]
    attribute = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    inside = _with_written(getattr(obj, attribute), path[1:], (value or {}).get(name))
    return replace(obj, **{attribute: inside})


def whole(obj: KObject, source: PodTemplateSpec | None) -> Object:
    """What to create for an object that a controller made from a template: with every field of that."""
    body: dict[str, Any] = msgspec.to_builtins(obj)
    body.pop("status", None)
    if not isinstance(source, WrittenTemplate):
        return body
    written, read = copy.deepcopy(source.written), _without_written(msgspec.to_builtins(source))
    if isinstance(obj, Pod):
        body["spec"] = with_changes(written.get("spec") or {}, read.get("spec") or {}, body.get("spec") or {})
        return body
    *outer, last = _TEMPLATES[type(obj)]
    inside = body
    for name in outer:
        inside = inside[name]
    inside[last] = with_changes(written, read, _without_written(inside.get(last) or {}))
    if isinstance(obj, ControllerRevision):
        inside[last][_DIRECTIVE] = "replace"
    return body


def _without_written(template: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in template.items() if name != "written"}


def changed(record: Record, obj: KObject) -> tuple[Object, Object]:
    """A stored object with the changes of a controller, as a whole and its status."""
    value, before = record.value(), msgspec.to_builtins(typed(record, type(obj)))
    merged = with_changes(value, before, msgspec.to_builtins(obj))
    status = merged.pop("status", {})
    for name in _ALWAYS_WRITTEN.get(type(obj), ()):
        status.setdefault(name, 0)
    return merged, status
