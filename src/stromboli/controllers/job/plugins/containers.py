"""Additions to all containers of a pod, init containers included. They return a new pod, so that the template the pod
was built from stays unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stromboli.api import Container, Pod


def with_environment(pod: Pod, entries: Sequence[dict[str, Any]]) -> Pod:
    """The pod with these environment variables. A variable that the user has set keeps its value."""

    def add(container: Container) -> Container:
        existing = {entry.get("name") for entry in container.env}
        new = [entry for entry in entries if entry["name"] not in existing]
        changed: Container = replace(container, env=[*container.env, *new])
        return changed

    return _in_all_containers(pod, add)


def with_volume(pod: Pod, volume: dict[str, Any], path: str, *, sub_path: str = "") -> Pod:
    """The pod with the volume, mounted at `path` in all containers that have no mount of their own there."""
    mount = {"name": volume["name"], "mountPath": path} | ({"subPath": sub_path} if sub_path else {})

    def add(container: Container) -> Container:
        if any(present.get("mountPath") == path for present in container.volume_mounts):
            return container
        changed: Container = replace(container, volume_mounts=[*container.volume_mounts, mount])
        return changed

    volumes = pod.spec.volumes
    if all(present.get("name") != volume["name"] for present in volumes):
        volumes = [*volumes, volume]
    return _in_all_containers(replace(pod, spec=replace(pod.spec, volumes=volumes)), add)


def _in_all_containers(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    spec = replace(
        pod.spec,
        containers=[change(container) for container in pod.spec.containers],
        init_containers=[change(container) for container in pod.spec.init_containers],
    )
    changed: Pod = replace(pod, spec=spec)
    return changed
