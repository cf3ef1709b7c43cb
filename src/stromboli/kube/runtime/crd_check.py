"""Checks that the API server serves our custom resources. Missing definitions are the most common mistake on a new
cluster, and a reflector alone would only keep retrying."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stromboli.kube.client import Client, Failure, Resource, is_not_found

NOT_INSTALLED: Final = "the resource definitions are not installed; run: kubectl apply -k deploy/crds"


async def missing_definitions(client: Client, resources: Iterable[Resource[Any]]) -> list[str]:
    """The names of the resources that the server does not serve. One that gives no answer is not reported."""
    missing: list[str] = []
    for resource in resources:
        try:
            await client.request("GET", resource.path(), query={"limit": "1"})
        except Failure as failure:
            if is_not_found(failure):
                missing.append(f"{resource.plural}.{resource.group_version.partition('/')[0]}")
    return missing
