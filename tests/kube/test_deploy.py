"""deploy/ on a real API server: it is accepted, keeps what users write, and grants no needless permission."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.accounts import start_process, token_of
from kube.client import Client, Refused, eventually
from kube.cluster import NODES, QUEUES, Cluster, configuration
from kube.conftest import Kubectl
from kube.crd_install import server_version
from kube.moves import LOW_NODES, apply_with, own_address, policy_file, state_of, two_nodes
from kube.rbac import (
    ACCOUNTS,
    CONTROLLERS,
    DESCHEDULER,
    EVERYBODY,
    JOB_PLUGINS,
    LEASES,
    NAMESPACE,
    NOT_SEEN,
    SCHEDULER,
    VERBS,
    Permission,
    permissions,
)
from kube.server import ApiServer
from kube.volume_story import volume_story
from live.kustomize import DEPLOY, WAYS, render
from stromboli.api.rules.rule import DEFINITIONS as FIRST_RULES
from stromboli.api.rules.rule import POLICIES

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
EXAMPLES = yaml.safe_load((Path(__file__).parent / "volcano.yaml").read_text(encoding="utf-8"))["items"]


def way_for(server: tuple[int, int]) -> str:
    return "overlays/before-1.25" if server < FIRST_RULES else "." if server < POLICIES else "overlays/since-1.30"


@pytest.fixture(scope="module")
def manifests(api_server: ApiServer) -> str:
    """What fits this server, and the descheduler; without its budget, whose version old servers do not know."""
    added = [one for one in render(DEPLOY / "descheduler") if one["kind"] != "PodDisruptionBudget"]
    return yaml.safe_dump_all(render(WAYS[way_for(server_version(api_server.client()))]) + added)


@pytest.fixture(scope="module")
def installed(api_server: ApiServer, manifests: str) -> ApiServer:
    api_server.kubectl("apply", "-f", "-", stdin=manifests)
    admin = api_server.client()
    for definition in yaml.safe_load_all(manifests):
        if definition["kind"] == "CustomResourceDefinition":
            eventually(lambda name=definition["metadata"]["name"]: _is_served(admin, name))
    return api_server


def _is_served(admin: Client, name: str) -> bool:
    conditions = admin.get(f"{DEFINITIONS}/{name}")["status"].get("conditions") or ()
    standing = {condition["type"]: condition["status"] for condition in conditions}
    assert standing.get("NonStructuralSchema", "False") == "False"
    return standing.get("Established") == "True" and standing.get("NamesAccepted") == "True"


# -- what is taken ----------------------------------------------------------------------------------------------


def test_everything_is_there_and_a_second_time_changes_nothing(
    installed: ApiServer, manifests: str, kubectl: Kubectl
) -> None:
    def versions() -> dict[tuple[str, str], str]:
        found = json.loads(kubectl("get", "--output", "json", "-f", "-", stdin=manifests))["items"]
        return {(one["kind"], one["metadata"]["name"]): one["metadata"]["resourceVersion"] for one in found}

    before = versions()
    assert len(before) == len(list(yaml.safe_load_all(manifests)))
    kubectl("apply", "-f", "-", stdin=manifests)
    assert versions() == before


def test_short_names_and_columns(installed: ApiServer, kubectl: Kubectl, admin: Client, namespace: str) -> None:
    with existing(admin, namespace, EXAMPLES):
        kubectl("api-resources")  # it has looked before the definitions were there, and remembers
        queue = kubectl("get", "q", "kept-queue").splitlines()
        assert queue[0].split() == ["NAME", "STATE", "WEIGHT", "PARENT", "CPU", "MEMORY", "RUNNING", "PENDING", "AGE"]
        assert queue[1].split()[:3] == ["kept-queue", "3", "root"]
        for short, name in (
            ("pg", "kept-group"),
            ("vcjob", "kept-job"),
            ("vj", "kept-job"),
            ("resv", "kept-reservation"),
        ):
            assert name in kubectl("get", short, "--namespace", namespace)


# -- what is kept -----------------------------------------------------------------------------------------------


class existing:
    """Objects that are there for the time of a `with` block, as the server then has them."""

    def __init__(self, admin: Client, namespace: str, documents: list[dict[str, Any]]) -> None:
        self._admin = admin
        self._namespace = namespace
        self._documents = documents

    def __enter__(self) -> list[dict[str, Any]]:
        for document in self._documents:
            self._admin.create(self._folder(document), document)
        return [self._admin.get(self._path(document)) for document in self._documents]

    def __exit__(self, *_: object) -> None:
        for document in self._documents:
            self._admin.delete(self._path(document))

    def _path(self, document: dict[str, Any]) -> str:
        return f"{self._folder(document)}/{document['metadata']['name']}"

    def _folder(self, document: dict[str, Any]) -> str:
        root, kind = f"/apis/{document['apiVersion']}", document["kind"]
        inside = "" if kind in ("Queue", "Reservation") else f"/namespaces/{self._namespace}"
        return f"{root}{inside}/{kind.lower()}s"


def test_nothing_of_what_users_write_is_lost(installed: ApiServer, admin: Client, namespace: str) -> None:
    with existing(admin, namespace, EXAMPLES) as kept:
        for written, found in zip(EXAMPLES, kept, strict=True):
            assert list(_missing(written, found, written["kind"])) == []


def _missing(written: Any, found: Any, path: str) -> Iterator[str]:
    """The places where what was found has not at least what was written."""
    if isinstance(written, dict) and isinstance(found, dict):
        for name, part in written.items():
            if name not in found:
                yield f"{path}.{name}"
            else:
                yield from _missing(part, found[name], f"{path}.{name}")
    elif isinstance(written, list) and isinstance(found, list) and len(written) == len(found):
        for index, (part, other) in enumerate(zip(written, found, strict=True)):
            yield from _missing(part, other, f"{path}[{index}]")
    elif written != found:
        yield path


def test_kubectl_takes_what_users_of_volcano_write(installed: ApiServer, kubectl: Kubectl, namespace: str) -> None:
    text = yaml.safe_dump_all(EXAMPLES)
    assert len(kubectl("apply", "--namespace", namespace, "-f", "-", stdin=text).splitlines()) == len(EXAMPLES)
    kubectl("delete", "--namespace", namespace, "-f", "-", stdin=text)


def test_defaults_are_filled_in(installed: ApiServer, admin: Client, namespace: str) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    documents = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "filled"}},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "filled"}},
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "filled"},
            "spec": {"tasks": [{"template": template}]},
        },
    ]
    with existing(admin, namespace, documents) as (queue, group, job):
        assert queue["spec"] == {"weight": 1, "reclaimable": True, "dequeueStrategy": "traverse"}
        assert group["spec"] == {"queue": "default"}
        assert job["spec"] == {
            "schedulerName": "volcano",
            "queue": "default",
            "maxRetry": 3,
            "tasks": [{"replicas": 0, "maxRetry": 3, "template": template}],
        }


def test_the_status_is_a_subresource(installed: ApiServer, admin: Client, namespace: str) -> None:
    with existing(admin, namespace, EXAMPLES[:1]):
        path = "/apis/scheduling.volcano.sh/v1beta1/queues/kept-queue"
        admin.patch(path, {"status": {"state": "Closed"}})
        assert "status" not in admin.get(path)
        admin.patch(
            f"{path}/status", {"status": {"state": "Open", "allocated": {"cpu": "1500m"}}, "spec": {"weight": 9}}
        )
        found = admin.get(path)
        assert (found["status"]["state"], found["spec"]["weight"]) == ("Open", 3)


# -- what is allowed --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything(installed: ApiServer) -> list[tuple[str, str, bool]]:
    """Group, name and whether it is in namespaces, of every resource and subresource that the server knows."""
    admin = installed.client()
    versions = [version["groupVersion"] for group in admin.get("/apis")["groups"] for version in group["versions"]]
    found = {
        (group_version.rpartition("/")[0], resource["name"], resource["namespaced"])
        for group_version in ["v1", *versions]
        for resource in admin.get(f"/{'apis' if '/' in group_version else 'api'}/{group_version}")["resources"]
    }
    assert ("batch.volcano.sh", "jobs", True) in found
    return sorted(found)


Ask = Callable[..., bool]


@pytest.fixture(params=ACCOUNTS)
def account(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def may(account: str, admin: Client) -> Ask:
    def ask(**attributes: str) -> bool:
        kind = "nonResourceAttributes" if "path" in attributes else "resourceAttributes"
        review = {
            "spec": {
                "user": f"system:serviceaccount:{NAMESPACE}:{account}",
                "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"],
                kind: attributes,
            }
        }
        allowed: bool = admin.create(REVIEWS, review)["status"]["allowed"]
        return allowed

    return ask


def test_accounts_may_do_what_they_need_and_nothing_else(
    account: str, may: Ask, everything: list[tuple[str, str, bool]]
) -> None:
    needed = set(permissions(ACCOUNTS[account]))
    known = {(group, name) for group, name, _ in everything}
    questions = [(verb, group, resource) for group, resource in known for verb in VERBS]
    questions += [permission for permission in needed if permission[1:] not in known]
    questions += [("*", "*", "*"), ("get", "*", "*"), ("impersonate", "", "users"), ("impersonate", "", "groups")]

    def ask(question: tuple[str, str, str]) -> bool:
        verb, group, resource = question
        name, _, part = resource.partition("/")
        return may(verb=verb, group=group, resource=name, subresource=part, namespace="default")

    with ThreadPoolExecutor(8) as pool:
        allowed = {question for question, yes in zip(questions, pool.map(ask, questions), strict=True) if yes}
    assert allowed - needed - set(permissions(EVERYBODY)) == set(), "more than needed"
    assert needed - allowed == set(), "less than needed"


@pytest.fixture
def job_plugins(admin: Client) -> Iterator[None]:
    """The component job-plugins is applied."""
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stromboli-controllers"
    before = admin.get(role)["rules"]
    [patched] = [
        one
        for one in render(WAYS["overlays/job-plugins"])
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == "stromboli-controllers"
    ]
    admin.patch(role, {"rules": patched["rules"]})
    yield
    admin.patch(role, {"rules": before})


@pytest.mark.usefixtures("job_plugins")
@pytest.mark.parametrize("account", ["stromboli-controllers"], indirect=True)
def test_the_component_allows_what_plugins_need(may: Ask) -> None:
    for verb, group, resource in permissions(JOB_PLUGINS):
        assert may(verb=verb, group=group, resource=resource, namespace="default")
    assert [verb for verb in VERBS if may(verb=verb, group="", resource="secrets", namespace="default")] == ["create"]


def test_leases_are_their_own_and_where_they_run(account: str, may: Ask) -> None:
    def lease(verb: str, name: str = "", namespace: str = NAMESPACE) -> bool:
        return may(verb=verb, group="coordination.k8s.io", resource="leases", name=name, namespace=namespace)

    other = next(name for name in ACCOUNTS if name != account)
    assert [verb for verb in VERBS if lease(verb, account)] == ["get", "create", "update"]
    assert [verb for verb in VERBS if lease(verb, other)] == ["create"]
    assert [verb for verb in VERBS if lease(verb)] == ["create"]
    assert [verb for verb in VERBS if lease(verb, account, "kube-system")] == []


def test_accounts_may_not_read_diagnostic_paths(may: Ask) -> None:
    assert may(path="/healthz", verb="get")
    assert may(path="/apis", verb="get")
    for path in ("/metrics", "/logs", "/debug/pprof", "/*"):
        assert not may(path=path, verb="get")


def test_a_service_account_token_grants_just_these_permissions(
    installed: ApiServer, admin: Client, account: str
) -> None:
    """The reviews above are the authorizer's word; this is what it does."""
    client = installed.client(token_of(admin, account))
    assert client.list("/api/v1/pods") is not None
    assert client.list("/apis/scheduling.volcano.sh/v1beta1/podgroups") is not None
    for refused in (
        lambda: client.list("/api/v1/secrets"),
        lambda: client.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}"),
        lambda: token_of(client, account),
        lambda: client.delete("/apis/scheduling.volcano.sh/v1beta1/queues/default"),
        lambda: client.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "mine"}}),
    ):
        with pytest.raises(Refused) as answer:
            refused()
        assert answer.value.status == 403


# -- what is needed ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("job_plugins")
def test_the_processes_can_do_their_work_with_these_rights(
    installed: ApiServer, cluster: Cluster, tmp_path: Path
) -> None:
    """Everything they ever write is written once, on two nodes of 4 CPUs, and nothing is forbidden."""
    config = tmp_path / "scheduler.yaml"
    config.write_text(configuration(reserve={"starvingJobTimeThreshold": "2s"}), encoding="utf-8")
    processes = [start_process(cluster, "scheduler", "--config", str(config)), start_process(cluster, "controllers")]
    cluster.hollow_nodes(2, cpu=4, volumes=True)
    for process in processes:
        eventually(process.is_ready, timeout=60)

    # A Job with all that a Job can have: it runs, and is removed after its time.
    with volume_story(cluster) as story:
        job = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{cluster.namespace}/jobs"
        cluster.admin.create(job, _job(cluster, story.storage_class("data")))
        eventually(lambda: not cluster.admin.list(job), timeout=120)
        for owned in ("configmaps", "persistentvolumeclaims", "secrets", "services"):
            assert cluster.admin.list(f"/api/v1/namespaces/{cluster.namespace}/{owned}")

    # Two plain pods fill the nodes; a more important one gets the place of one of them, and the next has to wait
    # until somebody leaves.
    for name in ("low-0", "low-1"):
        cluster.pod(name, cpu="4", annotations={"scheduling.k8s.io/group-name": ""})
    cluster.all_bound(["low-0", "low-1"], timeout=60)
    high = cluster.priority_class("high", 1000)
    cluster.group("high", 1, priorityClassName=high)
    cluster.pod("high", cpu="4", priorityClassName=high)
    cluster.all_bound(["high"], timeout=60)
    cluster.single("late", cpu="4")
    [kept] = eventually(cluster.reservations, timeout=60)
    eventually(lambda: _phase(cluster) == "Waiting")
    for name, node in cluster.bound().items():
        if node == cluster.reservations()[0]["status"]["nodeName"]:
            cluster.delete_pod(name)
    cluster.all_bound(["late"], timeout=60)
    eventually(lambda: kept["metadata"]["name"] not in [one["metadata"]["name"] for one in cluster.reservations()])

    # A command that a tenant gives to a queue is refused.
    commands = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{cluster.namespace}/commands"
    if server_version(cluster.admin) < POLICIES:
        cluster.admin.create(commands, _command("CloseQueue", "default"))
        eventually(lambda: cluster.events("CommandRefused"))
    else:
        with pytest.raises(Refused, match="must be one of default"):
            cluster.admin.create(commands, _command("CloseQueue", "default"))
    assert cluster.admin.get(f"{QUEUES}/default").get("status", {}).get("state", "Open") == "Open"

    # A HyperNode is told that it is used.
    member = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"pool": cluster.name}}}}
    spec = {"tier": 1, "members": [member]}
    kind = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": cluster.name}}
    cluster.admin.create(HYPER_NODES, {**kind, "spec": spec})
    eventually(lambda: _is_accepted(cluster))
    cluster.admin.delete(f"{HYPER_NODES}/{cluster.name}")

    # A CronJob creates a Job.
    cron_jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{cluster.namespace}/cronjobs"
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    every = {"schedule": "@every 2s", "jobTemplate": {"spec": {
        "schedulerName": cluster.name, "tasks": [{"replicas": 1, "template": template}],
    }}}  # fmt: skip
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "tick"}}
    cluster.admin.create(cron_jobs, {**kind, "spec": every})
    eventually(lambda: cluster.admin.get(f"{cron_jobs}/tick").get("status", {}).get("lastScheduleTime"), timeout=60)
    assert cluster.admin.list(job)
    cluster.admin.delete(f"{cron_jobs}/tick")

    # A JobFlow creates another.
    flows = f"/apis/flow.volcano.sh/v1alpha1/namespaces/{cluster.namespace}/jobflows"
    one = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": "one"}}
    cluster.admin.create(flows.replace("jobflows", "jobtemplates"), {**one, "spec": every["jobTemplate"]["spec"]})
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "flow"}}
    cluster.admin.create(flows, {**flow, "spec": {"flows": [{"name": "one"}]}})
    eventually(lambda: cluster.admin.get(f"{flows}/flow").get("status", {}).get("jobStatusList"), timeout=60)
    cluster.admin.delete(f"{flows}/flow")

    # A queue is closed by a command.
    queue = cluster.queue("closed")
    commands = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
    cluster.admin.create(commands, _command("CloseQueue", queue))
    eventually(lambda: cluster.admin.get(f"{QUEUES}/{queue}").get("status", {}).get("state") == "Closed")
    eventually(lambda: not cluster.admin.list(commands))

    for process in processes:
        assert process.terminate() == 0
        assert "forbidden" not in process.log
    assert unused(installed, "stromboli-scheduler", SCHEDULER) == {}
    assert unused(installed, "stromboli-controllers", {**CONTROLLERS, **JOB_PLUGINS}) == {}


def test_the_descheduler_can_do_its_work_with_these_rights(installed: ApiServer, cluster: Cluster) -> None:
    """It moves a pod, sets a node aside for a job, protects it from an autoscaler, and asks who may give it orders."""
    processes = [start_process(cluster, "scheduler"), start_process(cluster, "controllers")]
    policy = policy_file(cluster, "24h", "Defragmentation", LOW_NODES)
    address = own_address()
    process = start_process(cluster, "descheduler", "--policy", str(policy), "--keep-nodes", "--probe-host", address)
    processes.append(process)
    for each in processes:
        eventually(each.is_ready, timeout=60)
    with two_nodes(cluster) as (_, y, _, there):
        assert apply_with(process, None)[0] == 401
        assert apply_with(process, "nobody knows it")[0] == 401
        assert apply_with(process, None, method="GET", what="plan")[0] == 401
        reader = token_of(cluster.admin, "stromboli-controllers")  # it may list pods, and evict none
        assert apply_with(process, reader, method="GET", what="plan")[0] == 200
        assert apply_with(process, token_of(cluster.admin, "stromboli-controllers"))[0] == 403
        status, answer = apply_with(process, token_of(cluster.admin, "stromboli-scheduler"))  # it may evict pods
        assert (status, len(answer["plans"])) == (200, 1)
        eventually(lambda: y.runs_on(there), timeout=60)
        eventually(lambda: state_of(cluster, "y") == "Succeeded", timeout=60)

        # On one node 6 of 8 CPUs are in use, on the other none. A pod of 4 goes there. A job of 5 waits then: three
        # pods of x have to leave for it.
        cluster.single("other", cpu="4")
        cluster.all_bound(["other"], timeout=60)
        for name in (node["metadata"]["name"] for node in cluster.admin.list(NODES)):
            notes = {"scheduling.stromboli.io/cooldown-until": None, "scheduling.stromboli.io/emptied-for": None}
            cluster.admin.patch(f"{NODES}/{name}", {"metadata": {"annotations": notes}})
        cluster.single("big", cpu="5")
        eventually(lambda: cluster.group_of("big").get("status", {}).get("phase") == "Inqueue", timeout=60)
        token = token_of(cluster.admin, "stromboli-scheduler")
        status, answer = apply_with(process, token, f"?for={cluster.namespace}/big")
        assert (status, answer["plans"] != []) == (200, True), answer
        cluster.all_bound(["big"], timeout=60)
    for each in processes:
        assert each.terminate() == 0
        assert "forbidden" not in each.log
    assert unused(installed, "stromboli-descheduler", DESCHEDULER) == {}


def unused(server: ApiServer, account: str, granted: Mapping[tuple[str, str], str]) -> dict[Permission, str]:
    """What an account may do and has never asked for, by the audit log of the server, if no reason says why; and what
    it asked for without being granted it here."""
    asked = {(verb, group, resource) for who, verb, group, resource in server.asked() if who == account}
    may, excused = set(permissions(granted)), NOT_SEEN[account]
    found = {right: "never used" for right in may - asked if right not in excused}
    return found | dict.fromkeys(asked - may - set(permissions(EVERYBODY)) - LEASES, "not in the table")


def _is_accepted(cluster: Cluster) -> bool:
    status = cluster.admin.get(f"{HYPER_NODES}/{cluster.name}").get("status", {})
    return ("Accepted", "True") in [(one["type"], one["status"]) for one in status.get("conditions", [])]


def _job(cluster: Cluster, storage_class: str) -> dict[str, Any]:
    container = {"name": "c", "image": "work", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"sim.stromboli.io/run": "1s"}},
        "spec": {"nodeSelector": {"pool": cluster.name}, "restartPolicy": "Never", "containers": [container]},
    }
    claim = {
        "storageClassName": storage_class, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "all"},
        "spec": {
            "schedulerName": cluster.name,
            "plugins": {"env": [], "svc": [], "ssh": []},
            "volumes": [{"mountPath": "/data", "volumeClaim": claim}],
            "ttlSecondsAfterFinished": 1,
            "tasks": [{"name": name, "replicas": 2, "template": template} for name in ("a", "b")],
        },
    }


def _command(action: str, queue: str) -> dict[str, Any]:
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "order"},
        "action": action,
        "target": {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue},
    }


def _phase(cluster: Cluster) -> str:
    phase: str = cluster.reservations()[0].get("status", {}).get("phase", "")
    return phase
