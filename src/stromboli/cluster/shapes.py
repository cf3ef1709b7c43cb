"""Shapes: pods with the same scheduling requirements are filtered and scored once.

Most pods of a batch cluster are copies: fifty thousand pods may have fifty different sets of requests, selectors,
tolerations and so on. Pods with equal ones share a shape, and filters and scores run per shape instead of per pod. A
shape lives as long as some pod has it.
"""

from __future__ import annotations

from weakref import WeakSet, WeakValueDictionary

import msgspec

from stromboli.api import Pod, PodSpec
from stromboli.api.pod_requests import is_sidecar, pod_requests
from stromboli.api.validation.limits import MAX_REQUEST, check_requests

from .model import Shape
from .resources import PODS, ResourceAxis

_encode = msgspec.json.Encoder(order="deterministic").encode


class ShapeRegistry:
    def __init__(self, axis: ResourceAxis) -> None:
        self.axis = axis
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self.with_pod_terms: WeakSet[Shape] = WeakSet()
        self._next_id = 0

    def widen(self) -> None:
        """Pad all requests to the width of the axis."""
        for shape in list(self._shapes.values()):
            shape.request = self.axis.pad(shape.request)

    def forget_stale(self) -> frozenset[int]:
        """Columns came or went. Forget the shapes that request one of them; returns their ids. What has such a shape
        must get a new one, as results are kept by shape."""
        index, known = self.axis.index, set(self.axis.index.values())
        gone = [column for column in range(len(self.axis)) if column not in known]
        stale = {
            key: shape.id
            for key, shape in self._shapes.items()
            if shape.request[gone].any() or any(name in index for name, _ in shape.unoffered)
        }
        for key in stale:
            del self._shapes[key]
        return frozenset(stale.values())

    def of(self, pod: Pod) -> Shape:
        spec = pod.spec
        requests = pod_requests(spec)
        # An ordinary init container ends before the others start; a sidecar keeps its ports like the main containers.
        long_running = [*spec.containers, *(c for c in spec.init_containers if is_sidecar(c))]
        ports = [
            port
            for container in long_running
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
            spec.host_network, images,
        ))  # fmt: skip
        shape = self._shapes.get(key)
        if shape is None:
            requests = self._within_limits(requests, waits=not spec.node_name)
            vector = self.axis.vector(requests)
            best_effort = not vector.any()
            vector[PODS] = 1
            unoffered = self.axis.unoffered(requests)
            shape = Shape(self._next_id, vector, best_effort, pod, has_pod_terms, bool(ports), unoffered)
            self._next_id += 1
            self._shapes[key] = shape
            if has_pod_terms:
                self.with_pod_terms.add(shape)
        return shape

    def _within_limits(self, requests: dict[str, int], *, waits: bool) -> dict[str, int]:
        """Raises an ApiError about a request above the limit. A pod that has a node is counted with the limit: its user
        may have written the node into it, and sums must not wrap around."""
        if waits:
            check_requests(requests, "spec.containers")
        return {name: max(0, min(amount, MAX_REQUEST)) for name, amount in requests.items()}


def is_same_shape(spec: PodSpec, known: PodSpec) -> bool:
    """Whether two specs have the same shape because they share the parts that it depends on. Most updates of a pod keep
    its spec, and a bind changes only the node."""
    return spec is known or (
        spec.containers is known.containers
        and spec.init_containers is known.init_containers
        and spec.resources is known.resources
        and spec.overhead is known.overhead
        and spec.node_selector is known.node_selector
        and spec.affinity is known.affinity
        and spec.tolerations is known.tolerations
        and spec.topology_spread_constraints is known.topology_spread_constraints
        and spec.host_network == known.host_network
    )
