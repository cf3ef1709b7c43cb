"""Installs the definitions of our kinds on an API server, or brings them up to date."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from stromboli.kube.client import CUSTOM_RESOURCE_DEFINITIONS, POD_GROUPS, QUEUES, Client, Failure, is_already_exists
from stromboli.kube.crds.definitions import definitions

_ATTEMPTS: Final = 100


async def install_definitions(client: Client) -> None:
    version = await client.server_version()
    for name, definition in definitions(version).items():
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        except Failure as failure:
            if not is_already_exists(failure):
                raise
            path = CUSTOM_RESOURCE_DEFINITIONS.path_of(name)
            changes = {"spec": definition["spec"]}
            await client.request(
                "PATCH", path, body=msgspec.json.encode(changes), content_type="application/merge-patch+json"
            )
    await _until_served(client)


async def _until_served(client: Client) -> None:
    """A server may need a moment until it serves a new kind."""
    for _ in range(_ATTEMPTS):
        if await client.serves(QUEUES.group_version) and await client.serves("batch.volcano.sh/v1alpha1"):
            try:
                await client.list(POD_GROUPS)
                return
            except Failure as failure:
                if failure.status != 404:
                    raise
        await asyncio.sleep(0.1)
