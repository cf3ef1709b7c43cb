"""The ConfigMaps and Secrets that a pod names, read when its containers are started."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from stromboli import plain_json
from stromboli.kube.client import CONFIG_MAPS, SECRETS, Client, Failure, is_not_found

Data = Mapping[str, bytes]
_RESOURCES = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


class PodObjects:
    """A `DataSource`."""

    def __init__(self, objects: Mapping[tuple[str, str], Data | None]) -> None:
        self._objects = objects

    def data(self, kind: str, name: str) -> Data | None:
        return self._objects.get((kind, name))


async def read_objects(client: Client, pod: Mapping[str, Any]) -> PodObjects:
    """Raises Failure if the API server does not answer."""
    namespace = pod["metadata"].get("namespace", "default")
    wanted = sorted(set(_named(pod["spec"])))
    found = await asyncio.gather(*(_read(client, kind, f"{namespace}/{name}") for kind, name in wanted))
    return PodObjects(dict(zip(wanted, found, strict=True)))


async def _read(client: Client, kind: str, key: str) -> Data | None:
    try:
        answer = await client.request("GET", _RESOURCES[kind].path_of(key))
    except Failure as failure:
        if is_not_found(failure):
            return None
        raise
    written = plain_json.decode_shallow(answer)
    encoded = written.get("data" if kind == "Secret" else "binaryData") or {}
    texts = {} if kind == "Secret" else written.get("data") or {}
    return {name: value.encode() for name, value in texts.items()} | {
        name: _decoded(value) for name, value in encoded.items()
    }


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except (binascii.Error, ValueError):
        return b""


def _named(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for variable in container.get("env") or ():
            written = variable.get("valueFrom") or {}
            yield from _references(written, configMapKeyRef="ConfigMap", secretKeyRef="Secret")
        for group in container.get("envFrom") or ():
            yield from _references(group, configMapRef="ConfigMap", secretRef="Secret")
    for volume in spec.get("volumes") or ():
        if volume.get("secret"):
            yield "Secret", volume["secret"].get("secretName", "")
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            yield from _references(source, configMap="ConfigMap")
            if source is not volume:
                yield from _references(source, secret="Secret")


def _references(written: Mapping[str, Any], **kinds: str) -> Iterator[tuple[str, str]]:
    for field, kind in kinds.items():
        if written.get(field) and written[field].get("name"):
            yield kind, written[field]["name"]
