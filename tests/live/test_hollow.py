"""Hollow nodes: the next step of a pod, and that it is executed whatever the server responds."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from live.fake_node_api import LEASES, NODES, PODS, FakeNodeApi, fake_node_api, until
from stromboli.api import Condition, Container, ObjectMeta, Pod, PodSpec, PodStatus, names
from stromboli.api.timestamps import format_timestamp
from stromboli.console.main import run
from stromboli.errors import UserError
from stromboli.kube.client import Client, ClientConfig
from stromboli.kube.commands.hollow_nodes import node_capacity
from stromboli.kube.hollow import HollowNodePool, HollowNodes
from stromboli.kube.hollow.node_pool import HOLLOW_LABEL, PROCESS_ANNOTATION
from stromboli.kube.hollow.pod_lifecycle import PatchStatus, Remove, Wait, next_step

NOW = 1_893_456_000.0  # 2030-01-01T00:00:00Z


# -- what a pod does next ---------------------------------------------------------------------------------------


def a_pod(
    phase: str = "Pending",
    *,
    began: float | None = None,
    leaves: float | None = None,
    grace: int | None = None,
    annotations: Mapping[str, str] | None = None,
    bound: bool = True,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name="p",
            namespace="default",
            uid="u",
            annotations=dict(annotations or {}),
            deletion_timestamp=None if leaves is None else format_timestamp(leaves),
            deletion_grace_period_seconds=grace,
        ),
        spec=PodSpec(node_name="n", containers=[Container(name="main", image="work"), Container(name="side")]),
        status=PodStatus(
            phase=phase,
            start_time=None if began is None else format_timestamp(began),
            conditions=[Condition(type="PodScheduled", status="True")] if bound else [],
        ),
    )


def reported(step: object) -> dict[str, Any]:
    assert isinstance(step, PatchStatus)
    return step.status


def conditions(status: Mapping[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def test_a_bound_pod_starts() -> None:
    status = reported(next_step(a_pod(), NOW + 0.9))
    assert status["phase"] == "Running"
    assert status["startTime"] == "2030-01-01T00:00:00Z"
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["podIP"].startswith("10.")
    assert conditions(status) == dict.fromkeys(("Initialized", "Ready", "ContainersReady"), ("True", None))
    assert [(one["name"], one["ready"], one["state"]) for one in status["containerStatuses"]] == [
        ("main", True, {"running": {"startedAt": "2030-01-01T00:00:00Z"}}),
        ("side", True, {"running": {"startedAt": "2030-01-01T00:00:00Z"}}),
    ]


def test_a_pod_created_with_a_node_counts_as_scheduled() -> None:
    assert conditions(reported(next_step(a_pod(bound=False), NOW)))["PodScheduled"] == ("True", None)


def test_a_pod_without_a_run_time_never_ends() -> None:
    assert next_step(a_pod("Running", began=NOW - 1e6), NOW) == Wait(None)


@pytest.mark.parametrize(
    ("code", "phase", "reason", "word"),
    [("0", "Succeeded", "PodCompleted", "Completed"), ("3", "Failed", "PodFailed", "Error")],
)
def test_a_pod_ends_when_its_run_is_over(code: str, phase: str, reason: str, word: str) -> None:
    running = a_pod("Running", began=NOW, annotations={names.SIM_RUN: "1m", names.SIM_EXIT_CODE: code})
    assert next_step(running, NOW + 59.9) == Wait(NOW + 60)
    status = reported(next_step(running, NOW + 75))
    assert status["phase"] == phase
    assert conditions(status) == {"Ready": ("False", reason), "ContainersReady": ("False", reason)}
    assert [one["state"]["terminated"] for one in status["containerStatuses"]] == 2 * [
        {
            "exitCode": int(code),
            "reason": word,
            "startedAt": "2030-01-01T00:00:00Z",
            "finishedAt": "2030-01-01T00:01:00Z",
        }
    ]
    assert next_step(a_pod(phase, began=NOW, annotations={names.SIM_RUN: "1m"}), NOW + 75) == Wait(None)


def test_an_exact_start_is_better_than_the_seconds_of_the_object() -> None:
    running = a_pod("Running", began=NOW, annotations={names.SIM_RUN: "2s"})
    assert next_step(running, NOW + 2.5, started=NOW + 0.9) == Wait(NOW + 2.9)


@pytest.mark.parametrize("name", [names.SIM_RUN, names.SIM_EXIT_CODE, names.SIM_GRACE])
def test_an_unreadable_annotation_fails_the_pod_with_a_message(name: str) -> None:
    status = reported(next_step(a_pod(annotations={name: "soon"}), NOW))
    assert (status["phase"], status["reason"]) == ("Failed", "UnreadableAnnotation")
    assert name in status["message"]
    assert '"soon"' in status["message"]
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 128


# It is deleted at NOW - 10 with 30 seconds of grace, so the server writes that it leaves at NOW + 20.
@pytest.mark.parametrize(
    ("annotations", "step"),
    [
        ({}, Wait(NOW + 20)),
        ({names.SIM_GRACE: "15s"}, Wait(NOW + 5)),
        ({names.SIM_GRACE: "1h"}, Wait(NOW + 20)),
        ({names.SIM_GRACE: "10s"}, Remove()),
        ({names.SIM_GRACE: "0s"}, Remove()),
        ({names.SIM_GRACE: "soon"}, Wait(NOW + 20)),
        ({names.SIM_RUN: "1s"}, Wait(NOW + 20)),  # Whoever is leaving does not finish any more.
    ],
)
def test_a_deleted_pod_is_removed_after_its_grace_period(annotations: Mapping[str, str], step: object) -> None:
    leaving = a_pod("Running", began=NOW - 100, leaves=NOW + 20, grace=30, annotations=annotations)
    assert next_step(leaving, NOW) == step


def test_a_deleted_pod_that_is_not_running_is_removed_at_once() -> None:
    for phase in ("Pending", "Succeeded"):
        assert next_step(a_pod(phase, leaves=NOW + 20, grace=30), NOW) == Remove()


def test_a_pod_with_a_finalizer_is_not_changed() -> None:
    kept = a_pod("Running", began=NOW, leaves=NOW, grace=0)
    kept.metadata.finalizers.append("somebody/cares")
    assert next_step(kept, NOW + 5) == Wait(None)


def test_a_removal_that_the_server_did_not_finish_is_asked_for_again() -> None:
    cut_off = a_pod("Running", began=NOW, leaves=NOW, grace=0)
    assert next_step(cut_off, NOW + 1) == Wait(NOW + 2)
    assert next_step(cut_off, NOW + 2) == Remove()


# -- that it is done --------------------------------------------------------------------------------------------


@asynccontextmanager
async def hollow_nodes(config: ClientConfig, count: int = 2, *, keep: bool = False) -> AsyncIterator[list[str]]:
    """Running hollow nodes; what they said, in the end."""
    said: list[str] = []
    stop = asyncio.Event()
    async with Client(config) as client:
        names = [f"hollow-{number}" for number in range(count)]
        pool = HollowNodePool(client, names, capacity={"cpu": "4", "pods": "9"})
        running = asyncio.create_task(HollowNodes(client, pool, keep=keep, say=said.append).run(stop))
        try:
            yield said
        finally:
            stop.set()
            await running


async def ready(server: FakeNodeApi, count: int = 2) -> None:
    await until(lambda: sum(path.startswith(LEASES) for path in server.objects) == count)


def test_nodes_are_registered_and_removed() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config):
            async with hollow_nodes(config) as said:
                await ready(server)
                node = server.objects[f"{NODES}/hollow-1"]
                assert node["metadata"]["labels"][HOLLOW_LABEL] == "true"
                assert node["status"]["allocatable"] == {"cpu": "4", "pods": "9"}
                assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "True"
                assert "taints" not in node["spec"]
                assert server.objects[f"{LEASES}/hollow-1"]["spec"]["holderIdentity"] == "hollow-1"
                await until(lambda: len(said) == 1)
            assert server.objects == {}
            assert said == ["2 hollow nodes ready. Ctrl-C removes them.", "2 hollow nodes removed."]

    asyncio.run(story())


def test_kept_nodes_are_taken_over_with_their_new_capacity() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config):
            async with hollow_nodes(config, keep=True):
                await ready(server)
            kept = server.objects[f"{NODES}/hollow-0"]
            kept["status"]["capacity"]["nvidia.com/gpu"] = "8"
            async with hollow_nodes(config, keep=True) as said:
                await until(lambda: len(said) == 1)
            node = server.objects[f"{NODES}/hollow-0"]
            assert node["metadata"]["uid"] == kept["metadata"]["uid"]
            assert node["status"]["capacity"] == {"cpu": "4", "pods": "9"}

    asyncio.run(story())


def test_nodes_in_use_are_not_taken_over() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config), hollow_nodes(config) as said:
            await until(lambda: len(said) == 1)
            with pytest.raises(UserError, match=r"^Node hollow-1 is in use by another .*--name-prefix"):
                async with Client(config) as client:
                    await HollowNodePool(client, ["hollow-1", "hollow-2"], capacity={"cpu": "4"}).register()
            assert f"{NODES}/hollow-2" not in server.objects
            assert f"{NODES}/hollow-0" in server.objects
            assert f"{LEASES}/hollow-0" in server.objects

    asyncio.run(story())


def test_nodes_of_a_killed_process_are_taken_over() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config):
            async with hollow_nodes(config, keep=True) as said:
                await until(lambda: len(said) == 1)
                left = dict(server.objects)
            gone = f"{socket.gethostname()}/{ended_process()}"
            for path, lease in left.items():
                if path.startswith(LEASES):
                    lease["metadata"]["annotations"] = {PROCESS_ANNOTATION: gone}
                    await server.put(path, lease)
            async with hollow_nodes(config) as said:
                await until(lambda: len(said) == 1)
            assert server.objects == {}

    asyncio.run(story())


def ended_process() -> int:
    """The number of a process that is over."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_real_nodes_are_never_changed() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config):
            real = await server.put(f"{NODES}/hollow-1", {"kind": "Node", "metadata": {"name": "hollow-1"}})
            with pytest.raises(UserError, match=r"^Node hollow-1 exists and is not a hollow node; .*--name-prefix"):
                async with hollow_nodes(config):
                    await until(lambda: server.count("GET", NODES) == 1)
            assert server.objects == {f"{NODES}/hollow-1": real}

    asyncio.run(story())


def test_pods_run_and_end_and_those_on_other_nodes_are_not_changed() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config), hollow_nodes(config):
            await ready(server)
            await server.bind("good", "hollow-0", annotations={names.SIM_RUN: "100ms"})
            await server.bind("bad", "hollow-1", annotations={names.SIM_RUN: "0s", names.SIM_EXIT_CODE: "7"})
            await server.bind("endless", "hollow-1")
            await server.bind("elsewhere", "somewhere", annotations={names.SIM_RUN: "0s"})
            await until(lambda: server.phase("good") == "Succeeded" and server.phase("bad") == "Failed")
            await until(lambda: server.phase("endless") == "Running")
            ended = server.pod("bad")["status"]["containerStatuses"][0]["state"]
            assert ended["terminated"]["exitCode"] == 7
            assert "running" not in ended
            scheduled = [one for one in server.pod("good")["status"]["conditions"] if one["type"] == "PodScheduled"]
            assert scheduled[0]["lastTransitionTime"] == "2030-01-01T00:00:00Z"
            assert server.phase("elsewhere") == "Pending"
            assert server.count("PATCH", f"{PODS}/elsewhere/status") == 0
            # Running and ended: a pod costs two writes, however often the watch repeats what we wrote.
            assert server.count("PATCH", f"{PODS}/good/status") == 2

    asyncio.run(story())


def test_deleted_pods_are_removed() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config), hollow_nodes(config):
            await ready(server)
            await server.bind("quick", "hollow-0", annotations={names.SIM_GRACE: "0s"})
            await server.bind("slow", "hollow-0", grace=3600)
            await until(lambda: server.phase("quick") == server.phase("slow") == "Running")
            await server.delete(f"{PODS}/quick")
            await server.delete(f"{PODS}/slow")
            await until(lambda: f"{PODS}/quick" not in server.objects)
            assert f"{PODS}/slow" in server.objects

    asyncio.run(story())


def test_another_pod_of_the_same_name_is_another_pod() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config), hollow_nodes(config):
            await ready(server)
            for _ in range(3):
                await server.bind("again", "hollow-0", annotations={names.SIM_RUN: "0s"})
                await until(lambda: server.phase("again") == "Succeeded")
                await server.delete(f"{PODS}/again", 0)

    asyncio.run(story())


def test_a_failed_write_is_retried() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config), hollow_nodes(config):
            await ready(server)
            broken = iter([True, True])
            server.failing = lambda method, path: method == "PATCH" and "/pods/" in path and next(broken, False)
            await server.bind("p", "hollow-0", annotations={names.SIM_RUN: "0s"})
            await until(lambda: server.phase("p") == "Succeeded")
            assert server.count("PATCH", f"{PODS}/p/status") == 4

    asyncio.run(story())


def test_what_was_written_is_known_before_the_watch_shows_it() -> None:
    """Or news from before the write would make us write it again, with a later start."""

    async def story() -> None:
        async with fake_node_api() as (server, config), hollow_nodes(config):
            await ready(server)

            def hold_watches(method: str, path: str) -> bool:
                if method == "PATCH" and "/pods/" in path:
                    server.flowing.clear()
                return False

            server.failing = hold_watches
            await server.bind("p", "hollow-0", annotations={names.SIM_RUN: "0s"})
            await until(lambda: server.phase("p") == "Succeeded")

    asyncio.run(story())


def test_a_restart_continues_from_the_objects() -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config):
            async with hollow_nodes(config) as said:
                await ready(server)
                await server.bind("long", "hollow-0", annotations={names.SIM_RUN: "1h"})
                await server.bind("over", "hollow-0", annotations={names.SIM_RUN: "0s"})
                await until(lambda: server.phase("long") == "Running" and server.phase("over") == "Succeeded")
                began, over = server.pod("long")["status"]["startTime"], server.pod("over")
                await until(lambda: len(said) == 1)
            assert said[2:] == [
                "1 pod on these nodes did not finish. Nothing runs there now: "
                "delete such pods, or start the same nodes again."
            ]
            # An hour has passed, as far as this pod can tell.
            long = server.pod("long")
            await server.put(
                f"{PODS}/long", {**long, "status": {**long["status"], "startTime": "2020-01-01T00:00:00Z"}}
            )
            async with hollow_nodes(config):
                await until(lambda: server.phase("long") == "Succeeded")
            assert began != "2020-01-01T00:00:00Z"
            ended = server.pod("long")["status"]["containerStatuses"][0]["state"]["terminated"]
            assert (ended["startedAt"], ended["finishedAt"]) == ("2020-01-01T00:00:00Z", "2020-01-01T01:00:00Z")
            assert server.pod("over") == over

    asyncio.run(story())


def test_heartbeats_are_spread_over_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stromboli.kube.hollow.node_pool._MIN_ROUND", 0.05)

    async def story() -> None:
        async with fake_node_api() as (server, config), hollow_nodes(config):
            await ready(server)
            beats = [f"{LEASES}/hollow-{number}" for number in (0, 1)]
            await until(lambda: all(server.count("PATCH", path) >= 4 for path in beats))
            # A lease that somebody deleted is made anew.
            await server.delete(beats[0])
            await until(lambda: beats[0] in server.objects)

    asyncio.run(story())


# -- the command ------------------------------------------------------------------------------------------------


def test_thousandths_of_a_byte_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert node_capacity("4", "400m", 0, 110) == {"cpu": "4", "memory": "400m", "pods": "110"}
    assert capsys.readouterr().err == (
        "stromboli: warning: --node-memory: Less than a whole byte: memory is 400m. The unit m means thousandths; did "
        "you mean Mi?\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--node-cpu", "many"], "--node-cpu: must be a quantity"),
        (["--node-memory", "0"], "--node-memory: must be more than 0, not 0."),
        (["--label", "pool"], '--label "pool": write it as KEY=VALUE, for example pool=gpu.'),
        (["--name-prefix", "Hollow_"], '--name-prefix "Hollow_" cannot start a node name'),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hollow-nodes", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"stromboli: error: {said}")
