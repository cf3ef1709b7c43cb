"""What a pod says about itself: its phase, and the reasons and exit codes of its containers."""

from __future__ import annotations

from collections.abc import Iterator

from stromboli.api import ContainerStatus, Pod
from stromboli.api.timestamps import parse_timestamp


def containers(pod: Pod, *, init: bool) -> list[ContainerStatus]:
    return [*pod.status.container_statuses, *(pod.status.init_container_statuses if init else ())]


def states(pod: Pod, *, init: bool) -> Iterator[str]:
    """The phase, and the reasons of the pod and of containers that wait or have ended."""
    yield pod.status.phase
    yield pod.status.reason
    for container in containers(pod, init=init):
        if container.state.waiting is not None:
            yield container.state.waiting.reason
        if container.state.terminated is not None:
            yield container.state.terminated.reason


def exit_codes(pod: Pod, *, init: bool) -> Iterator[int]:
    for container in containers(pod, init=init):
        if container.state.terminated is not None:
            yield container.state.terminated.exit_code


def restarts(pod: Pod, *, init: bool) -> int:
    return sum(container.restart_count for container in containers(pod, init=init))


def age(pod: Pod, now: float) -> float:
    """Seconds since it was created."""
    created = pod.metadata.creation_timestamp
    return 0.0 if created is None else now - parse_timestamp(created)
