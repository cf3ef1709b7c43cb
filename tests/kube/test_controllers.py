"""The controllers on a real API server. There is no scheduler and no kubelet: the test does what they would do."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kube.client import Client, Refused, eventually
from kube.crd_install import install_crds
from kube.server import ApiServer
from stromboli.kube.client import Client as OurClient
from stromboli.kube.client import TokenBucket, load_client_config
from stromboli.kube.controllers import ControllerMetrics, ControllersComponent
from stromboli.kube.runtime import LoopLag, ProcessMetrics, SoleReplica

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


class Place:
    """Where the objects of one namespace are, and what happens to them."""

    def __init__(self, admin: Client, namespace: str) -> None:
        self.admin = admin
        self.namespace = namespace
        self.core = f"/api/v1/namespaces/{namespace}"
        self.pods = f"{self.core}/pods"
        self.groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
        self.jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
        self.commands = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands"

    def submit(self, name: str, tasks: list[dict[str, Any]], **spec: Any) -> Any:
        body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
        return self.admin.create(self.jobs, {**body, "spec": {"tasks": tasks, **spec}})

    def admit(self, job: Any, version: int = 0) -> None:
        """What a scheduler does to the group of a job's version when it enqueues it."""
        group = f"{self.groups}/{job['metadata']['name']}-{job['metadata']['uid']}"

        def is_there() -> bool:
            found = self.find(group)
            return found is not None and found["metadata"]["annotations"]["volcano.sh/job-version"] == str(version)

        eventually(is_there)
        self.admin.patch(f"{group}/status", {"status": {"phase": "Inqueue"}})

    def become(self, pod: str, phase: str, exit_code: int = 0) -> None:
        """What a kubelet says of a pod."""
        state = {"terminated": {"exitCode": exit_code}} if phase in ("Succeeded", "Failed") else {"running": {}}
        said = {"name": "main", "image": "work", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        self.admin.patch(f"{self.pods}/{pod}/status", {"status": {"phase": phase, "containerStatuses": [said]}})

    def order(self, action: str, kind: str, name: str) -> str:
        version = "scheduling.volcano.sh/v1beta1" if kind == "Queue" else "batch.volcano.sh/v1alpha1"
        target = {"apiVersion": version, "kind": kind, "name": name}
        folder = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands" if kind == "Queue" else self.commands
        made = self.admin.create(
            folder,
            {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"generateName": "order-"},
                "action": action,
                "target": target,
            },
        )
        return f"{folder}/{made['metadata']['name']}"

    def names(self, path: str) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.admin.list(path))

    def phase(self, job: str) -> str:
        return str(self.admin.get(f"{self.jobs}/{job}").get("status", {}).get("state", {}).get("phase", ""))

    def find(self, path: str) -> Any | None:
        try:
            return self.admin.get(path)
        except Refused as refused:
            if refused.reason != "NotFound":
                raise
            return None

    def exists(self, path: str) -> bool:
        return self.find(path) is not None

    def events(self, reason: str) -> list[str]:
        return [e["message"] for e in self.admin.list(f"{self.core}/events") if e["reason"] == reason]


@contextmanager
def running(kubeconfig: Path, scheduler_name: str = "volcano") -> Iterator[None]:
    """The process, on a loop of its own."""
    begun = threading.Event()
    ending: list[Callable[[], None]] = []
    problems: list[BaseException] = []

    async def live() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        ending.append(lambda: loop.call_soon_threadsafe(stop.set) and None)
        async with OurClient(load_client_config(kubeconfig)) as client:
            process = ControllersComponent(
                client,
                leadership=SoleReplica(),
                scheduler_name=scheduler_name,
                bucket=lambda: TokenBucket(2000, 2000),
                metrics=ControllerMetrics(ProcessMetrics(CollectorRegistry(), LoopLag())),
            )
            begun.set()
            await process.run(stop)

    def work() -> None:
        try:
            asyncio.run(live())
        except BaseException as problem:
            problems.append(problem)
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(30)
    try:
        yield
    finally:
        ending[0]()
        thread.join(30)
        assert not thread.is_alive()
        assert not problems, problems


@pytest.fixture
def place(admin: Client, namespace: str) -> Place:
    install_crds(admin)
    return Place(admin, namespace)


@pytest.fixture
def controllers(place: Place, kubeconfig: Path) -> Iterator[None]:
    with running(kubeconfig):
        yield


def task(name: str, replicas: int, **facts: Any) -> dict[str, Any]:
    template = facts.pop("template", {"spec": {"containers": [{"name": "main", "image": "work"}]}})
    return {"name": name, "replicas": replicas, "template": template, **facts}


@pytest.mark.usefixtures("controllers")
def test_pods_of_a_job_carry_everything_that_their_template_says(place: Place) -> None:
    written = {
        "metadata": {"labels": {"app": "mesh"}},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": 1000},
            "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["store"]}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/mesh:1",
                    "command": ["mesh"],
                    "env": [{"name": "A", "value": "1"}],
                    "workingDir": "/mesh",
                    "resources": {"requests": {"cpu": "1"}},
                }
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    }
    job = place.submit("mesh", [task("boss", 1, template=written), task("crew", 2)], plugins={"env": []})
    place.admit(job)

    eventually(lambda: place.names(place.pods) == ["mesh-boss-0", "mesh-crew-0", "mesh-crew-1"])
    boss = place.admin.get(f"{place.pods}/mesh-boss-0")
    spec, main = boss["spec"], boss["spec"]["containers"][0]
    assert spec["schedulerName"] == "volcano"
    assert spec["restartPolicy"] == "Never"
    assert spec["securityContext"] == {"runAsUser": 1000}
    assert spec["hostAliases"] == [{"ip": "10.1.2.3", "hostnames": ["store"]}]
    assert {"name": "scratch", "emptyDir": {}} in spec["volumes"]
    assert (main["image"], main["command"], main["workingDir"]) == ("registry.example/mesh:1", ["mesh"], "/mesh")
    assert {"name": "A", "value": "1"} in main["env"]
    assert {"name": "VC_TASK_INDEX", "value": "0"} in main["env"]
    assert boss["metadata"]["labels"]["app"] == "mesh"
    assert boss["metadata"]["labels"]["volcano.sh/job-name"] == "mesh"
    assert boss["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    group = place.admin.get(f"{place.groups}/mesh-{job['metadata']['uid']}")
    assert group["spec"]["minMember"] == 3


@pytest.mark.usefixtures("controllers")
def test_a_job_restarts_when_its_policy_says_so_and_fails_in_the_end(place: Place) -> None:
    job = place.submit(
        "flaky", [task("main", 2)], policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=2
    )
    place.admit(job)
    eventually(lambda: place.names(place.pods) == ["flaky-main-0", "flaky-main-1"])
    first = place.admin.get(f"{place.pods}/flaky-main-0")["metadata"]["uid"]
    for pod in ("flaky-main-0", "flaky-main-1"):
        place.become(pod, "Running")
    eventually(lambda: place.phase("flaky") == "Running")

    place.become("flaky-main-1", "Failed", 3)

    eventually(lambda: place.admin.get(f"{place.jobs}/flaky")["status"].get("retryCount") == 1)
    place.admit(job, version=1)
    eventually(lambda: place.names(place.pods) == ["flaky-main-0", "flaky-main-1"])
    assert place.admin.get(f"{place.pods}/flaky-main-0")["metadata"]["uid"] != first
    place.become("flaky-main-0", "Failed", 3)
    eventually(lambda: place.phase("flaky") == "Failed")
    assert place.admin.get(f"{place.jobs}/flaky")["status"]["retryCount"] == 2
    eventually(lambda: place.events("ExecuteAction"))


@pytest.mark.usefixtures("controllers")
def test_a_job_completes_and_is_deleted_after_its_ttl(place: Place) -> None:
    job = place.submit("short", [task("main", 1)], ttlSecondsAfterFinished=1)
    place.admit(job)
    eventually(lambda: place.names(place.pods) == ["short-main-0"])

    place.become("short-main-0", "Succeeded")

    eventually(lambda: not place.exists(f"{place.jobs}/short"))


@pytest.mark.usefixtures("controllers")
def test_a_job_is_scaled_up_and_down_with_its_hosts_file(place: Place) -> None:
    plugins = {"svc": [], "ssh": []}
    job = place.submit("mpi", [task("worker", 1)], plugins=plugins)
    place.admit(job)
    eventually(lambda: place.names(place.pods) == ["mpi-worker-0"])

    lists = place.admin.get(f"{place.core}/configmaps/mpi-svc")
    assert lists["data"]["worker.host"] == "mpi-worker-0.mpi"
    assert lists["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    service = place.admin.get(f"{place.core}/services/mpi")["spec"]
    assert service["clusterIP"] == "None"
    assert service["selector"]["volcano.sh/job-name"] == "mpi"
    assert place.exists(f"/apis/networking.k8s.io/v1/namespaces/{place.namespace}/networkpolicies/mpi")
    uid = place.admin.get(f"{place.jobs}/mpi")["metadata"]["uid"]
    secret = place.admin.get(f"{place.core}/secrets/mpi-ssh-{uid}")["data"]
    assert base64.b64decode(secret["id_rsa"]).startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    pod = place.admin.get(f"{place.pods}/mpi-worker-0")["spec"]
    assert (pod["hostname"], pod["subdomain"]) == ("mpi-worker-0", "mpi")
    assert {"name": "mpi-svc", "mountPath": "/etc/volcano"} in pod["containers"][0]["volumeMounts"]

    place.admin.patch(f"{place.jobs}/mpi", {"spec": {"tasks": [task("worker", 3)]}})
    eventually(lambda: place.names(place.pods) == ["mpi-worker-0", "mpi-worker-1", "mpi-worker-2"])
    hosts = place.admin.get(f"{place.core}/configmaps/mpi-svc")["data"]["VC_WORKER_HOSTS"]
    assert hosts == "mpi-worker-0.mpi,mpi-worker-1.mpi,mpi-worker-2.mpi"
    assert place.admin.get(f"{place.core}/secrets/mpi-ssh-{uid}")["data"] == secret

    place.admin.patch(f"{place.jobs}/mpi", {"spec": {"tasks": [task("worker", 2)]}})
    eventually(lambda: place.names(place.pods) == ["mpi-worker-0", "mpi-worker-1"])


@pytest.mark.usefixtures("controllers")
def test_a_volume_claim_is_made_for_a_job(place: Place) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    job = place.submit("deep", [task("main", 1)], volumes=[{"mountPath": "/data", "volumeClaim": claim}])
    place.admit(job)

    eventually(lambda: place.names(place.pods) == ["deep-main-0"])
    made = place.admin.get(f"{place.core}/persistentvolumeclaims/deep-volume-0")
    assert made["spec"]["resources"]["requests"] == {"storage": "1Gi"}
    pod = place.admin.get(f"{place.pods}/deep-main-0")["spec"]
    assert {"name": "volume-0", "persistentVolumeClaim": {"claimName": "deep-volume-0"}} in pod["volumes"]
    assert {"name": "volume-0", "mountPath": "/data"} in pod["containers"][0]["volumeMounts"]


@pytest.mark.usefixtures("controllers")
def test_a_queue_is_closed_and_opened_by_commands(place: Place) -> None:
    name = f"q-{place.namespace}"
    queue = f"{QUEUES}/{name}"
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    place.admin.create(QUEUES, {**body, "spec": {"weight": 1}})
    try:
        eventually(lambda: place.admin.get(queue).get("status", {}).get("state") == "Open")
        command = place.order("CloseQueue", "Queue", name)
        eventually(lambda: place.admin.get(queue)["status"]["state"] == "Closed")
        assert not place.exists(command)
        place.order("OpenQueue", "Queue", name)
        eventually(lambda: place.admin.get(queue)["status"]["state"] == "Open")
    finally:
        place.admin.delete(queue)
    eventually(lambda: {"default", "root"} <= set(place.names(QUEUES)))


@pytest.mark.usefixtures("controllers")
def test_a_job_is_aborted_and_resumed_by_commands(place: Place) -> None:
    job = place.submit("stop", [task("main", 1)])
    place.admit(job)
    eventually(lambda: place.names(place.pods) == ["stop-main-0"])
    place.become("stop-main-0", "Running")

    place.order("AbortJob", "Job", "stop")
    eventually(lambda: place.phase("stop") == "Aborted")
    assert place.names(place.pods) == []
    place.order("ResumeJob", "Job", "stop")
    place.admit(job, version=2)
    eventually(lambda: place.names(place.pods) == ["stop-main-0"])


@pytest.mark.usefixtures("controllers")
def test_plain_pods_get_a_group_and_it_goes_with_them(place: Place) -> None:
    spec = {"schedulerName": "volcano", "containers": [{"name": "main", "image": "work"}]}
    pod = place.admin.create(place.pods, {"metadata": {"name": "alone"}, "spec": spec})
    place.admin.create(
        place.pods, {"metadata": {"name": "other"}, "spec": {**spec, "schedulerName": "default-scheduler"}}
    )
    group = f"podgroup-{pod['metadata']['uid']}"

    def said(name: str) -> str | None:
        annotations = place.admin.get(f"{place.pods}/{name}")["metadata"].get("annotations", {})
        return annotations.get("scheduling.k8s.io/group-name")  # type: ignore[no-any-return]

    eventually(lambda: said("alone") == group)
    assert place.names(place.groups) == [group]
    assert said("other") is None
    place.admin.delete(f"{place.pods}/alone", gracePeriodSeconds=0)
    eventually(lambda: place.names(place.groups) == [])


@pytest.mark.usefixtures("controllers")
@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_owners_of_pods_name_their_queue(place: Place, kind: str) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "work"}]}}
    owner = place.admin.create(
        f"/apis/apps/v1/namespaces/{place.namespace}/{kind.lower()}s",
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": "web", "annotations": {"scheduling.volcano.sh/queue-name": "research"}},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template, "serviceName": "web"},
        },
    )
    # Nobody here makes pods from a template.
    uid = owner["metadata"]["uid"]
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": True}
    metadata = {"name": "web-0", "labels": labels, "ownerReferences": [reference]}
    spec = {"schedulerName": "volcano", **template["spec"]}
    place.admin.create(place.pods, {"metadata": metadata, "spec": spec})
    group = f"{place.groups}/podgroup-{uid}"
    eventually(lambda: place.find(group) is not None)
    assert place.admin.get(group)["spec"]["queue"] == "research"


@pytest.mark.usefixtures("controllers")
def test_a_pod_with_more_resources_than_a_group_may_name_gets_its_group(place: Place) -> None:
    asks = {f"example.com/n{number:03}": "1" for number in range(100)}
    container = {"name": "main", "image": "work", "resources": {"requests": asks, "limits": asks}}
    spec = {"schedulerName": "volcano", "containers": [container]}
    pod = place.admin.create(place.pods, {"metadata": {"name": "greedy"}, "spec": spec})
    group = f"{place.groups}/podgroup-{pod['metadata']['uid']}"

    eventually(lambda: place.find(group) is not None)
    assert len(place.admin.get(group)["spec"]["minResources"]) == 64


@pytest.mark.usefixtures("controllers")
def test_pods_that_a_quota_forbids_are_reported_and_created_later(place: Place) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    place.admin.create(f"{place.core}/resourcequotas", quota)
    counted = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}  # nobody else is there to count
    place.admin.patch(f"{place.core}/resourcequotas/none/status", counted)
    job = place.submit("many", [task("main", 20)])
    place.admit(job)
    said = eventually(lambda: place.events("FailedCreate"))
    assert "exceeded quota" in said[0]
    assert len(said) <= 3
    place.admin.delete(f"{place.core}/resourcequotas/none")
    eventually(lambda: len(place.names(place.pods)) == 20, timeout=60)


@pytest.mark.usefixtures("controllers")
def test_an_invalid_job_has_a_reason_and_continues_when_corrected(place: Place) -> None:
    """What no server refuses: too many replicas. They can be changed; most fields of a Job cannot."""
    place.submit("odd", [task("main", 50_001)])

    def state() -> Any:
        return place.admin.get(f"{place.jobs}/odd").get("status", {}).get("state", {})

    eventually(lambda: state().get("reason") == "Invalid")
    assert state()["phase"] == "Pending"
    assert "must have at most 50000 replicas together, not 50001" in state()["message"]
    eventually(lambda: place.events("Invalid"))
    assert place.names(place.groups) == []

    place.admin.patch(f"{place.jobs}/odd", {"spec": {"tasks": [task("main", 1)]}})
    eventually(lambda: len(place.names(place.groups)) == 1)
    eventually(lambda: "reason" not in state())


@pytest.mark.usefixtures("controllers")
def test_a_job_with_an_unknown_plugin_has_a_reason_and_can_be_replaced(place: Place) -> None:
    place.submit("odd", [task("main", 1)], plugins={"magic": []})

    def state() -> Any:
        return place.admin.get(f"{place.jobs}/odd").get("status", {}).get("state", {})

    eventually(lambda: state().get("reason") == "Invalid")
    assert "env, mpi, pytorch, ray, ssh, svc, tensorflow" in state()["message"]
    place.admin.delete(f"{place.jobs}/odd")
    eventually(lambda: not place.exists(f"{place.jobs}/odd"))
    place.submit("odd", [task("main", 1)], plugins={"svc": []})
    eventually(lambda: len(place.names(place.groups)) == 1)


def test_jobs_of_another_scheduler_are_not_changed(place: Place, kubeconfig: Path) -> None:
    theirs = place.submit("theirs", [task("main", 1)])
    ours = place.submit("ours", [task("main", 1)], schedulerName="stromboli")
    command = place.order("AbortJob", "Job", "theirs")
    with running(kubeconfig, scheduler_name="stromboli"):
        eventually(lambda: place.names(place.groups) == [f"ours-{ours['metadata']['uid']}"])
        assert place.phase("theirs") == ""
        assert place.exists(command)
        assert place.exists(f"{place.jobs}/{theirs['metadata']['name']}")


def test_a_restart_at_any_moment_loses_nothing(place: Place, kubeconfig: Path) -> None:
    with running(kubeconfig):
        job = place.submit(
            "again", [task("main", 2)], policies=[{"event": "PodFailed", "action": "RestartJob"}], plugins={"svc": []}
        )
        place.admit(job)
    with running(kubeconfig):
        eventually(lambda: place.names(place.pods) == ["again-main-0", "again-main-1"])
    place.become("again-main-0", "Failed", 1)
    with running(kubeconfig):
        eventually(lambda: place.admin.get(f"{place.jobs}/again")["status"].get("retryCount") == 1)
    with running(kubeconfig):
        place.admit(job, version=1)
        eventually(lambda: place.names(place.pods) == ["again-main-0", "again-main-1"])
        eventually(lambda: place.admin.get(f"{place.pods}/again-main-0")["status"]["phase"] == "Pending")
    assert place.admin.get(f"{place.jobs}/again")["status"]["retryCount"] == 1


def test_a_pod_evicted_while_no_controller_runs_is_handled_by_the_next(place: Place, kubeconfig: Path) -> None:
    with running(kubeconfig):
        job = place.submit("alone", [task("main", 2)], policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        place.admit(job)
        eventually(lambda: place.admin.get(f"{place.jobs}/alone")["status"].get("livePods") == {"main": "0-1"})
    place.admin.delete(f"{place.pods}/alone-main-1")
    eventually(lambda: place.names(place.pods) == ["alone-main-0"])
    with running(kubeconfig):
        eventually(lambda: place.admin.get(f"{place.jobs}/alone")["status"].get("retryCount") == 1)
        place.admit(job, version=1)
        eventually(lambda: place.names(place.pods) == ["alone-main-0", "alone-main-1"])
        eventually(lambda: place.admin.get(f"{place.jobs}/alone")["status"].get("livePods") == {"main": "0-1"})
    assert place.admin.get(f"{place.jobs}/alone")["status"]["retryCount"] == 1


@pytest.mark.usefixtures("controllers")
def test_an_outage_loses_nothing(place: Place, api_server: ApiServer) -> None:
    job = place.submit(
        "through", [task("main", 30)], policies=[{"event": "PodFailed", "action": "RestartJob"}], plugins={"svc": []}
    )
    place.admit(job)
    api_server.kill()
    api_server.start()
    wanted = sorted(f"through-main-{index}" for index in range(30))
    eventually(lambda: place.names(place.pods) == wanted, timeout=60)
    api_server.forget()  # and with it, where the watches were
    place.become("through-main-7", "Failed", 1)
    eventually(lambda: place.admin.get(f"{place.jobs}/through")["status"].get("retryCount") == 1, timeout=60)
    place.admit(job, version=1)
    eventually(lambda: place.names(place.pods) == wanted, timeout=60)
    assert place.admin.get(f"{place.jobs}/through")["status"]["retryCount"] == 1


@pytest.mark.usefixtures("controllers")
def test_what_a_server_cannot_refuse_is_rejected_or_warned_about(place: Place) -> None:
    """A child queue with more than its parent, a Job for it, and a field without effect."""
    outer, inner = f"{place.namespace}-outer", f"{place.namespace}-inner"

    def conditions(name: str) -> list[tuple[str, str]]:
        status = place.admin.get(f"{QUEUES}/{name}").get("status", {})
        return [(c["type"], c["status"]) for c in status.get("conditions", [])]

    def queue(name: str, **spec: Any) -> None:
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        place.admin.create(QUEUES, {**body, "spec": spec})

    queue(outer, capability={"cpu": "4"})
    eventually(lambda: place.admin.get(f"{QUEUES}/{outer}").get("status", {}).get("state") == "Open")
    queue(inner, parent=outer, capability={"cpu": "5"})
    eventually(lambda: conditions(inner) == [("Accepted", "False")])
    assert conditions(outer) == []
    place.submit("odd", [task("main", 1)], queue=inner, policies=[{"event": "JobUpdated", "action": "RestartJob"}])
    refused = eventually(lambda: place.events("Refused"))
    assert refused == [f'spec.queue: the queue "{inner}" is invalid, so it accepts no jobs; its condition says why']
    assert eventually(lambda: place.events("NoEffect")) == [
        "Without effect in this version: spec.policies[0] for JobUpdated."
    ]

    place.admin.patch(f"{QUEUES}/{inner}", {"spec": {"capability": {"cpu": "3"}}})
    eventually(lambda: conditions(inner) == [])
