"""The API server refuses what the table in tests/live/schema_cases.yaml says, and nothing that is just good enough.

Which rows apply depends on the server: rules of definitions are known from 1.25 on, policies from 1.30 on. With the
server that `make kube-assets` builds (1.20) that is the plain schemas; give KUBEBUILDER_ASSETS of a newer one for the
rest. No process of ours runs here: it is the server that refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from kube.client import Client, Refused
from kube.crd_install import install_crds, installed_policies, server_version
from live.schema_cases import CASES, NAMES, Case
from stromboli.api import ApiError, decode, validate_update
from stromboli.api.rules import RULES, Door
from stromboli.api.rules.rule import POLICIES

PATHS = {
    "Queue": "/apis/scheduling.volcano.sh/v1beta1/queues",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
    "Job": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs",
    "CronJob": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/cronjobs",
    "JobFlow": "/apis/flow.volcano.sh/v1alpha1/namespaces/{}/jobflows",
    "JobTemplate": "/apis/flow.volcano.sh/v1alpha1/namespaces/{}/jobtemplates",
    "Command": "/apis/bus.volcano.sh/v1alpha1/namespaces/{}/commands",
    "Reservation": "/apis/scheduling.volcano.sh/v1alpha1/reservations",
    "HyperNode": "/apis/topology.volcano.sh/v1alpha1/hypernodes",
    "Pod": "/api/v1/namespaces/{}/pods",
}
NAMES_POSITIONS = (1, 25)


@pytest.fixture(scope="module")
def server(api_server: Any) -> Iterator[tuple[int, int]]:
    admin = api_server.client()
    install_crds(admin)
    version = server_version(admin)
    if version < POLICIES:
        yield version
        return
    with installed_policies(admin, lambda: _refuses_all(admin)):
        yield version


def _refuses_all(admin: Client) -> bool:
    """Whether the policies are in effect."""
    return all(
        refusal_of(admin, PATHS[case.kind].format("default"), case.bad) for case in CASES
        if case.since == "policies" and case.was is None and case.kind != "Command"
    )  # fmt: skip


def refusal_of(admin: Client, path: str, document: dict[str, Any]) -> str:
    """Why the server would not create an object; "" if it would."""
    try:
        admin.create(f"{path}?dryRun=All", document)
    except Refused as refused:
        return str(refused)
    return ""


@pytest.fixture
def path(case: Case, admin: Client, namespace: str) -> Iterator[str]:
    # Commands to queues are for the namespaces of administrators.
    path = PATHS[case.kind].format("default" if case.kind == "Command" else namespace)
    yield path
    for left in admin.list(path):
        if left["metadata"]["name"].startswith("rules-"):
            admin.delete(f"{path}/{left['metadata']['name']}")


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_server_refuses_what_the_table_says(
    case: Case, server: tuple[int, int], path: str, namespace: str, admin: Client
) -> None:
    if server < case.first_server:
        pytest.skip(f"rules of this kind need Kubernetes {case.first_server[0]}.{case.first_server[1]}")
    if case.was is None:
        with pytest.raises(Refused) as refused:
            admin.create(_path_for(case.bad, path, namespace), case.bad | {"metadata": _without_namespace(case.bad)})
        admin.create(path, case.good)
    else:
        here = f"{path}/{case.bad['metadata']['name']}"
        version = admin.create(path, case.was)["metadata"]["resourceVersion"]
        if "status" in case.was:
            version = admin.patch(f"{here}/status", {"status": case.was["status"]})["metadata"]["resourceVersion"]
        with pytest.raises(Refused) as refused:
            admin.replace(here, _at(version, case.bad))
        admin.replace(here, _at(version, case.good))
    assert refused.value.status == 422
    if case.since == "schema" or server < POLICIES:
        # Older servers name fields in lists without their positions.
        says = case.says if server >= NAMES_POSITIONS else re.sub(r"\[\d+\]", "", case.says)
        assert says in str(refused.value)
        return
    error, said = error_in(_in_namespace(case.bad, namespace), case.was), str(refused.value)
    # Two kinds may have a rule of one message, each with a door of its own.
    doors = {rule.door_on(server): rule for rule in RULES if rule.message == case.says}
    assert any(
        f"{error.field}: " in said and rule.must in said if door is Door.DEFINITION
        # A scenario says which of the five fields of a schedule is wrong.
        else f"{error.field}: {rule.must if rule.field == 'schedule' else error.message}" in said
        for door, rule in doors.items()
    )  # fmt: skip


def _in_namespace(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Where a test sends an object that is of another namespace than the default one."""
    if document["metadata"].get("namespace", "default") == "default":
        return document
    return document | {"metadata": document["metadata"] | {"namespace": namespace}}


def _path_for(document: dict[str, Any], path: str, namespace: str) -> str:
    named = document["metadata"].get("namespace", "default")
    return path if named == "default" else PATHS[document["kind"]].format(namespace)


def _without_namespace(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document["metadata"].items() if name != "namespace"}


def error_in(document: dict[str, Any], was: dict[str, Any] | None) -> ApiError:
    """What a scenario would say."""
    try:
        obj = decode(document)
        if was is not None:
            validate_update(decode(was), obj)
    except ApiError as error:
        return error
    raise AssertionError("it is accepted")


def _at(version: str, document: dict[str, Any]) -> dict[str, Any]:
    return document | {"metadata": document["metadata"] | {"resourceVersion": version}}
