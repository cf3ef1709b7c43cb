"""What the API server fills in by itself, with every process of ours down; and whom nobody can claim to be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube.client import Client, Refused
from kube.crd_install import install_crds, installed, server_version
from kube.server import ApiServer
from stromboli.api.names import SUBMITTER
from stromboli.api.rules.rule import MUTATIONS
from stromboli.kube.crds import mutating_policies, validating_policies
from validation.door_story import GROUPS, JOBS, group, job
from validation.filled_in_story import *  # noqa: F403
from validation.filled_in_story import dry_run, user_of
from validation.volcano_story import *  # noqa: F403


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
