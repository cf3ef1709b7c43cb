"""What became of a write whose answer was lost: only the object itself can tell."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from stromboli.api import ApiObject
from stromboli.kube.runtime.logs import Log

from .client import Client
from .errors import Failure, is_not_found
from .rate_limit import Backoff
from .resources import Resource

T = TypeVar("T", bound=ApiObject)

_log = Log("asking")


async def ask(client: Client, resource: Resource[T], key: str) -> T | None:
    """The object as it is, as soon as the server answers, however long that takes; None if it is not there."""
    backoff = Backoff()
    told = ""
    while True:
        try:
            return await client.get(resource, key)
        except Failure as failure:
            if is_not_found(failure):
                return None
            if failure.message != told:
                told = failure.message
                _log.warning("no answer yet", kind=resource.plural, object=key, failure=told)
        await asyncio.sleep(backoff.next())
