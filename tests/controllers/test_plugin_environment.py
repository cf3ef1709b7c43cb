"""What each job plugin puts into containers, variable by variable, compared with what Volcano's does.

The job is named `j`. Values are facts about Volcano (August 2026): its plugins of the same names, with their default
arguments. What differs is named in the test at the end.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.fake_cluster import FakeCluster, job, task
from stromboli.api import Container, ContainerPort
from stromboli.controllers import ControllerManager


def furnished(*tasks: Any, plugins: dict[str, list[str]]) -> FakeCluster:
    made = job("ns/j", *tasks, plugins=plugins)
    cluster = FakeCluster(made, controllers=lambda: ControllerManager(run_job_plugins=True, validate=True))
    cluster.start()
    return cluster


def environment(container: Container) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.env}


def from_map(name: str) -> dict[str, Any]:
    return {"configMapKeyRef": {"name": "j-svc", "key": name}}


def hosts(*tasks: str) -> dict[str, Any]:
    """What `svc` gives to every container, and with it all plugins that include it."""
    return {
        name: from_map(name) for one in tasks for name in (f"VC_{one.upper()}_HOSTS", f"VC_{one.upper()}_NUM")
    }  # fmt: skip


ROLES = hosts("master", "worker")
PORTS = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
TF = {
    "cluster": {"ps": ["j-ps-0.j:2222"], "worker": ["j-worker-0.j:2222", "j-worker-1.j:2222"]},
    "task": {"type": "worker", "index": 1},
}


@pytest.mark.parametrize(
    ("plugin", "arguments", "tasks", "pod", "expected"),
    [
        ("env", [], {"t": 2}, "t-1", {"VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}),
        ("svc", [], {"big-task": 2, "t": 1}, "t-0", hosts("big_task", "t")),
        ("svc", ["--inject-hosts-env=false"], {"t": 1}, "t-0", {}),
        ("ssh", [], {"t": 1}, "t-0", {}),
        ("pytorch", [], {"master": 1, "worker": 2}, "master-0", {**ROLES, **PORTS, "RANK": "0"}),
        ("pytorch", [], {"master": 1, "worker": 2}, "worker-1", {**ROLES, **PORTS, "RANK": "2"}),
        ("pytorch", ["--port=1", "--worker=w"], {"master": 1, "w": 1, "other": 1}, "w-0", {
            **hosts("master", "w", "other"), **PORTS, "MASTER_PORT": "1", "WORLD_SIZE": "2", "RANK": "1"}),
        ("pytorch", [], {"master": 1, "worker": 2, "other": 1}, "other-0", {
            **hosts("master", "worker", "other"), **PORTS}),
        ("tensorflow", [], {"ps": 1, "worker": 2}, "worker-1", {**hosts("ps", "worker"), "TF_CONFIG": TF}),
        ("tensorflow", [], {"worker": 1}, "worker-0", hosts("worker")),
        ("mpi", [], {"master": 1, "worker": 2}, "master-0", {**ROLES, "MPI_HOST": "j-worker-0.j,j-worker-1.j"}),
        ("mpi", [], {"master": 1, "worker": 2}, "worker-0", ROLES),
        ("mpi", ["--master", "head"], {"head": 1, "worker": 1}, "head-0", {
            **hosts("head", "worker"), "MPI_HOST": "j-worker-0.j"}),
        ("ray", ["--headContainer=main", "--workerContainer=main"], {"head": 1, "worker": 1}, "head-0",
            hosts("head", "worker")),
    ],
)  # fmt: skip
def test_variables(
    plugin: str, arguments: list[str], tasks: dict[str, int], pod: str, expected: dict[str, Any]
) -> None:
    made = [task(name, replicas) for name, replicas in tasks.items()]
    for one in made:
        one.template.spec.init_containers = [Container(name="before")]
    found = furnished(*made, plugins={plugin: arguments}).pod(f"ns/j-{pod}").spec
    for container in (*found.containers, *found.init_containers):
        variables = environment(container)
        if "TF_CONFIG" in variables:
            variables["TF_CONFIG"] = json.loads(variables["TF_CONFIG"])
        assert variables == expected


def test_where_we_differ() -> None:
    """Of two masters both would have the rank 0 with Volcano, and the first worker 1."""
    cluster = furnished(task("master", 2), task("worker", 1), plugins={"pytorch": []})
    ranks = [
        environment(cluster.pod(f"ns/j-{name}").spec.containers[0])["RANK"]
        for name in ("master-0", "master-1", "worker-0")
    ]
    assert ranks == ["0", "1", "2"]


# -- ray ------------------------------------------------------------------------------------------------------------


def ray(*arguments: str, head: str = "head", worker: str = "worker") -> FakeCluster:
    tasks = [task(head, 1), task(worker, 2)]
    for one, container in zip(tasks, ("head", "worker"), strict=True):
        one.template.spec.containers.append(Container(name=container, command=["theirs"]))
    return furnished(*tasks, plugins={"ray": list(arguments)})


def test_a_ray_cluster() -> None:
    """By Volcano's defaults: containers `head` and `worker`, ports 6379, 8265 and 10001."""
    cluster = ray()
    _, head = cluster.pod("ns/j-head-0").spec.containers
    assert head.command == ["sh", "-c", (
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265"
        " --ray-client-server-port=10001"
    )]  # fmt: skip
    assert [(port.name, port.container_port) for port in head.ports] == [
        ("gcs", 6379), ("dashboard", 8265), ("client-server", 10001),
    ]  # fmt: skip
    beside, worker = cluster.pod("ns/j-worker-1").spec.containers
    assert worker.command == ["sh", "-c", "ray start --block --address=j-head-0.j:6379"]
    assert (beside.command, worker.ports) == ([], [])
    service = cluster.provided["Service j-head-svc"]["spec"]
    assert service["selector"] == {
        "volcano.sh/job-name": "j", "volcano.sh/job-namespace": "ns", "volcano.sh/task-spec": "head",
    }  # fmt: skip
    assert [(port["name"], port["port"]) for port in service["ports"]] == [
        ("gcs", 6379), ("dashboard", 8265), ("client-server", 10001),
    ]  # fmt: skip
    assert "Service j" in cluster.provided, "svc comes with it"


def test_ray_plugin_e2e_test_will_start_in_pending_state_and_get_running_phase() -> None:
    """Volcano's own spec, by its arguments."""
    tasks = [task("head", 1, min_available=1), task("worker", 1, min_available=1)]
    for one in tasks:
        one.template.spec.containers[0].name = "ray"
    arguments = ["--head=head", "--worker=worker", "--port=2345", "--headContainer=ray", "--workerContainer=ray"]
    cluster = furnished(*tasks, plugins={"ray": arguments, "svc": []})
    assert cluster.phase("ns/j") == "Running"
    assert cluster.pod("ns/j-worker-0").spec.containers[0].command[2].endswith("--address=j-head-0.j:2345")


def test_ports_that_the_head_declares_itself_are_not_declared_again() -> None:
    tasks = [task("head", 1)]
    tasks[0].template.spec.containers[0].name = "head"
    tasks[0].template.spec.containers[0].ports = [ContainerPort(name="store", container_port=6379)]
    head = furnished(*tasks, plugins={"ray": []}).pod("ns/j-head-0").spec.containers[0]
    assert [port.container_port for port in head.ports] == [6379, 8265, 10001]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--head=chief"], "needs a task named chief; set another name with --head"),
        (["--workerContainer=x"], "needs a container named x in task worker; set another with --workerContainer"),
        (["--port=no"], "the argument --port must be a whole number, not no"),
        (["--x"], "the argument --x is unknown; known arguments: --head, --headContainer, --worker, "),
    ],
)
def test_a_ray_cluster_that_cannot_be(arguments: list[str], says: str) -> None:
    cluster = ray(*arguments)
    assert says in cluster.job("ns/j").status.state.message


# -- waiting for the master -----------------------------------------------------------------------------------------


def test_workers_can_wait_for_the_master() -> None:
    plugins = {"pytorch": ["--wait-master-enabled=true", "--wait-master-timeout=9", "--wait-master-image=box"]}
    cluster = furnished(task("master", 1), task("worker", 1), plugins=plugins)
    assert cluster.pod("ns/j-master-0").spec.init_containers == []
    (waiting,) = cluster.pod("ns/j-worker-0").spec.init_containers
    assert (waiting.name, waiting.image) == ("wait-for-master", "box")
    assert "nc -z j-master-0.j 23456" in waiting.command[2]
    assert "-lt 9" in waiting.command[2]
