"""How to add something to all containers of a pod, init containers included, without touching the template it came
from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stromboli.api import Container, Pod


def with_environment(pod: Pod, entries: Sequence[dict[str, Any]]) -> Pod:
    """A variable that the user has set stays as it is: theirs is the later word."""

    def add(container: Container) -> Container:
        said = {entry.get("name") for entry in container.env}
        new = [entry for entry in entries if entry["name"] not in said]
        changed: Container = replace(container, env=[*container.env, *new])
        return changed

    return _in_all_containers(pod, add)


def with_volume(pod: Pod, volume: dict[str, Any], path: str, *, sub_path: str = "") -> Pod:
    """The volume, mounted at `path` in all containers, except where the user has mounted something of their own."""
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
    dressed: Pod = replace(pod, spec=spec)
    return dressed
