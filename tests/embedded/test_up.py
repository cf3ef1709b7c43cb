"""`stromboli up`: everything together, with containers as processes, and with a restart."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded.api import MERGE, Api, HttpTransport
from stromboli.console.main import run
from stromboli.console.source import Source
from stromboli.console.up.cluster import Plan, run_cluster
from stromboli.console.up.machines import Machines, read_machines
from stromboli.errors import UserError
from stromboli.kube.client import Client

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


def api_of(kubeconfig: Path) -> Api:
    config = json.loads(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    port = int(cluster["server"].rpartition(":")[2])
    return Api(HttpTransport(port, context, config["users"][0]["user"]["token"]))


def volcano_job(name: str, replicas: int, command: list[str]) -> dict[str, Any]:
    own_name = {"fieldRef": {"fieldPath": "metadata.name"}}
    env = [{"name": "GREETING", "value": "hello"}, {"name": "NAME", "valueFrom": own_name}]
    container = {"name": "main", "image": "none", "command": command, "env": env,
                 "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "4Gi"}}}  # fmt: skip
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {"minAvailable": replicas, "schedulerName": "volcano",
                 "tasks": [{"name": "main", "replicas": replicas, "template": template}]},
    }  # fmt: skip


def in_cluster(plan: Plan, script: Callable[[Api], None]) -> None:
    """Run a cluster, and a script beside it that talks to the server from another thread."""

    async def main() -> None:
        stop = asyncio.Event()

        async def work(client: Client) -> None:
            try:
                # In the thread as well: it connects, and the server answers on this loop.
                await asyncio.to_thread(lambda: script(api_of(plan.folder / "kubeconfig")))
            finally:
                stop.set()

        await run_cluster(plan, stop, [work])

    asyncio.run(main())


def phase_of(api: Api, job: str, wanted: str) -> None:
    for event in api._transport.events(JOBS, {"watch": "true", "timeoutSeconds": "60"}, {}):
        status = event["object"].get("status", {})
        if event["object"]["metadata"]["name"] == job and status.get("state", {}).get("phase") == wanted:
            return
    raise AssertionError(f"{job} is never {wanted}")


def test_processes_logs_and_a_restart(tmp_path: Path) -> None:
    machines = [Machines(["node-0"], {"cpu": "4", "memory": "8Gi", "pods": "110"})]
    plan = Plan(folder=tmp_path / "data", persistent=True, machines=machines, runs_processes=True, period=0.2)

    def first(api: Api) -> None:
        api.create(JOBS, volcano_job("greet", 2, ["sh", "-c", 'echo "$GREETING $(NAME)"; test $(NAME) = $NAME']))
        api.create(JOBS, volcano_job("fail", 1, ["sh", "-c", "echo broken >&2; exit 3"]))
        phase_of(api, "greet", "Completed")
        phase_of(api, "fail", "Failed")
        log = api.call("GET", f"{PODS}/greet-main-1/log")
        assert (log.status, log.body["message"]) == (200, "hello greet-main-1\n")
        failed = api.get(f"{PODS}/fail-main-0")
        assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        assert api.call("GET", f"{PODS}/fail-main-0/log", tailLines=1).body["message"] == "broken\n"
        api.create(JOBS, volcano_job("long", 1, ["sleep", "600"]))
        phase_of(api, "long", "Running")

    def second(api: Api) -> None:
        assert api.get(f"{JOBS}/greet")["status"]["state"]["phase"] == "Completed"
        phase_of(api, "long", "Failed")  # its process ended with the first cluster
        api.delete(f"{JOBS}/greet", {"propagationPolicy": "Background"})

    in_cluster(plan, first)
    in_cluster(plan, second)


def test_nodes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    metadata = "metadata: {name: %s, labels: {pool: %s}}"
    manifest = f"apiVersion: v1\nkind: Node\n{metadata}\nstatus: {{allocatable: {{cpu: %d}}}}\n"
    path.write_text("---\n".join(manifest % one for one in (("a", "x", 4), ("b", "x", 4), ("c", "y", 8))))
    first, second = read_machines(path)
    assert (list(first.names), first.capacity, first.labels) == (["a", "b"], {"cpu": 4, "pods": "110"}, {"pool": "x"})
    assert list(second.names) == ["c"]
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    with pytest.raises(UserError, match="must be a Node"):
        read_machines(path)


def test_options_that_make_no_sense(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    for arguments, problem in (
        (["--for", "soon"], "--for"),
        (["--node-cpu", "many"], "--node-cpu"),
        (["--apiserver", "real"], "needs KUBEBUILDER_ASSETS"),
        (["--demo", "--nodes-file", __file__], "leave out --nodes-file"),
    ):
        assert run(["up", *arguments]) == 2
        assert problem in capsys.readouterr().err


def test_pods_for_the_default_scheduler_run_as_well(tmp_path: Path) -> None:
    """What `kubectl run` creates names no scheduler, and there is no other one here."""
    machines = [Machines(["node-0"], {"cpu": "4", "memory": "8Gi", "pods": "110"})]
    plan = Plan(folder=tmp_path / "data", persistent=False, machines=machines, period=0.2)
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}

    def script(api: Api) -> None:
        assert api.create(PODS, plain)["spec"]["schedulerName"] == "volcano"
        for event in api._transport.events(PODS, {"watch": "true", "timeoutSeconds": "60"}, {}):
            if event["object"]["status"]["phase"] == "Running":
                break
        else:
            raise AssertionError("the pod never runs")
        # Applied again as it was written.
        again = {"spec": {"schedulerName": "default-scheduler"}}
        assert api.call("PATCH", f"{PODS}/plain", again, kind=MERGE).status == 200

    in_cluster(plan, script)


def test_the_server_has_the_policies(tmp_path: Path) -> None:
    """Pods, too, are judged, and what is left out is filled in, as on a cluster of this version."""
    machines = [Machines(["node-0"], {"cpu": "4", "memory": "8Gi", "pods": "110"})]
    plan = Plan(folder=tmp_path / "data", persistent=True, machines=machines, period=0.2)
    container = {"name": "main", "image": "none"}
    metadata = {"name": "plain", "annotations": {"volcano.sh/jdb-min-available": "0"}}

    def script(api: Api) -> None:
        refused = api.call("POST", PODS, {"metadata": metadata, "spec": {"containers": [container]}})
        assert refused.status == 422
        assert "must be a number of pods from 1" in refused.body["message"]
        job = volcano_job("greet", 2, ["true"])
        del job["spec"]["minAvailable"]
        made = api.create(JOBS, job)
        assert made["spec"]["minAvailable"] == 2
        assert made["metadata"]["annotations"]["scheduling.stromboli.io/user"] == "admin"
        phase_of(api, "greet", "Running")
        api.delete(f"{JOBS}/greet")

    in_cluster(plan, script)
    in_cluster(plan, script)  # what is there already is brought up to date


def test_the_configuration_is_published(tmp_path: Path) -> None:
    """So that `stromboli why` decides as the scheduler does, without --config. A recording can be replayed."""
    config = tmp_path / "scheduler.yaml"
    config.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n')
    machines = [Machines(["node-0"], {"cpu": "4", "memory": "8Gi", "pods": "110"})]
    plan = Plan(
        folder=tmp_path / "data", persistent=False, machines=machines, period=0.2, config=config,
        record=tmp_path / "decisions.jsonl",
    )  # fmt: skip

    def script(api: Api) -> None:
        path = "/api/v1/namespaces/stromboli-system/configmaps"
        for event in api._transport.events(path, {"watch": "true", "timeoutSeconds": "60"}, {}):
            if event["object"]["metadata"]["name"] == "stromboli-scheduler":
                assert event["object"]["data"] == {"stromboli.yaml": config.read_text()}
                break
        source = Source(kubeconfig=tmp_path / "data" / "kubeconfig")
        source.read()
        assert source.configuration == "ConfigMap stromboli-system/stromboli-scheduler"
        assert [action.name for action in source.scheduling()[1].actions] == ["enqueue", "allocate"]

    in_cluster(plan, script)
    assert run(["replay", str(tmp_path / "decisions.jsonl")]) == 0


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["up", "--port", str(port), "--nodes", "1", "--for", "1s"]) == 2
    told = f"cannot serve the API on 127.0.0.1:{port}: Address already in use; choose another --port"
    assert capsys.readouterr().err == f"stromboli: error: {told}\n"


def test_it_has_the_options_of_containment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Plan] = []

    async def run_nothing(plan: Plan, *rest: object) -> None:
        seen.append(plan)

    monkeypatch.setattr("stromboli.console.up.cluster.run_cluster", run_nothing)
    folder = str(tmp_path / "errors")
    assert run(["up", "--nodes", "1", "--cycle-budget", "3s", "--error-recordings", folder]) == 0
    assert [(plan.cycle_budget, str(plan.error_recordings)) for plan in seen] == [(3.0, folder)]
