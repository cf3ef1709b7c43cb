"""Shapes: pods that ask for the same thing are judged once.

Most pods of a batch cluster are copies: fifty thousand pods may have fifty different sets of requests, selectors,
tolerations and so on. Interning that part of the spec lets filters and scores run per shape instead of per pod.
A shape lives as long as some pod has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakValueDictionary

import msgspec

from stromboli.api import Pod
from stromboli.api.pod_requests import pod_requests

from .model import Shape
from .resources import PODS, ResourceAxis

_encode = msgspec.json.Encoder(order="deterministic").encode


class ShapeBook:
    def __init__(self, axis: ResourceAxis) -> None:
        self.axis = axis
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._next_id = 0

    def __iter__(self) -> Iterator[Shape]:
        return iter(list(self._shapes.values()))

    def of(self, pod: Pod) -> Shape:
        spec = pod.spec
        requests = pod_requests(spec)
        # An ordinary init container is done before the others start; one that stays holds its ports like the others.
        staying = [*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always")]
        ports = [
            port
            for container in staying
            for port in container.ports
            if port.host_port or (spec.host_network and port.container_port)
        ]
        affinity = spec.affinity
        has_pod_terms = bool(spec.topology_spread_constraints) or (
            affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
        )
        images = [container.image for container in spec.containers]
        key = _encode((
            requests, spec.node_selector, affinity, spec.tolerations, spec.topology_spread_constraints, ports,
            spec.volumes, spec.host_network, images,
        ))  # fmt: skip
        shape = self._shapes.get(key)
        if shape is None:
            vector = self.axis.vector(requests)
            best_effort = not vector.any()
            vector[PODS] = 1
            shape = Shape(self._next_id, vector, best_effort, pod, has_pod_terms, bool(ports))
            self._next_id += 1
            self._shapes[key] = shape
        return shape
