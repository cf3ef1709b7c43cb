"""What a pod asks of a node: one amount per resource for all its containers together.

A pod's containers run side by side, so their requests add up. Its init containers run before them, one after
the other, so of those only the largest counts. A sidecar (an init container that is restarted for ever)
starts in its turn and then stays: it stands beside every init container after it, and beside the main
containers.

             time ─────────────────────────────────────────▶
    sidecar s      ███████████████████████████████████████████
    init a         ▒▒▒▒▒                                          needs s + a
    init b              ▒▒▒▒▒▒                                    needs s + b
    main x, y                 ████████████████████████████████   needs s + x + y

The pod needs the largest of these moments, and its overhead on top. Requests written for the pod as a whole
replace what the containers add up to, resource by resource.

A limit without a request is a request, as the API server would have it: a container that may use at most one
core and says nothing else has asked for one core.
"""

from __future__ import annotations

from stromboli.api.kinds.pods import Container, PodSpec, ResourceRequirements

from .quantity import amounts


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """The effective request of a pod, without zeros and without the pod's own place among a node's `pods`."""
    if len(spec.containers) == 1 and not spec.init_containers:
        total = container_requests(spec.containers[0])
    else:
        total = _largest_moment(spec)
    if spec.resources is not None:
        total.update(_pod_level(spec.resources, counted=total))
    if spec.overhead:
        _add(total, amounts(spec.overhead))
    return {resource: value for resource, value in total.items() if value}


def container_requests(container: Container) -> dict[str, int]:
    resources = container.resources
    if not resources.limits:
        return amounts(resources.requests)
    return amounts({**resources.limits, **resources.requests})


def is_sidecar(init_container: Container) -> bool:
    return init_container.restart_policy == "Always"


def _largest_moment(spec: PodSpec) -> dict[str, int]:
    started: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        asked = container_requests(container)
        if is_sidecar(container):
            _add(started, asked)
            moment = started
        else:
            moment = dict(started)
            _add(moment, asked)
        _raise_to(peak, moment)
    running = dict(started)
    for container in spec.containers:
        _add(running, container_requests(container))
    _raise_to(running, peak)
    return running


def _pod_level(resources: ResourceRequirements, *, counted: dict[str, int]) -> dict[str, int]:
    """The pod's own word. Its limits speak only of what no container has asked for."""
    stated = amounts(resources.requests)
    for resource, limit in amounts(resources.limits).items():
        if resource not in stated and resource not in counted:
            stated[resource] = limit
    return stated


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def _raise_to(total: dict[str, int], least: dict[str, int]) -> None:
    for resource, value in least.items():
        if value > total.get(resource, 0):
            total[resource] = value
