"""Whether the documents of a scenario make sense together.

Each document is valid by itself when it comes here. What is left are the rules between documents: one object
of a name at a time, names that lead somewhere, and patches, which are tried out here in the order of time so
that no run can be stopped by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from stromboli.api import ApiError, Job, KObject, Node, Pod, PodGroup, PriorityClass, Queue, ReplicaSet, key, names
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amounts, format_amount
from stromboli.simulation.virtual_time import START

from .built_in_objects import SYSTEM_CLASSES, default_queue
from .file import Arrival, PatchOrder, Scenario
from .lifetimes import templates
from .patches import patch_order, patched

_Place = tuple[type[KObject], str]


def check_scenario(scenario: Scenario) -> None:
    """Raise UserError unless the scenario can be run."""
    by_place: dict[_Place, list[Arrival]] = defaultdict(list)
    for arrival in scenario.arrivals:
        by_place[type(arrival.object), key(arrival.object)].append(arrival)
    for arrivals in by_place.values():
        _check_one_at_a_time(arrivals)
    _check_default_queue(by_place.get((Queue, names.DEFAULT_QUEUE), []))
    _check_names(scenario)
    _check_sums(scenario)
    _check_patches(scenario, by_place)


_MOST: Final = 1 << 60
"""What all nodes together may offer of a resource, and all pods ask for: amounts are added up in 64 bits."""


def _check_sums(scenario: Scenario) -> None:
    offered: dict[str, int] = defaultdict(int)
    asked: dict[str, int] = defaultdict(int)
    for arrival in scenario.arrivals:
        match arrival.object:
            case Node() as node:
                field, sums, parts = "status.allocatable", offered, [(1, amounts(node.status.allocatable))]
            case Pod() as pod:
                field, sums, parts = "spec.containers", asked, [(1, pod_requests(pod.spec))]
            case ReplicaSet() as replicas:
                count = replicas.spec.replicas
                field, sums, parts = "spec.template", asked, [(count, pod_requests(replicas.spec.template.spec))]
            case Job() as job:
                field, sums = "spec.tasks", asked
                parts = [(task.replicas, pod_requests(task.template.spec)) for task in job.spec.tasks]
            case _:
                continue
        for count, each in parts:
            for resource, amount in each.items():
                sums[resource] += count * amount
                if sums[resource] > _MOST:
                    most = format_amount(resource, _MOST)
                    raise arrival.fault(field, f"brings the sum of {resource} above {most}, more than can be added up")


def _check_one_at_a_time(arrivals: list[Arrival]) -> None:
    arrivals.sort(key=lambda arrival: arrival.lifetime.at)
    for earlier, later in pairwise(arrivals):
        if earlier.lifetime.overlaps(later.lifetime):
            first = earlier.origin
            raise later.fault(
                "metadata.name",
                f"is taken at that time by {first.file}, document {first.number} (same kind and name)",
            )


def _check_default_queue(arrivals: list[Arrival]) -> None:
    for arrival in arrivals:
        if arrival.lifetime.at != START:
            raise arrival.fault(
                f"metadata.annotations[{names.SIM_AT}]", "must be 0s: this queue is always there; use a Patch"
            )
        if arrival.lifetime.until is not None:
            raise arrival.fault(
                f"metadata.annotations[{names.SIM_UNTIL}]", "must not be given: this queue is always there"
            )


def _check_names(scenario: Scenario) -> None:
    classes = set(SYSTEM_CLASSES)
    nodes: set[str] = set()
    for arrival in scenario.arrivals:
        match arrival.object:
            case PriorityClass():
                classes.add(arrival.object.metadata.name)
            case Node():
                nodes.add(arrival.object.metadata.name)
            case _:
                pass
    for arrival in scenario.arrivals:
        for field, name in priority_classes(arrival.object):
            if name not in classes:
                raise arrival.fault(field, f'there is no PriorityClass "{name}" in the scenario')
        if isinstance(arrival.object, Pod):
            node = arrival.object.spec.node_name
            if node and node not in nodes:
                raise arrival.fault("spec.nodeName", f'there is no Node "{node}" in the scenario')


def priority_classes(obj: KObject) -> Iterator[tuple[str, str]]:
    """The priority classes an object names, each with the field where it does."""
    match obj:
        case Pod() | PodGroup() | Job():
            if obj.spec.priority_class_name:
                yield "spec.priorityClassName", obj.spec.priority_class_name
        case _:
            pass
    for path, template in templates(obj):
        if template.spec.priority_class_name:
            yield f"{path}.spec.priorityClassName", template.spec.priority_class_name


def _check_patches(scenario: Scenario, by_place: dict[_Place, list[Arrival]]) -> None:
    """Try every patch on the object as it will be then, as far as users' own words go."""
    states: dict[tuple[_Place, int], KObject] = {}
    makers = _makers(scenario)
    for patch in sorted(scenario.patches, key=patch_order):
        place = (patch.kind, patch.key)
        arrivals = by_place.get(place, [])
        number = next((n for n, arrival in enumerate(arrivals) if arrival.lifetime.covers(patch.at)), None)
        if number is None:
            if place == (Queue, names.DEFAULT_QUEUE) and not arrivals:
                states.setdefault((place, 0), default_queue())
                number = 0
            elif _may_be_made(patch, makers):
                continue
            else:
                raise patch.fault("target", "there is no such object at that time")
        current = states.get((place, number)) or arrivals[number].object
        try:
            states[place, number] = patched(current, patch)
        except ApiError as error:
            inside = f"patch.{error.field}" if error.field else "patch"
            raise patch.fault(inside, error.message) from None


def _makers(scenario: Scenario) -> list[KObject]:
    return [a.object for a in scenario.arrivals if isinstance(a.object, Job | ReplicaSet | Pod)]


def _may_be_made(patch: PatchOrder, makers: list[KObject]) -> bool:
    """Whether a controller may have made the object by then: pods are named after their owner, groups after
    their Job, or after a uid that a scenario cannot know."""
    namespace, _, name = patch.key.partition("/")
    for maker in makers:
        if maker.metadata.namespace != namespace:
            continue
        owned = name.startswith(f"{maker.metadata.name}-")
        if patch.kind is Pod and owned and not isinstance(maker, Pod):
            return True
        if patch.kind is PodGroup and (name.startswith("podgroup-") or (owned and isinstance(maker, Job))):
            return True
    return False
