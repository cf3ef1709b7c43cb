"""The requests of Volcano's client `vcctl`, as its code makes them (August 2026), sent again.

Clients written in Go send fields that nobody has set, as null or empty: here as well. The server has our definitions
and policies, and no process of ours runs.
"""

from __future__ import annotations

from typing import Any

import pytest

from stromboli.kube.crds import mutating_policies, validating_policies
from validation.embedded_client import EmbeddedClient

BATCH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default"
FLOW = "/apis/flow.volcano.sh/v1alpha1/namespaces/default"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def vcctl() -> EmbeddedClient:
    client = EmbeddedClient()
    client.install(*mutating_policies(), *validating_policies())
    return client


def meta(name: str, namespace: str = "default") -> dict[str, Any]:
    return {"name": name, "creationTimestamp": None, **({"namespace": namespace} if namespace else {})}


def spec_of_job(name: str) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "100Mi"}
    container = {
        "name": name, "image": "busybox", "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": amounts, "requests": amounts},
    }  # fmt: skip
    template = {
        "metadata": {"name": name, "creationTimestamp": None, "labels": {"job.volcano.sh": name}},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    return {"schedulerName": "volcano", "minAvailable": 1, "tasks": [{"replicas": 1, "template": template}]}


def job(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta(name), "spec": spec_of_job(name),
        "status": {"state": {"lastTransitionTime": None}},
    }  # fmt: skip


def command(target: dict[str, Any], action: str) -> dict[str, Any]:
    """What suspend, resume and operate create."""
    owner = {
        "apiVersion": target["apiVersion"], "kind": target["kind"], "name": target["metadata"]["name"],
        "uid": target["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    named = {
        "generateName": f"{owner['name']}-{action.lower()}-",
        "creationTimestamp": None,
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": named, "action": action,
        "target": owner,
    }  # fmt: skip


def test_job_run_list_view_suspend_resume_delete(vcctl: EmbeddedClient) -> None:
    made = vcctl.create(f"{BATCH}/jobs", job("test"))
    assert (made["spec"]["queue"], made["spec"]["tasks"][0]["name"]) == ("default", "default0")
    assert [one["metadata"]["name"] for one in vcctl.get(f"{BATCH}/jobs")["items"]] == ["test"]
    seen = vcctl.get(f"{BATCH}/jobs/test")
    assert vcctl.get("/api/v1/namespaces/default/events")["kind"] == "EventList"
    for action in ("AbortJob", "ResumeJob"):
        ordered = vcctl.create(COMMANDS, command(seen, action))
        assert ordered["metadata"]["name"].startswith(f"test-{action.lower()}-")
    vcctl.delete(f"{BATCH}/jobs/test")
    assert vcctl.get(f"{BATCH}/jobs")["items"] == []


def test_queue_create_list_get_operate_delete(vcctl: EmbeddedClient) -> None:
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta("q", ""),
        "spec": {"weight": 2, "guarantee": {}}, "status": {"state": "Open", "reservation": {}, "allocated": None},
    }  # fmt: skip
    assert vcctl.create(QUEUES, body)["spec"]["weight"] == 2
    assert "q" in {one["metadata"]["name"] for one in vcctl.get(QUEUES)["items"]}
    assert vcctl.patch(f"{QUEUES}/q", {"spec": {"weight": 3}}, MERGE)["spec"]["weight"] == 3
    for action in ("CloseQueue", "OpenQueue"):
        vcctl.create(COMMANDS, command(vcctl.get(f"{QUEUES}/q"), action))
    vcctl.delete(f"{QUEUES}/q")


def test_jobtemplate_and_jobflow_create_list_get_delete(vcctl: EmbeddedClient) -> None:
    template = {
        "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": meta("a"),
        "spec": spec_of_job("a"), "status": {},
    }  # fmt: skip
    flow = {
        "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": meta("f"), "status": {"state": {}},
        "spec": {"jobRetainPolicy": "retain", "flows": [
            {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}, "patch": {"jobSpec": {"minAvailable": 1}}},
        ]},
    }  # fmt: skip
    for plural, body in (("jobtemplates", template), ("jobflows", flow)):
        name = str(body["metadata"]["name"])  # type: ignore[index]
        vcctl.create(f"{FLOW}/{plural}", body)
        assert [one["metadata"]["name"] for one in vcctl.get(f"{FLOW}/{plural}")["items"]] == [name]
        assert vcctl.get(f"{FLOW}/{plural}/{name}")["spec"]
        vcctl.delete(f"{FLOW}/{plural}/{name}")


def test_pod_list(vcctl: EmbeddedClient) -> None:
    assert vcctl.get("/api/v1/namespaces/default/pods?labelSelector=volcano.sh/job-name=test")["items"] == []
    assert vcctl.get("/api/v1/pods")["kind"] == "PodList"
