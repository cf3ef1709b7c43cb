"""Workloads on the embedded server: the controllers of the simulation, with every field of what users wrote."""

from __future__ import annotations

from typing import Any

import pytest

from embedded.api import MERGE, STRATEGIC, Api, EmbeddedTransport

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def server() -> EmbeddedTransport:
    return EmbeddedTransport()


@pytest.fixture
def api(server: EmbeddedTransport) -> Api:
    return Api(server)


def workload(name: str = "web", image: str = "x:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": image, "livenessProbe": {"tcpSocket": {"port": 80}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "dnsPolicy": "None"}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template, **spec}}


def new_image(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def pods(api: Api) -> list[dict[str, Any]]:
    return list(api.get(PODS)["items"])


def images(api: Api) -> list[str]:
    return sorted(one["spec"]["containers"][0]["image"] for one in pods(api))


def node_for(one: dict[str, Any]) -> str:
    """The node that a pod of a DaemonSet is pinned to; any for others."""
    affinity = one["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return str(terms[0]["matchFields"][0]["values"][0]) if terms else "n"


def start(api: Api) -> None:
    """What a scheduler and a node do with pods that wait."""
    for one in pods(api):
        if one["status"]["phase"] == "Pending" and "deletionTimestamp" not in one["metadata"]:
            path = f"{PODS}/{one['metadata']['name']}"
            if "nodeName" not in one["spec"]:
                target = {"kind": "Node", "name": node_for(one)}
                api.create(f"{path}/binding", {"metadata": {"name": one["metadata"]["name"]}, "target": target})
            ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"}]
            api.patch(f"{path}/status", {"status": {"phase": "Running", "conditions": ready}}, STRATEGIC)


def stop(api: Api) -> None:
    """What a node does with pods that are to end."""
    for one in pods(api):
        if "deletionTimestamp" in one["metadata"]:
            api.delete(f"{PODS}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})


def go_on(server: EmbeddedTransport, api: Api) -> None:
    for _ in range(12):
        server.settle()
        start(api)
        stop(api)
    server.settle()


def test_a_deployment_is_rolled_out_and_back(server: EmbeddedTransport, api: Api) -> None:
    api.create(DEPLOYMENTS, workload(replicas=3))
    go_on(server, api)
    status = api.get(f"{DEPLOYMENTS}/web")["status"]
    assert (status["replicas"], status["availableReplicas"], status["observedGeneration"]) == (3, 3, 1)
    assert "unavailableReplicas" not in status
    made = pods(api)[0]
    assert made["spec"]["dnsPolicy"] == "None"
    assert made["spec"]["containers"][0]["livenessProbe"]["tcpSocket"] == {"port": 80}
    (first,) = api.get(SETS)["items"]
    assert first["metadata"]["labels"]["pod-template-hash"] == first["metadata"]["name"].removeprefix("web-")
    assert first["spec"]["template"]["spec"]["dnsPolicy"] == "None"

    api.patch(f"{DEPLOYMENTS}/web", new_image("x:2"), STRATEGIC)
    server.settle()
    # 25% of 3 is one pod more and, rounded down, none less.
    assert images(api) == ["x:1", "x:1", "x:1", "x:2"]
    go_on(server, api)
    assert images(api) == ["x:2"] * 3
    conditions = {one["type"]: one["reason"] for one in api.get(f"{DEPLOYMENTS}/web")["status"]["conditions"]}
    assert conditions == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
    revisions = {one["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for one in api.get(SETS)["items"]}
    assert revisions == {"1", "2"}

    api.patch(f"{DEPLOYMENTS}/web", new_image("x:1"), STRATEGIC)
    go_on(server, api)
    assert images(api) == ["x:1"] * 3
    assert api.get(f"{DEPLOYMENTS}/web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert len(api.get(SETS)["items"]) == 2


def test_templates_that_differ_in_a_field_that_we_do_not_read_are_different(
    server: EmbeddedTransport, api: Api
) -> None:
    api.create(DEPLOYMENTS, workload(replicas=1))
    server.settle()
    api.patch(f"{DEPLOYMENTS}/web", {"spec": {"template": {"spec": {"dnsPolicy": "Default"}}}}, STRATEGIC)
    server.settle()
    assert len(api.get(SETS)["items"]) == 2


def test_a_deployment_that_is_scaled_and_deleted(server: EmbeddedTransport, api: Api) -> None:
    api.create(DEPLOYMENTS, workload(replicas=2))
    go_on(server, api)
    api.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 5}})
    go_on(server, api)
    assert len(pods(api)) == 5
    api.delete(f"{DEPLOYMENTS}/web", {"propagationPolicy": "Foreground"})
    go_on(server, api)
    assert (pods(api), api.get(SETS)["items"], api.get(DEPLOYMENTS)["items"]) == ([], [], [])


def test_a_stateful_set_keeps_its_names_and_its_claims(server: EmbeddedTransport, api: Api) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    api.create(STATEFUL_SETS, workload("db", replicas=3, serviceName="db", volumeClaimTemplates=[claim]))
    server.settle()
    assert [one["metadata"]["name"] for one in pods(api)] == ["db-0"]
    made = pods(api)[0]["spec"]
    assert (made["hostname"], made["subdomain"], made["dnsPolicy"]) == ("db-0", "db", "None")
    assert made["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    go_on(server, api)
    assert [one["metadata"]["name"] for one in pods(api)] == ["db-0", "db-1", "db-2"]
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    assert [one["metadata"]["name"] for one in api.get(claims)["items"]] == ["data-db-0", "data-db-1", "data-db-2"]
    status = api.get(f"{STATEFUL_SETS}/db")["status"]
    assert status["currentRevision"] == status["updateRevision"]

    api.patch(f"{STATEFUL_SETS}/db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}})
    api.patch(f"{STATEFUL_SETS}/db", new_image("x:2"), STRATEGIC)
    go_on(server, api)
    assert [one["spec"]["containers"][0]["image"] for one in pods(api)] == ["x:1", "x:2", "x:2"]
    api.delete(f"{PODS}/db-0", {"gracePeriodSeconds": 0})
    go_on(server, api)
    assert [one["spec"]["containers"][0]["image"] for one in pods(api)] == ["x:1", "x:2", "x:2"]
    assert pods(api)[0]["spec"]["containers"][0]["livenessProbe"]["tcpSocket"] == {"port": 80}
    data = [one["data"]["spec"]["template"] for one in api.get(REVISIONS)["items"]]
    assert {one["$patch"] for one in data} == {"replace"}
    assert {one["spec"]["dnsPolicy"] for one in data} == {"None"}


def test_a_stateful_set_makes_pods_again_that_have_finished(server: EmbeddedTransport, api: Api) -> None:
    api.create(STATEFUL_SETS, workload("db", replicas=1))
    go_on(server, api)
    before = pods(api)[0]["metadata"]["uid"]
    api.patch(f"{PODS}/db-0/status", {"status": {"phase": "Failed"}}, STRATEGIC)
    go_on(server, api)
    (after,) = pods(api)
    assert (after["metadata"]["uid"] != before, after["status"]["phase"]) == (True, "Running")


def test_what_of_a_stateful_set_may_change(api: Api) -> None:
    api.create(STATEFUL_SETS, workload("db", replicas=1))
    assert api.call("PATCH", f"{STATEFUL_SETS}/db", {"spec": {"serviceName": "x"}}, kind=MERGE).status == 422
    assert api.call("PATCH", f"{STATEFUL_SETS}/db", {"spec": {"replicas": 2}}, kind=MERGE).status == 200


def test_a_daemon_set_has_a_pod_on_each_node(server: EmbeddedTransport, api: Api) -> None:
    for name in ("n0", "n1"):
        api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": {"disk": "ssd"}}})
    body = workload("log")
    body["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    api.create(DAEMON_SETS, body)
    go_on(server, api)
    made = pods(api)
    assert len(made) == 2
    wanted = made[0]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert wanted["nodeSelectorTerms"][0]["matchFields"][0]["key"] == "metadata.name"
    assert made[0]["spec"]["dnsPolicy"] == "None"
    status = api.get(f"{DAEMON_SETS}/log")["status"]
    assert (status["desiredNumberScheduled"], status["numberAvailable"], status["numberMisscheduled"]) == (2, 2, 0)
    api.create("/api/v1/nodes", {"metadata": {"name": "n2", "labels": {"disk": "ssd"}}})
    api.create("/api/v1/nodes", {"metadata": {"name": "n3"}})
    go_on(server, api)
    assert len(pods(api)) == 3
    api.patch(f"{DAEMON_SETS}/log", new_image("x:2"), STRATEGIC)
    go_on(server, api)
    assert images(api) == ["x:2"] * 3
    api.patch("/api/v1/nodes/n2", {"metadata": {"labels": {"disk": None}}})
    go_on(server, api)
    assert len(pods(api)) == 2


def test_a_cron_job_creates_jobs_with_every_field(server: EmbeddedTransport, api: Api) -> None:
    body = {
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *",
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"metadata": {"labels": {"team": "a"}}, "spec": job_spec(backoffLimit=1)},
        },
    }
    made = api.create(CRON_JOBS, body)
    assert (made["spec"]["successfulJobsHistoryLimit"], made["spec"]["suspend"]) == (3, False)
    server.settle()
    assert api.get(JOBS)["items"] == []
    server.settle(60)
    (created,) = api.get(JOBS)["items"]
    assert created["metadata"]["labels"]["team"] == "a"
    assert created["metadata"]["ownerReferences"][0]["name"] == "tick"
    assert created["spec"]["backoffLimit"] == 1
    assert created["spec"]["template"]["spec"]["dnsPolicy"] == "None"
    (one,) = pods(api)
    assert one["spec"]["dnsPolicy"] == "None"
    assert [ref["name"] for ref in api.get(f"{CRON_JOBS}/tick")["status"]["active"]] == [created["metadata"]["name"]]
    server.settle(60)
    assert len(api.get(JOBS)["items"]) == 1, "the first one still runs"
    api.patch(f"{PODS}/{one['metadata']['name']}/status", {"status": {"phase": "Succeeded"}}, STRATEGIC)
    server.settle()
    assert len(api.get(JOBS)["items"]) == 2
    assert "lastSuccessfulTime" in api.get(f"{CRON_JOBS}/tick")["status"]
    api.delete(f"{CRON_JOBS}/tick", {"propagationPolicy": "Background"})
    server.settle()
    assert (api.get(JOBS)["items"], pods(api)) == ([], [])


def job_spec(**spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "dnsPolicy": "None", "containers": [{"name": "main", "image": "x:1"}]}
    return {"template": {"spec": pod}, **spec}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schedule": "every day"}, "spec.schedule"),
        ({"schedule": "TZ=UTC * * * * *"}, "spec.schedule"),
        ({"timeZone": "Mars/Olympus"}, "spec.timeZone"),
        ({"concurrencyPolicy": "Never"}, "spec.concurrencyPolicy"),
        ({"jobTemplate": {"spec": job_spec(parallelism=1_000_000)}}, "spec.jobTemplate.spec.parallelism"),
    ],
)
def test_cron_jobs_that_are_not_valid(api: Api, change: dict[str, Any], field: str) -> None:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job_spec()}, **change}
    answer = api.call("POST", CRON_JOBS, {"metadata": {"name": "tick"}, "spec": spec})
    assert answer.status == 422
    assert field in answer.body["message"]


def test_a_job_is_stopped_by_an_exit_code(server: EmbeddedTransport, api: Api) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    api.create(JOBS, {"metadata": {"name": "one"}, "spec": job_spec(podFailurePolicy={"rules": [rule]})})
    server.settle()
    (one,) = pods(api)
    terminated = {"terminated": {"exitCode": 42, "finishedAt": "2023-11-14T22:13:20Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": terminated}]}
    api.patch(f"{PODS}/{one['metadata']['name']}/status", {"status": status}, STRATEGIC)
    server.settle()
    (condition,) = api.get(f"{JOBS}/one")["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("Failed", "PodFailurePolicy")
