"""The effective requests of a pod: one amount per resource for all its containers together.

A pod's containers run side by side, so their requests add up. Its init containers run before them, one after the other,
so only the largest of them counts. A sidecar (an init container with restartPolicy Always) starts in its turn and keeps
running: its requests add to every later init container and to the main containers.

             time ─────────────────────────────────────────▶
    sidecar s      ███████████████████████████████████████████
    init a         ▒▒▒▒▒                                          needs s + a
    init b              ▒▒▒▒▒▒                                    needs s + b
    main x, y                 ████████████████████████████████   needs s + x + y

The pod requests the largest of these sums, plus its overhead. Requests of the pod as a whole replace the sum of the
containers, resource by resource.

A limit without a request is a request, as in the API server: a container with a limit of one core and no request
requests one core.
"""

from __future__ import annotations

from .kinds.pods import Container, PodSpec, ResourceRequirements
from .quantity import amounts


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """The effective requests of a pod, without zeros and without the one in the node's resource `pods`."""
    total = requests_of_containers(spec)
    if spec.resources is not None:
        total.update(_pod_level(spec.resources, counted=total))
    if spec.overhead:
        _add(total, amounts(spec.overhead))
    return {resource: value for resource, value in total.items() if value}


def requests_of_containers(spec: PodSpec) -> dict[str, int]:
    """What the containers of a pod request together, at the time when they need most."""
    if len(spec.containers) == 1 and not spec.init_containers:
        return container_requests(spec.containers[0])
    return _peak_requests(spec)


def container_requests(container: Container) -> dict[str, int]:
    resources = container.resources
    if not resources.limits:
        return amounts(resources.requests)
    return amounts({**resources.limits, **resources.requests})


def is_sidecar(init_container: Container) -> bool:
    return init_container.restart_policy == "Always"


def _peak_requests(spec: PodSpec) -> dict[str, int]:
    started: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        requests = container_requests(container)
        if is_sidecar(container):
            _add(started, requests)
            current = started
        else:
            current = dict(started)
            _add(current, requests)
        _raise_to(peak, current)
    running = dict(started)
    for container in spec.containers:
        _add(running, container_requests(container))
    _raise_to(running, peak)
    return running


def _pod_level(resources: ResourceRequirements, *, counted: dict[str, int]) -> dict[str, int]:
    """The requests of the pod as a whole. A limit counts only for resources that no container requests."""
    requests = amounts(resources.requests)
    for resource, limit in amounts(resources.limits).items():
        if resource not in requests and resource not in counted:
            requests[resource] = limit
    return requests


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def _raise_to(total: dict[str, int], minimum: dict[str, int]) -> None:
    for resource, value in minimum.items():
        if value > total.get(resource, 0):
            total[resource] = value
