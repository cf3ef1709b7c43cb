"""What a kube-apiserver refuses with every process of ours down. See validation/door_story.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube.client import Client
from kube.crd_install import install_crds, installed_policies, server_version
from kube.server import ApiServer
from stromboli.api.rules.rule import POLICIES
from validation.door_story import *  # noqa: F403
from validation.door_story import BAD, JOBS, PODS, QUEUES, job, pod, queue, refusal_of


@pytest.fixture(scope="module")
def door(api_server: ApiServer) -> Iterator[Client]:
    admin = api_server.client()
    version = server_version(admin)
    if version < POLICIES:
        pytest.skip(f"admission policies need Kubernetes 1.{POLICIES[1]}; this server is 1.{version[1]}")
    install_crds(admin)
    admin.create(JOBS.format("default"), job("door-old", **BAD))
    with installed_policies(admin, lambda: _works(admin)):
        yield admin


def _works(admin: Client) -> bool:
    bad = [
        (QUEUES, queue("door", deserved={"cpu": 2}, capability={"cpu": 1})),
        (JOBS.format("default"), job("door", minAvailable=3)),
        (PODS.format("default"), pod({"volcano.sh/jdb-min-available": "0"})),
    ]
    return all(refusal_of(admin, path, document) for path, document in bad)
