"""Whether the API server knows our kinds: the commonest mistake on a new cluster. Reflectors only go on trying."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_not_found
from stromboli.kube.client.resources import Resource

NOT_INSTALLED: Final = "the resource definitions are not installed; run: kubectl apply -k deploy/crds"


async def undefined(client: Client, resources: Iterable[Resource[Any]]) -> list[str]:
    """The names of those that it does not know, as far as it answers."""
    found: list[str] = []
    for resource in resources:
        try:
            await client.request("GET", resource.path(), query={"limit": "1"})
        except Failure as failure:
            if is_not_found(failure):
                found.append(f"{resource.plural}.{resource.group_version.partition('/')[0]}")
    return found
