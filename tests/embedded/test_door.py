"""What the embedded server refuses and fills in, with the policies of deploy/ installed. See validation/door_story.py.

Once as it is, with the rules of our kinds in Python, and once with all rules evaluated as expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import pytest

from kube.client import Client, Refused
from stromboli.api.names import SUBMITTER
from stromboli.embedded.kinds import custom
from stromboli.kube.crds import mutating_policies, validating_policies
from validation.door_story import *  # noqa: F403
from validation.door_story import BAD, JOBS, job
from validation.embedded_client import EmbeddedClient, policy_path
from validation.filled_in_story import *  # noqa: F403
from validation.filled_in_story import user_of
from validation.volcano_story import *  # noqa: F403


@pytest.fixture(scope="module", params=["rules in Python", "rules as expressions"])
def door(request: pytest.FixtureRequest) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "rules as expressions":
            patch.setattr(custom, "KINDS", {})
        client = EmbeddedClient()
        client.install()
        patch.setattr(custom.CustomStrategy, "validate", lambda *_: [])
        client.create(JOBS.format("default"), job("door-old", **BAD))
        patch.undo()
        if request.param == "rules as expressions":
            patch.setattr(custom, "KINDS", {})
        for document in validating_policies():
            client.create(policy_path(document), document)
        yield client


@pytest.fixture(scope="module")
def server() -> Client:
    client = EmbeddedClient()
    client.install(*mutating_policies(), *validating_policies())
    return client


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    client = request.getfixturevalue("door" if "door" in request.fixturenames else "server")
    name = f"test-{crc32(request.node.name.encode())}"
    client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def test_nobody_can_name_somebody_else(server: EmbeddedClient, namespace: str) -> None:
    anna, path = server.as_user("anna"), JOBS.format(namespace)
    assert user_of(anna.create(path, job("hers"))) == "anna"
    forged = job("forged") | {"metadata": {"name": "forged", "annotations": {SUBMITTER: "admin"}}}
    with pytest.raises(Refused, match="must be the user who creates the object"):
        anna.create(path, forged)
    with pytest.raises(Refused, match="must not change"):
        anna.patch(f"{path}/hers", {"metadata": {"annotations": {SUBMITTER: None}}})
    assert user_of(anna.patch(f"{path}/hers", {"metadata": {"labels": {"a": "b"}}})) == "anna"


def test_a_job_from_before_the_policies_stays_as_it_is() -> None:
    """Its tasks have no names. A name that is filled in later would be a change, which is refused."""
    client, path, written = EmbeddedClient(), JOBS.format("default"), job("old", plugins={"mpi": []})
    del written["spec"]["tasks"][0]["name"]
    client.install()
    client.create(path, written)
    for document in (*mutating_policies(), *validating_policies()):
        client.create(policy_path(document), document)
    changed = client.patch(f"{path}/old", {"metadata": {"labels": {"a": "b"}}, "spec": {"minAvailable": 1}})
    assert ("name" in changed["spec"]["tasks"][0], changed["spec"]["plugins"]) == (False, {"mpi": []})
