"""deploy/ on a real API server: it is taken as it is, loses nothing that users write, and gives no right too many."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.client import Client, Refused, eventually
from kube.conftest import Kubectl
from kube.defining import server_version
from kube.permitting import ACCOUNTS, EVERYBODY, NAMESPACE, VERBS, permissions
from kube.server import ApiServer
from live.kustomizing import WAYS, render
from stromboli.kube.crd_rules import ALL_RULES, CEL

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EXAMPLES = yaml.safe_load((Path(__file__).parent / "volcano.yaml").read_text(encoding="utf-8"))["items"]


def way_for(server: tuple[int, int]) -> str:
    return "overlays/before-1.25" if server < CEL else "overlays/before-1.30" if server < ALL_RULES else "."


@pytest.fixture(scope="module")
def manifests(api_server: ApiServer) -> str:
    return yaml.safe_dump_all(render(WAYS[way_for(server_version(api_server.client()))]))


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


def test_what_was_left_unsaid_is_filled_in(installed: ApiServer, admin: Client, namespace: str) -> None:
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


def test_the_status_is_a_part_by_itself(installed: ApiServer, admin: Client, namespace: str) -> None:
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


def test_leases_are_their_own_and_where_they_run(account: str, may: Ask) -> None:
    def lease(verb: str, name: str = "", namespace: str = NAMESPACE) -> bool:
        return may(verb=verb, group="coordination.k8s.io", resource="leases", name=name, namespace=namespace)

    other = next(name for name in ACCOUNTS if name != account)
    assert [verb for verb in VERBS if lease(verb, account)] == ["get", "create", "update"]
    assert [verb for verb in VERBS if lease(verb, other)] == ["create"]
    assert [verb for verb in VERBS if lease(verb)] == ["create"]
    assert [verb for verb in VERBS if lease(verb, account, "kube-system")] == []


def test_the_server_itself_is_none_of_their_business(may: Ask) -> None:
    assert may(path="/healthz", verb="get")
    assert may(path="/apis", verb="get")
    for path in ("/metrics", "/logs", "/debug/pprof", "/*"):
        assert not may(path=path, verb="get")


def test_a_token_of_an_account_opens_just_these_doors(installed: ApiServer, admin: Client, account: str) -> None:
    """The reviews above are the authorizer's word; this is what it does."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    client = installed.client(admin.create(path, request)["status"]["token"])
    assert client.list("/api/v1/pods") is not None
    assert client.list("/apis/scheduling.volcano.sh/v1beta1/podgroups") is not None
    for refused in (
        lambda: client.list("/api/v1/secrets"),
        lambda: client.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}"),
        lambda: client.create(path, request),
        lambda: client.delete("/apis/scheduling.volcano.sh/v1beta1/queues/default"),
        lambda: client.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "mine"}}),
    ):
        with pytest.raises(Refused) as answer:
            refused()
        assert answer.value.status == 403
