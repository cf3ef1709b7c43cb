"""What pods really use, as the metrics API or a scenario says.

A pod without a measurement is unknown, not idle: a node with such a pod is judged neither too full nor empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stromboli.api import Pod, names
from stromboli.api.errors import ApiError
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import QuantityError, amount

Amounts = Mapping[str, int]
RealUse = Callable[[Pod], Amounts | None]
"""The real use of a running pod, exact amounts by resource; None if it is not known."""


def requested(pod: Pod) -> Amounts:
    """Without measurements: what the pod requests."""
    return pod_requests(pod.spec)


def use_annotation(pod: Pod) -> Amounts:
    """What a pod of a scenario uses: the annotation `sim.stromboli.io/usage`, or what it requests."""
    text = pod.metadata.annotations.get(names.SIM_USAGE)
    return pod_requests(pod.spec) if text is None else parse_use(text)


def parse_use(text: str) -> dict[str, int]:
    """`cpu=500m,memory=1Gi` as exact amounts; raises ApiError."""
    found: dict[str, int] = {}
    for part in text.split(","):
        resource, equals, value = part.strip().partition("=")
        try:
            if not equals or not resource.strip():
                raise QuantityError(f'"{part.strip()}" must be like cpu=500m')
            found[resource.strip()] = amount(resource.strip(), value.strip())
        except QuantityError as error:
            raise ApiError(f"metadata.annotations[{names.SIM_USAGE}]", str(error)) from None
    return found
