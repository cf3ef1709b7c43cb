"""The API server refuses what the table in tests/live/schema_cases.yaml says, and nothing that is just good enough.

Which rows apply depends on the server: some rules are known from 1.25 on, all of them from 1.34 on. With the server
that `make kube-assets` builds (1.20) that is the plain schemas; give KUBEBUILDER_ASSETS of a newer one for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube.client import Client, Refused
from kube.crd_install import install_crds, server_version
from live.schema_cases import CASES, NAMES, Case

PATHS = {
    "Queue": "/apis/scheduling.volcano.sh/v1beta1/queues",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
    "Job": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs",
    "Command": "/apis/bus.volcano.sh/v1alpha1/namespaces/{}/commands",
    "Reservation": "/apis/scheduling.volcano.sh/v1alpha1/reservations",
}


@pytest.fixture(scope="module")
def server(api_server: Any) -> tuple[int, int]:
    admin = api_server.client()
    install_crds(admin)
    return server_version(admin)


@pytest.fixture
def path(case: Case, admin: Client, namespace: str) -> Iterator[str]:
    path = PATHS[case.kind].format(namespace)
    yield path
    for left in admin.list(path):
        if left["metadata"]["name"].startswith("rules-"):
            admin.delete(f"{path}/{left['metadata']['name']}")


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_server_refuses_what_the_table_says(case: Case, server: tuple[int, int], path: str, admin: Client) -> None:
    if server < case.first_server:
        pytest.skip(f"rules of this kind need Kubernetes {case.first_server[0]}.{case.first_server[1]}")
    if case.was is None:
        with pytest.raises(Refused) as refused:
            admin.create(path, case.bad)
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
    assert case.says in str(refused.value)


def _at(version: str, document: dict[str, Any]) -> dict[str, Any]:
    return document | {"metadata": document["metadata"] | {"resourceVersion": version}}
