"""The scenario annotations `sim.stromboli.io/*` of an object.

An object states when its user creates and deletes it. A pod or a pod template states how long it runs, its exit code,
and how long its deletion takes (see api/pod_timing.py). A storage class states how its volumes are made (see
api/volumes/provisioning.py). The first two concern only the scenario and are removed from the object. The others stay:
pods inherit them from their template, and a patch may change them like any annotation.

Misplaced or misspelt annotations are errors. If they were ignored, their event would just not happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from stromboli.api import (
    ApiError,
    BatchCronJob,
    BatchJob,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    JobTemplate,
    KObject,
    Pod,
    PodTemplateSpec,
    ReplicaSet,
    StatefulSet,
    StorageClass,
    names,
)
from stromboli.api.pod_timing import annotated_duration, pod_timing, pod_use
from stromboli.simulation.virtual_time import START, Microseconds, microseconds

PREFIX: Final = "sim.stromboli.io/"
_OF_OBJECTS: Final = (names.SIM_AT, names.SIM_UNTIL)
_OF_CLASSES: Final = (names.SIM_PROVISION, names.SIM_PROVISION_FAILS)
_OF_PODS: Final = (names.SIM_RUN, names.SIM_EXIT_CODE, names.SIM_GRACE, names.SIM_USAGE)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a user creates an object, and when they delete it."""

    at: Microseconds = START
    until: Microseconds | None = None

    def overlaps(self, other: Lifetime) -> bool:
        return (other.until is None or self.at < other.until) and (self.until is None or other.at < self.until)

    def covers(self, at: Microseconds) -> bool:
        return self.at <= at and (self.until is None or at < self.until)


def extract_lifetime(obj: KObject) -> tuple[KObject, Lifetime]:
    """The object without its scenario annotations, and its lifetime. All annotations about time are validated."""
    annotations = obj.metadata.annotations
    field = "metadata.annotations"
    own = _OF_PODS if isinstance(obj, Pod) else _OF_CLASSES if isinstance(obj, StorageClass) else ()
    _reject_unknown(annotations, (*_OF_OBJECTS, *own), field, what=obj.kind)
    if isinstance(obj, Pod):
        pod_timing(annotations)
        pod_use(annotations, field=field)
    for path, template in templates(obj):
        inside = f"{path}.metadata.annotations"
        _reject_unknown(template.metadata.annotations, _OF_PODS, inside, what="pod template")
        pod_timing(template.metadata.annotations, field=inside)
        pod_use(template.metadata.annotations, field=inside)
    if not any(name in annotations for name in _OF_OBJECTS):
        return obj, Lifetime()
    at = microseconds(annotated_duration(annotations, names.SIM_AT, field=field) or 0)
    stated = annotated_duration(annotations, names.SIM_UNTIL, field=field)
    until = None if stated is None else microseconds(stated)
    if until is not None and until <= at:
        raise ApiError(f"{field}[{names.SIM_UNTIL}]", "must be later than the object's creation")
    kept = {name: value for name, value in annotations.items() if name not in _OF_OBJECTS}
    bare = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=kept))
    return bare, Lifetime(at, until)


def templates(obj: KObject) -> Iterator[tuple[str, PodTemplateSpec]]:
    """The pod templates of an object, each with the path of its field."""
    match obj:
        case ReplicaSet() | StatefulSet() | Deployment() | DaemonSet() | BatchJob():
            yield "spec.template", obj.spec.template
        case BatchCronJob():
            yield "spec.jobTemplate.spec.template", obj.spec.job_template.spec.template
        case Job():
            for index, task in enumerate(obj.spec.tasks):
                yield f"spec.tasks[{index}].template", task.template
        case CronJob():
            for index, task in enumerate(obj.spec.job_template.spec.tasks):
                yield f"spec.jobTemplate.spec.tasks[{index}].template", task.template
        case JobTemplate():
            for index, task in enumerate(obj.spec.tasks):
                yield f"spec.tasks[{index}].template", task.template
        case _:
            pass


def _reject_unknown(annotations: Mapping[str, str], known: tuple[str, ...], field: str, *, what: str) -> None:
    for name in sorted(annotations):
        if name.startswith(PREFIX) and name not in known:
            listed = ", ".join(known) or "none"
            raise ApiError(f"{field}[{name}]", f"is not an annotation of a {what}; known: {listed}")
