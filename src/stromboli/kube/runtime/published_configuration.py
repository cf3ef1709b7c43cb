"""Where the configuration of a cluster's scheduler can be read: a ConfigMap.

`kubectl apply -k deploy/` installs the scheduler with its configuration in that ConfigMap, and `stromboli up` keeps a
copy of its own there. So commands that decide on a copy of the cluster find what the scheduler decides with, and nobody
has to say it twice.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from stromboli.api.kinds.metadata import ApiObject
from stromboli.errors import UserError
from stromboli.files import read_text
from stromboli.kube.client import NAMESPACES, Client, Failure, Resource, is_already_exists, is_not_found

NAMESPACE: Final = "stromboli-system"
NAME: Final = "stromboli-scheduler"
FILE: Final = "stromboli.yaml"
WHERE: Final = f"ConfigMap {NAMESPACE}/{NAME}"
_LOOK_AGAIN: Final = 5.0  # seconds


class ConfigMap(ApiObject):
    data: dict[str, str] = msgspec.field(default_factory=dict)


CONFIG_MAP: Final = Resource(ConfigMap, "v1", "configmaps", namespaced=True, has_status=False)


async def published_configuration(client: Client) -> str | None:
    """None if there is none, or if it must not be read."""
    try:
        found = await client.get(CONFIG_MAP, f"{NAMESPACE}/{NAME}")
    except Failure as failure:
        if failure.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return None
        raise
    return found.data.get(FILE)


async def keep_published(client: Client, config: Path | None) -> None:
    """Copy the file, again and again, because the scheduler follows its changes. Without one, none is published."""
    if config is None:
        await _remove(client)
        return
    published: str | None = None
    while True:
        text: str | None
        try:
            text = await asyncio.to_thread(read_text, config)
        except (OSError, UserError):  # the scheduler reads it as well, and says so
            text = published
        if text is not None and text != published:
            await _write(client, text)
            published = text
        await asyncio.sleep(_LOOK_AGAIN)


async def _write(client: Client, text: str) -> None:
    try:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    except Failure as failure:
        if not is_already_exists(failure):
            raise
    meta = {"name": NAME, "namespace": NAMESPACE}
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {FILE: text}}
    try:
        await client.create(CONFIG_MAP, new, namespace=NAMESPACE)
    except Failure as failure:
        if not is_already_exists(failure):
            raise
        await client.patch(CONFIG_MAP, f"{NAMESPACE}/{NAME}", {"data": {FILE: text}})


async def _remove(client: Client) -> None:
    try:
        await client.delete(CONFIG_MAP, f"{NAMESPACE}/{NAME}")
    except Failure as failure:
        if not is_not_found(failure):
            raise
