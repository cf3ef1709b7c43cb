"""What pods really use, from the metrics API (`metrics.k8s.io`).

The API has the last measurement of each pod. They are read again when they are older than a minute, and only if a
plugin needs them. A pod that is not measured is unknown; so are all pods while the API does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from stromboli import plain_json
from stromboli.api import Pod, key
from stromboli.api.quantity import QuantityError, amount
from stromboli.kube.client import Client, Failure
from stromboli.kube.runtime import Log

PATH: Final = "/apis/metrics.k8s.io/v1beta1/pods"
MAX_AGE: Final = 60.0

_log = Log("descheduler")


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Container(msgspec.Struct):
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class _PodMetrics(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    containers: list[_Container] = msgspec.field(default_factory=list)


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics] = msgspec.field(default_factory=list)


class PodMetrics:
    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._measured: dict[str, dict[str, int]] = {}
        self._at = float("-inf")

    async def refresh(self) -> None:
        """Read the measurements, if they are old."""
        if self._clock() - self._at < MAX_AGE:
            return
        try:
            found = plain_json.decode_shallow(await self._client.request("GET", PATH), _PodMetricsList)
        except (Failure, msgspec.DecodeError) as error:
            _log.warning("the metrics API does not answer; nothing is moved by load", failure=str(error))
            self._measured = {}
            return
        self._at = self._clock()
        self._measured = {
            f"{item.metadata.namespace}/{item.metadata.name}": use
            for item in found.items
            if (use := _sum(item.containers)) is not None
        }

    def use(self, pod: Pod) -> Mapping[str, int] | None:
        return self._measured.get(key(pod))


def _sum(containers: list[_Container]) -> dict[str, int] | None:
    total: dict[str, int] = {}
    try:
        for container in containers:
            for resource, text in container.usage.items():
                total[resource] = total.get(resource, 0) + amount(resource, text)
    except QuantityError:
        return None
    return total
