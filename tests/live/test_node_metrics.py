"""Reading what nodes really use: how often, what is known while the API does not answer, and what is recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from live.fake_api import with_virtual_time
from stromboli.cluster import NodesMeasured, NodeUse
from stromboli.insight import recording
from stromboli.kube.client import Client, Failure
from stromboli.kube.runtime.served import measure_nodes
from stromboli.kube.scheduler.inbox import Inbox
from stromboli.scheduling.configuration import Configuration
from stromboli.scheduling.registry import Registry

AT = 1_893_456_000.0  # 2030-01-01T00:00:00Z


def item(name: str, cpu: str, **more: str) -> dict[str, Any]:
    fields = {"timestamp": "2030-01-01T00:00:00Z", "window": "20s", **more}
    return {"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": "1Gi"}, **fields}


class MetricsServer:
    """Answers one after the other; None is a failure. Then always the last one."""

    def __init__(self, *answers: list[dict[str, Any]] | None) -> None:
        self._answers = list(answers)
        self.asked: list[float] = []

    async def request(self, method: str, path: str) -> bytes:
        assert (method, path) == ("GET", "/apis/metrics.k8s.io/v1beta1/nodes")
        self.asked.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise Failure(503, "no metrics server")
        return json.dumps({"items": answer}).encode()


def configured(text: str) -> Configuration:
    registry = Registry(installed_plugins=(), installed_actions=())
    return registry.load(f"actions: allocate\n{text}\n")


USAGE = "tiers: [{plugins: [{name: usage}]}]"


def reported(
    server: MetricsServer, configuration: Callable[[], Configuration], seconds: float
) -> list[dict[str, NodeUse]]:
    found: list[NodesMeasured] = []

    async def story() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await measure_nodes(cast("Client", server), configuration, found.append)

    with_virtual_time(story())
    return [dict(one.use) for one in found]


def test_nodes_are_measured_in_every_interval() -> None:
    server = MetricsServer([item("a", "1500m")])
    found = reported(server, lambda: configured(f"metrics: {{interval: 10s}}\n{USAGE}"), 25)
    assert found == [{"a": NodeUse({"cpu": 1500, "memory": 1 << 30}, AT, 20.0, AT + 300)}] * 3
    assert [round(after - server.asked[0]) for after in server.asked] == [0, 10, 20]


def test_nobody_is_asked_without_the_plugin_and_soon_after_it_is_configured() -> None:
    texts = iter(["tiers: [{plugins: [{name: gang}]}]", USAGE])
    server = MetricsServer([item("a", "1")])
    assert len(reported(server, lambda: configured(next(texts)), 40)) == 1


def test_nothing_is_reported_while_the_api_does_not_answer() -> None:
    server = MetricsServer([item("a", "1")], None, [item("a", "2")])
    found = reported(server, lambda: configured(USAGE), 70)
    assert [use["a"].amounts["cpu"] for use in found] == [1000, 2000]


def test_a_node_whose_measurement_cannot_be_read_is_unknown() -> None:
    bad = [item("b", "much"), item("c", "1", timestamp="yesterday"), item("d", "1", window="long")]
    assert [list(use) for use in reported(MetricsServer([item("a", "1"), *bad]), lambda: configured(USAGE), 1)] == [
        ["a"]
    ]


def test_measurements_are_recorded_and_known_to_a_cluster_that_is_built_again() -> None:
    event = NodesMeasured({"a": NodeUse({"cpu": 1500}, AT, 20.0, AT + 300)})
    assert recording._decoded(recording._event(event)) == event
    inbox = Inbox(refused=lambda *about: None)
    inbox.put(event)
    assert inbox.drain() == [event]
    assert inbox.all_objects() == [event]
