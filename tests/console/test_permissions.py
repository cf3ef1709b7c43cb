"""Users who may not read the whole cluster: which role they need, and what they see without it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from live.kustomize import DEPLOY
from stromboli.api import KObject, decode
from stromboli.console.main import run
from stromboli.console.source import Source
from stromboli.kube.client import Failure, Resource
from stromboli.kube.commands.cluster_state import READER, all_read
from stromboli.kube.runtime import published_configuration

ROLES = [*yaml.safe_load_all((DEPLOY / "common" / "user-roles.yaml").read_text(encoding="utf-8"))]
MESSAGE = "1/1 pods of lab/wide cannot be placed: 3 nodes have insufficient cpu."
WIDE: list[dict[str, Any]] = [
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "wide", "namespace": "lab", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"minMember": 1, "queue": "science"}, "status": {"phase": "Inqueue"},
    },
    {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "wide-0", "namespace": "lab", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"scheduling.k8s.io/group-name": "wide"},
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "64"}}}],
        },
        "status": {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": MESSAGE}
            ],
        },
    },
]  # fmt: skip


class Tenant:
    """The client of a user who may read one namespace."""

    def __init__(self, namespace: str, objects: list[KObject]) -> None:
        self.config = SimpleNamespace(server="https://cluster", namespace=namespace)
        self.namespace, self.objects = namespace, objects

    async def serves(self, group_version: str) -> bool:
        return True

    async def get(self, resource: Resource[Any], key: str) -> Any:
        raise Failure(403, f"{resource.plural} is forbidden")

    async def list(self, resource: Resource[Any], *, namespace: str = "") -> Any:
        if namespace != self.namespace:
            raise Failure(403, f'{resource.plural} is forbidden: User "jane" cannot list at the cluster scope')
        return SimpleNamespace(items=[one for one in self.objects if isinstance(one, resource.type)])


@pytest.fixture
def tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = Tenant("lab", [decode(one) for one in WIDE])

    def with_client(source: Source, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            return await work(client)

        return asyncio.run(main())

    monkeypatch.setattr(Source, "with_client", with_client)
    monkeypatch.setattr(Source, "namespace", "lab")


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def test_the_role_of_readers_is_what_commands_read() -> None:
    [role] = [one for one in ROLES if one["metadata"]["name"] == READER]
    allowed = {
        (verb, group, resource, *rule.get("resourceNames", ()))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    read = {
        ("list", one.group_version.rpartition("/")[0], one.plural) for one in all_read()
    } | {("get", "", "configmaps", published_configuration.NAME)}  # fmt: skip
    assert allowed == read


def test_the_role_of_readers_is_given_to_nobody_by_default() -> None:
    [role] = [one for one in ROLES if one["metadata"]["name"] == READER]
    assert not [label for label in role["metadata"]["labels"] if "aggregate-to" in label]


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("name", ["wide", "lab/wide", "lab/wide-0", "pod/wide-0"])
def test_a_tenant_sees_the_reason_in_the_status(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = told(capsys, "why", name, "-o", "json")
    assert (status, err) == (0, "")
    answer = json.loads(out)
    assert answer["job"]["name"] == "lab/wide"
    assert [(one["code"], one["message"]) for one in answer["reasons"]] == [("Unschedulable", MESSAGE)]
    assert READER in answer["forecast"]
    assert "counterfactuals" not in answer


@pytest.mark.usefixtures("tenant")
def test_what_a_tenant_reads(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = told(capsys, "why", "wide")
    assert status == 0
    words = " ".join(out.split())
    assert words.startswith("lab/wide has waited for ")
    assert MESSAGE in words
    assert "Forecast These are the reasons in the status; forecasts need the whole cluster. You may not list " in words
    assert f"--clusterrole {READER} --user YOU" in words


@pytest.mark.usefixtures("tenant")
def test_a_tenant_lists_the_jobs_of_the_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = told(capsys, "jobs", "-n", "lab", "-o", "json")
    assert status == 0
    [job] = json.loads(out)
    assert (job["name"], job["reason"], job["message"]) == ("lab/wide", "Unschedulable", MESSAGE)


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("command", ["status", "queues", "jobs", "nodes", "reservations", "top", "diag"])
def test_commands_name_the_role_that_they_need(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = told(capsys, command)
    assert (status, out) == (3, "")
    assert f"kubectl create clusterrolebinding NAME --clusterrole {READER} --user YOU" in err


@pytest.mark.usefixtures("tenant")
def test_other_namespaces_stay_closed(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = told(capsys, "why", "other/wide")
    assert status == 3
    assert "of namespace other. Ask an administrator for the role view in the namespace" in err
    assert told(capsys, "why", "nobody")[::2] == (
        2, "stromboli: error: There is no job lab/nobody. Try: stromboli jobs\n",
    )  # fmt: skip
