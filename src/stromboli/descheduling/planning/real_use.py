"""What pods really use, as the metrics API or a scenario says.

A pod without a measurement is unknown, not idle: a node with such a pod is judged neither too full nor empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stromboli.api import Pod
from stromboli.api.pod_requests import pod_requests
from stromboli.api.pod_timing import pod_use

Amounts = Mapping[str, int]
RealUse = Callable[[Pod], Amounts | None]
"""The real use of a running pod, exact amounts by resource; None if it is not known."""


def requested(pod: Pod) -> Amounts:
    """Without measurements: what the pod requests."""
    return pod_requests(pod.spec)


def use_annotation(pod: Pod) -> Amounts:
    """What a pod of a scenario uses: the annotation `sim.stromboli.io/usage`, or what it requests."""
    use = pod_use(pod.metadata.annotations)
    return pod_requests(pod.spec) if use is None else use
