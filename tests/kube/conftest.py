"""One API server for the whole run, and for each test a namespace of its own.

Cluster-wide objects are shared by all tests of a run: a test that creates nodes or queues gives them names of its own
and removes them again. Outages are allowed; the server is up again before the next test begins.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kube.client import Client
from kube.cluster import Cluster, remove_namespace
from kube.server import ApiServer, MissingAssets, find_assets


class Kubectl(Protocol):
    def __call__(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str: ...


@pytest.fixture(scope="session")
def api_server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    try:
        assets = find_assets()
    except MissingAssets as error:
        request.session.shouldfail = str(error)  # said once: else each of a hundred tests would say the same
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    with ApiServer(assets) as server:
        yield server


@pytest.fixture(autouse=True)
def _outages_end_with_their_test(request: pytest.FixtureRequest) -> None:
    if "api_server" in request.fixturenames:
        server: ApiServer = request.getfixturevalue("api_server")
        server.start()


@pytest.fixture
def admin(api_server: ApiServer) -> Client:
    return api_server.client()


@pytest.fixture
def kubeconfig(api_server: ApiServer) -> Path:
    return api_server.kubeconfig


@pytest.fixture
def kubectl(api_server: ApiServer) -> Kubectl:
    return api_server.kubectl


@pytest.fixture
def namespace(api_server: ApiServer, admin: Client) -> Iterator[str]:
    name = f"test-{secrets.token_hex(4)}"
    admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api_server.start()
    remove_namespace(admin, name)


@pytest.fixture
def cluster(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(api_server, namespace, tmp_path) as cluster:
        yield cluster
