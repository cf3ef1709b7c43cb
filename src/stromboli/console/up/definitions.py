"""Installs on an API server, or brings up to date: the definitions of our kinds, admission policies, and a default
storage class.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from stromboli.api import ObjectMeta, StorageClass, names
from stromboli.api.rules.rule import MUTATIONS, POLICIES, Version
from stromboli.kube.client import (
    CUSTOM_RESOURCE_DEFINITIONS,
    POD_GROUPS,
    QUEUES,
    STORAGE_CLASSES,
    Client,
    Failure,
    is_already_exists,
)
from stromboli.kube.crds import definitions, mutating_policies, validating_policies

_ATTEMPTS: Final = 100
_PLURALS: Final = {
    f"{way}Admission{kind}": f"{way.lower()}admission{plural}"
    for way in ("Validating", "Mutating")
    for kind, plural in (("Policy", "policies"), ("PolicyBinding", "policybindings"))
}


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
    for policy in _policies(version):
        await _apply(client, policy)


def _policies(server: Version) -> list[dict[str, Any]]:
    """What the definitions for this server leave to policies, and what it can fill in."""
    validating = validating_policies() if server >= POLICIES else []
    mutating = mutating_policies() if server >= MUTATIONS else []
    return validating + mutating


async def _apply(client: Client, policy: dict[str, Any]) -> None:
    path = f"/apis/{policy['apiVersion']}/{_PLURALS[policy['kind']]}/{policy['metadata']['name']}"
    manager = {"fieldManager": "stromboli", "force": "true"}
    await client.request(
        "PATCH", path, query=manager, body=msgspec.json.encode(policy), content_type="application/apply-patch+yaml"
    )


async def install_default_class(client: Client) -> None:
    """A storage class for claims that name none, unless there is one."""
    for known in (await client.list(STORAGE_CLASSES)).items:
        if known.metadata.annotations.get(names.DEFAULT_CLASS) == "true":
            return
    meta = ObjectMeta(name="standard", annotations={names.DEFAULT_CLASS: "true"})
    standard = StorageClass(
        metadata=meta, provisioner="provisioner.sim.stromboli.io", volume_binding_mode="WaitForFirstConsumer"
    )
    try:
        await client.create(STORAGE_CLASSES, standard)
    except Failure as failure:
        if not is_already_exists(failure):
            raise


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
