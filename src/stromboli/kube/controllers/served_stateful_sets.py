"""Whether the server has StatefulSets, whose annotations count for the groups of their pods.

A watch of a kind that is not served would keep the controllers from ever starting.
"""

from __future__ import annotations

import asyncio
from typing import Final

from stromboli.kube.client import STATEFUL_SETS, Client, Failure
from stromboli.kube.runtime import Log

_log = Log("controllers")

RETRY: Final = 1.0  # seconds


async def serves_stateful_sets(client: Client, stop: asyncio.Event) -> bool:
    """Asks until there is an answer; False also if the stop came first."""
    said = ""
    while not stop.is_set():
        try:
            return await client.serves_kind(STATEFUL_SETS)
        except Failure as failure:
            if failure.message != said:
                _log.warning("the API server does not answer yet", failure=failure.message)
                said = failure.message
        try:
            await asyncio.wait_for(stop.wait(), RETRY)
        except TimeoutError:
            continue
    return False
