"""What a scenario says about time, in the annotations `sim.stromboli.io/*`.

An object says when its user creates and deletes it; a pod, or the template pods are made from, says how long
it runs, how it ends and how long it takes to go (api/timing.py reads that). The first two are the scenario's own
business and are taken off the object. The others stay on the pod: a template's pods inherit them, and a patch may
change them, like any annotation.

Misplaced or misspelt ones are errors. An annotation that nobody reads would otherwise just not happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from stromboli.api import ApiError, Job, KObject, Pod, PodTemplateSpec, ReplicaSet, names
from stromboli.api.pod_timing import annotated_duration, pod_timing
from stromboli.simulation.virtual_time import START, Moment, moment

PREFIX: Final = "sim.stromboli.io/"
_OF_OBJECTS: Final = (names.SIM_AT, names.SIM_UNTIL)
_OF_PODS: Final = (names.SIM_RUN, names.SIM_EXIT_CODE, names.SIM_GRACE)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When its user creates an object, and when they delete it."""

    at: Moment = START
    until: Moment | None = None

    def overlaps(self, other: Lifetime) -> bool:
        return (other.until is None or self.at < other.until) and (self.until is None or other.at < self.until)

    def covers(self, at: Moment) -> bool:
        return self.at <= at and (self.until is None or at < self.until)


def take_lifetime(obj: KObject) -> tuple[KObject, Lifetime]:
    """The object without the scenario's annotations, and what they say; everything about time is checked."""
    annotations = obj.metadata.annotations
    field = "metadata.annotations"
    of_pods = _OF_PODS if isinstance(obj, Pod) else ()
    _refuse_others(annotations, (*_OF_OBJECTS, *of_pods), field, what=obj.kind)
    if isinstance(obj, Pod):
        pod_timing(annotations)
    for path, template in templates(obj):
        inside = f"{path}.metadata.annotations"
        _refuse_others(template.metadata.annotations, _OF_PODS, inside, what="pod template")
        pod_timing(template.metadata.annotations, field=inside)
    if not any(name in annotations for name in _OF_OBJECTS):
        return obj, Lifetime()
    at = moment(annotated_duration(annotations, names.SIM_AT, field=field) or 0)
    stated = annotated_duration(annotations, names.SIM_UNTIL, field=field)
    until = None if stated is None else moment(stated)
    if until is not None and until <= at:
        raise ApiError(f"{field}[{names.SIM_UNTIL}]", "must be later than the object's creation")
    kept = {name: value for name, value in annotations.items() if name not in _OF_OBJECTS}
    bare = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=kept))
    return bare, Lifetime(at, until)


def templates(obj: KObject) -> Iterator[tuple[str, PodTemplateSpec]]:
    """The templates pods are made from, each with the field where it stands."""
    match obj:
        case ReplicaSet():
            yield "spec.template", obj.spec.template
        case Job():
            for index, task in enumerate(obj.spec.tasks):
                yield f"spec.tasks[{index}].template", task.template
        case _:
            pass


def _refuse_others(annotations: Mapping[str, str], known: tuple[str, ...], field: str, *, what: str) -> None:
    for name in sorted(annotations):
        if name.startswith(PREFIX) and name not in known:
            listed = ", ".join(known) or "none"
            raise ApiError(f"{field}[{name}]", f"is no annotation for a {what}; known there: {listed}")
