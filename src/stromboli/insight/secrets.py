"""Objects without what may be secret.

A recording is sent to people who look for a bug. It has what the scheduler reads. Passwords are in none of that, but in
environment variables, arguments, options of volumes, and in a copy of all of it that kubectl keeps in an annotation.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec.structs import replace

from stromboli.api import KObject, Pod, Reservation
from stromboli.api.kinds.pods import Container, PodSpec

Object = TypeVar("Object", bound=KObject)

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OPTIONS: Final = {"csi": ("volumeAttributes", "nodePublishSecretRef"), "flexVolume": ("options", "secretRef")}


def without_secrets(obj: Object) -> Object:
    """The object itself if there is nothing to leave out."""
    if LAST_APPLIED in obj.metadata.annotations:
        notes = {name: value for name, value in obj.metadata.annotations.items() if name != LAST_APPLIED}
        obj = replace(obj, metadata=replace(obj.metadata, annotations=notes))
    if isinstance(obj, Pod):
        statuses = obj.status.container_statuses or obj.status.init_container_statuses
        status = replace(obj.status, container_statuses=[], init_container_statuses=[]) if statuses else obj.status
        return replace(obj, spec=_spec(obj.spec), status=status)
    if isinstance(obj, Reservation) and obj.spec.template is not None:
        template = replace(obj.spec.template, spec=_spec(obj.spec.template.spec))
        return replace(obj, spec=replace(obj.spec, template=template))
    return obj


def _spec(spec: PodSpec) -> PodSpec:
    return replace(
        spec,
        containers=[_container(one) for one in spec.containers],
        init_containers=[_container(one) for one in spec.init_containers],
        volumes=[_volume(one) for one in spec.volumes],
    )


def _container(container: Container) -> Container:
    if not (container.env or container.command or container.args):
        return container
    return replace(container, env=[], command=[], args=[])


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    for source, options in _OPTIONS.items():
        if isinstance(volume.get(source), dict):
            kept = {name: value for name, value in volume[source].items() if name not in options}
            volume = {**volume, source: kept}
    return volume
