"""What the API server fills in by itself, with every process of ours down. See door_story.py for the fixtures."""

from __future__ import annotations

from typing import Any

import pytest

from kube.client import Client, eventually
from stromboli.api import Job, Pod, decode, with_queue_gate
from stromboli.api.names import QUEUE_ALLOCATION_GATE, QUEUE_NAME, SUBMITTER
from stromboli.controllers.job.plugins import plugins_of
from validation.door_story import GROUPS, JOBS, PODS, group, job, pod


def dry_run(client: Client, path: str, document: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = client.create(f"{path}?dryRun=All", document)
    return made


def user_of(document: dict[str, Any]) -> str:
    return str(document["metadata"].get("annotations", {}).get(SUBMITTER, ""))


@pytest.mark.parametrize("plugins", [{}, {"mpi": []}, {"tensorflow": []}, {"pytorch": [], "env": []}, {"ssh": ["--x"]}])
def test_the_server_fills_in_what_controllers_would(plugins: dict[str, Any], server: Client, namespace: str) -> None:
    written = job("j", plugins=plugins)
    first, second = written["spec"]["tasks"][0], dict(written["spec"]["tasks"][0])
    del first["name"]
    second |= {"replicas": 5, "minAvailable": 1, "name": "b"}
    written["spec"]["tasks"].append(second)
    made = dry_run(server, JOBS.format(namespace), written)
    expected = decode(written)
    assert isinstance(expected, Job)
    assert made["spec"]["minAvailable"] == expected.spec.min_available == 3
    assert [task["name"] for task in made["spec"]["tasks"]] == [task.name for task in expected.spec.tasks]
    assert (made["spec"]["queue"], made["spec"]["schedulerName"]) == (expected.spec.queue, expected.spec.scheduler_name)
    if plugins != {"ssh": ["--x"]}:
        assert set(made["spec"].get("plugins", {})) == set(plugins_of(expected))
    else:
        assert made["spec"]["plugins"] == plugins


def test_the_minimum_of_partitions_counts(server: Client, namespace: str) -> None:
    # 2 partitions of 2 pods each start together, and all 2 pods of the other task.
    written = job("j")
    partitions = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}
    second = {"name": "b", "replicas": 6, "partitionPolicy": partitions}
    written["spec"]["tasks"].append(written["spec"]["tasks"][0] | second)
    expected = decode(written)
    assert isinstance(expected, Job)
    made = dry_run(server, JOBS.format(namespace), written)
    assert made["spec"]["minAvailable"] == expected.spec.min_available == 6


def test_the_same_manifest_is_accepted_again(server: Client, namespace: str) -> None:
    """Whoever sends it leaves out again what was filled in, and most of that must not change."""
    path, written = JOBS.format(namespace), job("again", plugins={"mpi": []})
    del written["spec"]["tasks"][0]["name"]
    made = server.create(path, written)
    written["spec"]["tasks"][0]["replicas"] = 4
    written["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    changed = server.replace(f"{path}/again", written)["spec"]
    assert (changed["plugins"], changed["tasks"][0]["name"]) == ({"mpi": [], "ssh": [], "svc": []}, "default0")
    assert changed["minAvailable"] == 4, "left out, it follows the replicas"


def test_what_is_given_is_kept(server: Client, namespace: str) -> None:
    given = {"minAvailable": 1, "plugins": {"mpi": [], "svc": ["--publish-not-ready-addresses=true"], "ssh": []}}
    made = dry_run(server, JOBS.format(namespace), job("j", **given))
    assert {name: made["spec"][name] for name in given} == given


def test_a_group_gets_the_queue_of_its_namespace(server: Client, namespace: str) -> None:
    path = GROUPS.format(namespace)
    assert dry_run(server, path, group("g"))["spec"]["queue"] == "default"
    server.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"annotations": {QUEUE_NAME: "theirs"}}})
    eventually(lambda: dry_run(server, path, group("g"))["spec"]["queue"] == "theirs")
    assert dry_run(server, path, group("g", queue="other"))["spec"]["queue"] == "other"


def test_who_created_it_is_written_on_it(server: Client, namespace: str) -> None:
    made = [
        dry_run(server, path.format(namespace), document)
        for path, document in ((JOBS, job("j")), (GROUPS, group("g")), (PODS, pod({})))
    ]
    assert {user_of(one) for one in made} == {"admin"}
    others = dry_run(server, PODS.format(namespace), pod({}, schedulerName="default-scheduler"))
    assert user_of(others) == "", "pods of other schedulers are left alone"


GATE = {"name": QUEUE_ALLOCATION_GATE}
OTHER_GATE = {"name": "example.com/wait"}


@pytest.mark.parametrize(
    ("value", "spec", "gates"),
    [
        ("true", {}, [GATE]),
        ("true", {"schedulingGates": [OTHER_GATE]}, [OTHER_GATE, GATE]),
        ("true", {"schedulingGates": [GATE]}, [GATE]),
        ("false", {}, []),
        ("true", {"schedulerName": "default-scheduler"}, []),
        ("true", {"nodeName": "n1"}, []),
    ],
)
def test_a_pod_that_opts_in_gets_the_gate_of_its_queue(
    value: str, spec: dict[str, Any], gates: list[dict[str, str]], server: Client, namespace: str
) -> None:
    written = pod({QUEUE_ALLOCATION_GATE: value}, **spec)
    made = dry_run(server, PODS.format(namespace), written)
    assert made["spec"].get("schedulingGates", []) == gates
    expected = decode(written)
    assert isinstance(expected, Pod)
    if spec.get("schedulerName") != "default-scheduler":  # those are not ours to change, nor to schedule
        assert [gate.name for gate in with_queue_gate(expected).spec.scheduling_gates] == [one["name"] for one in gates]


def test_what_no_policy_changes_stays_the_same_object(server: Client, namespace: str) -> None:
    path = JOBS.format(namespace)
    made = server.create(path, job("j"))["metadata"]
    changed = server.patch(f"{path}/j", {"metadata": {"labels": {"a": "b"}}})["metadata"]
    assert {name: changed[name] for name in ("uid", "creationTimestamp", "generation")} == {
        name: made[name] for name in ("uid", "creationTimestamp", "generation")
    }
