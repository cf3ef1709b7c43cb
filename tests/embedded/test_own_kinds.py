"""Queues, PodGroups, Jobs and Reservations on the embedded server: the rules of Stromboli hold there, too."""

from __future__ import annotations

from typing import Any

import pytest

from embedded.api import MERGE, Api, EmbeddedTransport
from embedded.conformance_kinds import DEFINITIONS
from stromboli.embedded.server import VERSION
from stromboli.kube.crds.definitions import definitions

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


@pytest.fixture
def api() -> Api:
    api = Api(EmbeddedTransport())
    for definition in definitions(VERSION).values():
        api.create(DEFINITIONS, definition)
    return api


def queue(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


def job(replicas: int = 2, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "x", "tty": True}], "restartPolicy": "Never"}}
    tasks = [{"name": "main", "replicas": replicas, "template": template}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"tasks": tasks, **spec},
    }  # fmt: skip


def test_valid_objects_are_kept_as_written(api: Api) -> None:
    made = api.create(QUEUES, queue(weight=3, capability={"cpu": "10"}))
    assert (made["spec"]["weight"], made["spec"]["capability"]) == (3, {"cpu": "10"})
    written = api.create(JOBS, job(minAvailable=2))
    [container] = written["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert container["tty"] is True, "templates keep fields that Stromboli does not know"
    columns = api.get(QUEUES, accept="application/json;as=Table;v=v1;g=meta.k8s.io")["columnDefinitions"]
    assert [column["name"] for column in columns][:3] == ["Name", "STATE", "WEIGHT"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (QUEUES, queue(weight=-1), "weight"),
        (QUEUES, queue(weight="heavy"), "spec.weight in body must be of type integer"),
        (QUEUES, queue(capability={"cpu": "1"}, deserved={"cpu": "5"}), "deserved"),
        (JOBS, job(minAvailable=5), "minAvailable"),
        (JOBS, job(queue="root"), "queue"),
        (JOBS, job(tasks=[]), "tasks"),
    ],
)
def test_invalid_objects_are_refused(api: Api, path: str, body: dict[str, Any], words: str) -> None:
    answer = api.call("POST", path, body)
    assert (answer.status, answer.reason) == (422, "Invalid"), answer
    assert words in answer.body["message"]


def test_immutable_fields(api: Api) -> None:
    api.create(JOBS, job())
    answer = api.call("PATCH", f"{JOBS}/j", {"spec": {"queue": "other"}}, kind=MERGE)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert "must not change" in answer.body["message"]
    assert api.patch(f"{JOBS}/j", {"spec": {"minAvailable": 1}})["spec"]["minAvailable"] == 1


def test_unknown_fields_are_reported(api: Api) -> None:
    answer = api.call("POST", QUEUES, queue(wieght=3), fieldValidation="Strict")
    assert answer.status == 400
    assert 'unknown field "spec.wieght"' in answer.body["message"]
    assert "wieght" not in api.create(QUEUES, queue(wieght=3))["spec"]
