"""What nodes really use, from the metrics API (`metrics.k8s.io`), for the plugin `usage` of the scheduler.

The API has the last measurement of each node. They are read again after every interval that the configuration states,
and only while it has the plugin. While the API does not answer, the measurements before count until they are too old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from stromboli import plain_json
from stromboli.api.quantity import QuantityError, amounts, parse_duration
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import NodesMeasured, NodeUse
from stromboli.kube.client import Client, Failure
from stromboli.kube.runtime.logs import Log
from stromboli.scheduling.configuration import Configuration

PATH: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
LASTS: Final = 300.0  # seconds for which a measurement counts

_log = Log("scheduler")


class _Meta(msgspec.Struct):
    name: str = ""


class _NodeMetrics(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    timestamp: str = ""
    window: str = "0s"
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class _NodeMetricsList(msgspec.Struct):
    items: list[_NodeMetrics] = msgspec.field(default_factory=list)


async def measure_nodes(
    client: Client, configuration: Callable[[], Configuration], report: Callable[[NodesMeasured], None]
) -> None:
    """Never ends by itself."""
    while True:
        current = configuration()
        if current.plugins("usage"):
            await _measure(client, report)
        await asyncio.sleep(current.metrics_interval)


async def _measure(client: Client, report: Callable[[NodesMeasured], None]) -> None:
    try:
        found = plain_json.decode_shallow(await client.request("GET", PATH), _NodeMetricsList)
    except (Failure, msgspec.DecodeError) as error:
        _log.warning("the metrics API does not answer; the plugin usage knows nothing new", failure=str(error))
        return
    measured = ((item.metadata.name, _use(item)) for item in found.items)
    report(NodesMeasured({name: use for name, use in measured if use is not None}))


def _use(item: _NodeMetrics) -> NodeUse | None:
    """None if it cannot be read; then the node is unknown."""
    try:
        at = parse_timestamp(item.timestamp)
        return NodeUse(amounts(item.usage), at, parse_duration(item.window), at + LASTS)
    except (QuantityError, ValueError):
        return None
