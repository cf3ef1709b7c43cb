"""Amounts with thousandths of a byte.

`memory: 400m` is valid: it is 0.4 bytes, and counts as one byte. Nobody means that; `400Mi` is meant, and the pod is
placed as if it needed no memory at all. Kubernetes warns about it in pods, and we wherever somebody writes an amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stromboli.api.kinds import KObject
from stromboli.api.kinds.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from stromboli.api.kinds.batch import Job, PodGroup, Queue, Reservation
from stromboli.api.kinds.core import Node, ResourceQuota
from stromboli.api.kinds.jobs import BatchJob
from stromboli.api.kinds.pods import Pod, PodSpec
from stromboli.api.kinds.storage import PersistentVolume, PersistentVolumeClaim
from stromboli.api.quantity import QuantityError, is_fraction_of_a_byte

Amounts = tuple[str, Mapping[str, Any]]
"""The path of a list of resources, and the list."""


def fractional_bytes_message(obj: KObject) -> str:
    """The warning about such amounts; "" if there are none."""
    return fractional_bytes_in(_amounts(obj))


def fractional_bytes_in(lists: Iterable[Amounts]) -> str:
    found = [
        f"{f'{path}.{resource}' if path else resource} is {text}"
        for path, amounts in lists
        for resource, text in amounts.items()
        if _is_fraction(resource, text)
    ]
    if not found:
        return ""
    return f"Less than a whole byte: {', '.join(found)}. The unit m means thousandths; did you mean Mi?"


def _is_fraction(resource: str, text: Any) -> bool:
    try:
        return is_fraction_of_a_byte(resource, text)
    except QuantityError:  # parts that we do not read may hold anything
        return False


def _amounts(obj: KObject) -> Iterator[Amounts]:
    for at, spec in _pod_specs(obj):
        yield from _of_pod(at, spec)
    match obj:
        case Job():
            for index, volume in enumerate(obj.spec.volumes):
                yield from _of_claim(f"spec.volumes[{index}].volumeClaim", volume.volume_claim)
        case PodGroup():
            yield "spec.minResources", obj.spec.min_resources
        case Queue():
            yield "spec.capability", obj.spec.capability
            yield "spec.deserved", obj.spec.deserved
            yield "spec.guarantee.resource", obj.spec.guarantee.resource
        case Node():
            yield "status.allocatable", obj.status.allocatable
            yield "status.capacity", obj.status.capacity
        case ResourceQuota():
            yield "spec.hard", obj.spec.hard
        case PersistentVolumeClaim():
            yield "spec.resources.requests", obj.spec.resources.requests
            yield "spec.resources.limits", obj.spec.resources.limits
        case PersistentVolume():
            yield "spec.capacity", obj.spec.capacity
        case _:
            pass


def _of_pod(at: str, spec: PodSpec) -> Iterator[Amounts]:
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            yield f"{at}.{kind}[{index}].resources.requests", container.resources.requests
            yield f"{at}.{kind}[{index}].resources.limits", container.resources.limits
    if spec.resources is not None:
        yield f"{at}.resources.requests", spec.resources.requests
        yield f"{at}.resources.limits", spec.resources.limits
    yield f"{at}.overhead", spec.overhead
    for index, volume in enumerate(spec.volumes):
        template = _mapping(_mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
        yield from _of_claim(f"{at}.volumes[{index}].ephemeral.volumeClaimTemplate.spec", template.get("spec"))


def _of_claim(at: str, claim: Any) -> Iterator[Amounts]:
    """Of a claim that is written inside another object."""
    resources = _mapping(_mapping(claim).get("resources"))
    for part in ("requests", "limits"):
        yield f"{at}.resources.{part}", _mapping(resources.get(part))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _pod_specs(obj: KObject) -> Iterator[tuple[str, PodSpec]]:
    match obj:
        case Pod():
            yield "spec", obj.spec
        case Job():
            for index, task in enumerate(obj.spec.tasks):
                yield f"spec.tasks[{index}].template.spec", task.template.spec
        case ReplicaSet() | StatefulSet() | Deployment() | DaemonSet() | BatchJob():
            yield "spec.template.spec", obj.spec.template.spec
        case Reservation() if obj.spec.template is not None:
            yield "spec.template.spec", obj.spec.template.spec
