"""Finds out what a write did whose response was lost, by reading the object again."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from stromboli.api import ApiObject
from stromboli.kube.client import Backoff, Client, Failure, Resource, is_not_found
from stromboli.kube.runtime import Log

T = TypeVar("T", bound=ApiObject)

_log = Log("scheduler")


async def reread(client: Client, resource: Resource[T], key: str) -> T | None:
    """The object as the server has it, or None if it does not exist. Retries until the server answers."""
    backoff = Backoff(random=client.random)
    logged = ""
    while True:
        try:
            return await client.get(resource, key)
        except Failure as failure:
            if is_not_found(failure):
                return None
            if failure.message != logged:
                logged = failure.message
                _log.warning("cannot read an object yet; retrying", kind=resource.plural, object=key, failure=logged)
        await asyncio.sleep(backoff.next())
