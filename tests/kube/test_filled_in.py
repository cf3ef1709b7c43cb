"""What the API server fills in by itself, with every process of ours down; and whom nobody can claim to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube.client import Client, Refused, eventually
from kube.crd_install import install_crds, installed, server_version
from kube.server import ApiServer
from kube.test_door import GROUPS, JOBS, PODS, group, job, pod
from stromboli.api import Job, decode
from stromboli.api.names import QUEUE_NAME, SUBMITTER
from stromboli.api.rules.rule import MUTATIONS
from stromboli.controllers.job.plugins import plugins_of
from stromboli.kube.crds import mutating_policies, validating_policies


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> Iterator[Client]:
    admin = api_server.client()
    version = server_version(admin)
    if version < MUTATIONS:
        pytest.skip(f"mutating policies need Kubernetes 1.{MUTATIONS[1]}; this server is 1.{version[1]}")
    install_crds(admin)
    with installed(admin, [*mutating_policies(), *validating_policies()], lambda: _works(admin)):
        yield admin


def _works(admin: Client) -> bool:
    try:
        made = dry_run(admin, JOBS.format("default"), job("works", plugins={"mpi": []}))
        grouped = dry_run(admin, GROUPS.format("default"), group("works"))
    except Refused:  # for policies that change objects, a server must know a new kind a little longer
        return False
    return {"ssh", "svc"} <= set(made["spec"]["plugins"]) and "minAvailable" in made["spec"] and user_of(grouped) != ""


def allow(admin: Client, user: str, namespace: str) -> None:
    """Let somebody do everything with the Jobs of a namespace."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["*"]}]
    admin.create(f"{rbac}/roles", {"metadata": {"name": user}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    admin.create(f"{rbac}/rolebindings", {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]})


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


def test_nobody_can_name_somebody_else(api_server: ApiServer, server: Client, namespace: str) -> None:
    allow(server, "anna", namespace)
    anna = api_server.client_as("anna")
    path = JOBS.format(namespace)
    assert user_of(anna.create(path, job("hers"))) == "anna"
    forged = job("forged") | {"metadata": {"name": "forged", "annotations": {SUBMITTER: "admin"}}}
    with pytest.raises(Refused, match="must be the user who creates the object"):
        anna.create(path, forged)
    with pytest.raises(Refused, match="must not change"):
        anna.patch(f"{path}/hers", {"metadata": {"annotations": {SUBMITTER: None}}})
    assert user_of(anna.patch(f"{path}/hers", {"metadata": {"labels": {"a": "b"}}})) == "anna"
