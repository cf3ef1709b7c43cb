"""Requests of thousandths of a byte.

`memory: 400m` is valid: it is 0.4 bytes, and counts as one byte. Nobody means that; `400Mi` is meant, and the pod is
placed as if it needed no memory at all. Kubernetes warns about it, and so do we.
"""

from __future__ import annotations

from collections.abc import Iterator

from stromboli.api.kinds import KObject
from stromboli.api.kinds.batch import Job, Reservation
from stromboli.api.kinds.core import ReplicaSet, StatefulSet
from stromboli.api.kinds.pods import Pod, PodSpec
from stromboli.api.quantity import is_fraction_of_a_byte


def fractional_bytes_message(obj: KObject) -> str:
    """The warning about such requests; "" if there are none."""
    found = [f"{path} is {text}" for path, text in _fractions(obj)]
    if not found:
        return ""
    return f"Less than a whole byte: {', '.join(found)}. The unit m means thousandths; did you mean Mi?"


def _fractions(obj: KObject) -> Iterator[tuple[str, str]]:
    for at, spec in _pod_specs(obj):
        for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
            for index, container in enumerate(containers):
                resources = container.resources
                for part, amounts in (("requests", resources.requests), ("limits", resources.limits)):
                    for resource, text in amounts.items():
                        if is_fraction_of_a_byte(resource, text):
                            yield f"{at}.{kind}[{index}].resources.{part}.{resource}", str(text)


def _pod_specs(obj: KObject) -> Iterator[tuple[str, PodSpec]]:
    match obj:
        case Pod():
            yield "spec", obj.spec
        case Job():
            for index, task in enumerate(obj.spec.tasks):
                yield f"spec.tasks[{index}].template.spec", task.template.spec
        case ReplicaSet() | StatefulSet():
            yield "spec.template.spec", obj.spec.template.spec
        case Reservation() if obj.spec.template is not None:
            yield "spec.template.spec", obj.spec.template.spec
