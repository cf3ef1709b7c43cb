"""What the server's own controllers do: garbage collection, namespaces, definitions, ReplicaSets, Jobs, budgets."""

from __future__ import annotations

from typing import Any

import pytest

from embedded.api import STRATEGIC, Api, EmbeddedTransport, config_map, pod
from embedded.conformance_kinds import DEFINITIONS, balloon, definition, of, replica_set

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
def server() -> EmbeddedTransport:
    return EmbeddedTransport()


@pytest.fixture
def api(server: EmbeddedTransport) -> Api:
    return Api(server)


def owned(name: str, owner: dict[str, Any], *, blocks: bool = True) -> dict[str, Any]:
    body = config_map(name)
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
    }  # fmt: skip
    body["metadata"]["ownerReferences"] = [reference]
    return body


def names(api: Api, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in api.get(path)["items"]]


def finish(api: Api, name: str, phase: str = "Succeeded", at: str = "2023-11-14T22:13:20Z") -> None:
    state = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 1, "finishedAt": at}}
    status = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
    api.patch(f"{PODS}/{name}/status", {"status": status}, STRATEGIC)


# -- garbage ----------------------------------------------------------------------------------------------------------


def test_dependents_follow_their_owner(server: EmbeddedTransport, api: Api) -> None:
    owner = api.create(MAPS, config_map("owner"))
    child = api.create(MAPS, owned("child", owner))
    api.create(MAPS, owned("grandchild", child))
    server.settle()
    assert names(api, MAPS) == ["child", "grandchild", "owner"]
    api.delete(f"{MAPS}/owner")
    assert names(api, MAPS) == ["child", "grandchild"]
    server.settle()
    assert names(api, MAPS) == []


def test_an_object_with_another_owner_stays(server: EmbeddedTransport, api: Api) -> None:
    first, second = (api.create(MAPS, config_map(name)) for name in ("first", "second"))
    body = owned("child", first)
    body["metadata"]["ownerReferences"] += owned("child", second)["metadata"]["ownerReferences"]
    api.create(MAPS, body)
    api.delete(f"{MAPS}/first")
    server.settle()
    assert names(api, MAPS) == ["child", "second"]


def test_foreground_waits_for_dependents(server: EmbeddedTransport, api: Api) -> None:
    owner = api.create(MAPS, config_map("owner"))
    body = owned("child", owner)
    body["metadata"]["finalizers"] = ["example.com/wait"]
    api.create(MAPS, body)
    going = api.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    server.settle()
    assert names(api, MAPS) == ["child", "owner"]
    assert api.get(f"{MAPS}/child")["metadata"]["deletionTimestamp"]
    api.patch(f"{MAPS}/child", {"metadata": {"finalizers": None}})
    server.settle()
    assert names(api, MAPS) == []


def test_orphans_stay(server: EmbeddedTransport, api: Api) -> None:
    owner = api.create(MAPS, config_map("owner"))
    api.create(MAPS, owned("child", owner))
    api.delete(f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
    server.settle()
    assert names(api, MAPS) == ["child"]
    assert "ownerReferences" not in api.get(f"{MAPS}/child")["metadata"]


def test_an_object_whose_owner_never_was_goes(server: EmbeddedTransport, api: Api) -> None:
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none", "uid": "none"}}
    api.create(MAPS, owned("lost", nobody))
    stranger = {"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "none", "uid": "none"}}
    api.create(MAPS, owned("kept", stranger))
    server.settle()
    assert names(api, MAPS) == ["kept"], "of a kind that we do not know nobody can say that it is gone"


# -- namespaces and definitions ---------------------------------------------------------------------------------------


def test_a_namespace_goes_with_everything_in_it(server: EmbeddedTransport, api: Api) -> None:
    api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    path = "/api/v1/namespaces/team"
    api.create(f"{path}/configmaps", config_map("one"))
    api.create(f"{path}/pods", pod("a"))
    api.create(f"{path}/pods/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}})
    assert api.delete(path)["status"]["phase"] == "Terminating"
    refused = api.call("POST", f"{path}/configmaps", config_map("two"))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    server.settle()
    assert api.get(f"{path}/configmaps")["items"] == []
    assert api.get(path)["status"]["phase"] == "Terminating", "a pod still stops"
    api.delete(f"{path}/pods/a", {"gracePeriodSeconds": 0})
    server.settle()
    assert api.call("GET", path).status == 404


def test_a_definition_goes_with_its_objects(server: EmbeddedTransport, api: Api) -> None:
    api.create(DEFINITIONS, definition("toys.example.com"))
    path = "/apis/toys.example.com/v1/namespaces/default/balloons"
    api.create(path, of(path, balloon()))
    api.delete(f"{DEFINITIONS}/balloons.toys.example.com")
    server.settle()
    assert api.call("GET", path).status == 404
    assert api.call("GET", f"{DEFINITIONS}/balloons.toys.example.com").status == 404
    assert "toys.example.com" not in {group["name"] for group in api.get("/apis")["groups"]}


def test_lists_of_custom_objects_are_applied_by_key(api: Api) -> None:
    api.create(DEFINITIONS, definition("toys.example.com"))
    path = "/apis/toys.example.com/v1/namespaces/default/balloons"
    api.apply(f"{path}/one", of(path, balloon(parts=[{"id": "a", "weight": 1}])), "me")
    other = of(path, {"kind": "Balloon", "metadata": {"name": "one"}, "spec": {"parts": [{"id": "b"}]}})
    both = api.apply(f"{path}/one", other, "you").body
    assert both["spec"]["parts"] == [{"id": "a", "weight": 1}, {"id": "b", "weight": 3}]
    without = api.apply(f"{path}/one", of(path, balloon()), "me").body
    assert without["spec"]["parts"] == [{"id": "b", "weight": 3}]


def test_events_are_forgotten_after_an_hour(server: EmbeddedTransport, api: Api) -> None:
    path = "/api/v1/namespaces/default/events"
    server.settle()
    body = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default", "kind": "Pod", "name": "a"}}
    api.create(path, body)
    server.settle(3000)
    assert names(api, path) == ["e"]
    server.settle(700)
    assert names(api, path) == []


# -- workloads --------------------------------------------------------------------------------------------------------


def test_a_replica_set_keeps_its_pods(server: EmbeddedTransport, api: Api) -> None:
    api.create(SETS, replica_set(replicas=3))
    server.settle()
    first = names(api, PODS)
    assert len(first) == 3
    api.delete(f"{PODS}/{first[0]}")
    finish(api, first[1], "Failed")
    server.settle()
    assert len(names(api, PODS)) == 4, "the failed pod stays, and both are replaced"
    api.patch(f"{SETS}/set/scale", {"spec": {"replicas": 1}})
    server.settle()
    status = api.get(f"{SETS}/set")["status"]
    assert (status["replicas"], status["observedGeneration"]) == (1, 2)
    api.delete(f"{SETS}/set", {"propagationPolicy": "Background"})
    server.settle()
    assert names(api, PODS) == []


def test_pods_that_cannot_be_created_are_reported(server: EmbeddedTransport, api: Api) -> None:
    body = replica_set()
    body["spec"]["template"]["spec"]["priorityClassName"] = "missing"
    api.create(SETS, body)
    server.settle()
    [event] = api.get("/api/v1/namespaces/default/events", fieldSelector="reason=FailedCreate")["items"]
    assert event["message"].endswith("no PriorityClass with name missing was found")
    assert (event["involvedObject"]["kind"], event["type"]) == ("ReplicaSet", "Warning")
    before = event["count"]
    api.patch(f"{SETS}/set", {"metadata": {"labels": {"again": "yes"}}})
    server.settle()
    [event] = api.get("/api/v1/namespaces/default/events")["items"]
    assert event["count"] > before


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x:1"}]}}
    return {"metadata": {"name": "one"}, "spec": {"template": template, **spec}}


def conditions(api: Api) -> dict[str, str]:
    found = api.get(f"{JOBS}/one").get("status", {}).get("conditions", [])
    return {one["type"]: one.get("reason", "") for one in found if one["status"] == "True"}


def running(api: Api) -> list[str]:
    return [item["metadata"]["name"] for item in api.get(PODS)["items"] if item["status"]["phase"] == "Pending"]


def test_a_job_completes(server: EmbeddedTransport, api: Api) -> None:
    api.create(JOBS, job(completions=3, parallelism=2))
    server.settle()
    assert api.get(f"{JOBS}/one")["status"]["active"] == 2
    for _ in range(3):
        finish(api, running(api)[0])
        server.settle()
    status = api.get(f"{JOBS}/one")["status"]
    assert status["succeeded"] == 3
    assert conditions(api) == {"Complete": "CompletionsReached"}
    assert len(names(api, PODS)) == 3
    # Pods are not held any more once they are counted, and counted once.
    api.delete(PODS)
    server.settle()
    assert names(api, PODS) == []
    assert api.get(f"{JOBS}/one")["status"]["succeeded"] == 3


def test_a_job_fails_after_its_retries(server: EmbeddedTransport, api: Api) -> None:
    api.create(JOBS, job(backoffLimit=1))
    server.settle()
    finish(api, running(api)[0], "Failed")
    server.settle()
    assert running(api) == [], "there is a pause after a failure"
    server.settle(11)
    finish(api, running(api)[0], "Failed")
    server.settle()
    assert conditions(api) == {"Failed": "BackoffLimitExceeded"}
    assert api.get(f"{JOBS}/one")["status"]["failed"] == 2


def test_a_job_ends_at_its_deadline_and_goes(server: EmbeddedTransport, api: Api) -> None:
    api.create(JOBS, job(activeDeadlineSeconds=30, ttlSecondsAfterFinished=60))
    server.settle()
    assert server.upkeep.next_due(server.now) == server.now + 30
    server.settle(31)
    assert conditions(api) == {"Failed": "DeadlineExceeded"}
    assert running(api) == []
    server.settle(61)
    assert api.call("GET", f"{JOBS}/one").status == 404


def test_a_suspended_job_waits(server: EmbeddedTransport, api: Api) -> None:
    api.create(JOBS, job(suspend=True))
    server.settle()
    assert running(api) == []
    assert conditions(api) == {"Suspended": "JobSuspended"}
    api.patch(f"{JOBS}/one", {"spec": {"suspend": False}})
    server.settle()
    assert len(running(api)) == 1
    assert conditions(api) == {}


def test_indexed_jobs_run_each_index_once(server: EmbeddedTransport, api: Api) -> None:
    api.create(JOBS, job(completionMode="Indexed", completions=3, parallelism=3))
    server.settle()
    pods = {item["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: item
            for item in api.get(PODS)["items"]}  # fmt: skip
    assert sorted(pods) == ["0", "1", "2"]
    assert {"name": "JOB_COMPLETION_INDEX", "value": "2"} in pods["2"]["spec"]["containers"][0]["env"]
    finish(api, pods["0"]["metadata"]["name"])
    finish(api, pods["2"]["metadata"]["name"])
    server.settle()
    assert api.get(f"{JOBS}/one")["status"]["completedIndexes"] == "0,2"
    finish(api, pods["1"]["metadata"]["name"])
    server.settle()
    assert conditions(api) == {"Complete": "CompletionsReached"}
    assert api.get(f"{JOBS}/one")["status"]["completedIndexes"] == "0-2"


def test_deleting_a_job_deletes_its_pods(server: EmbeddedTransport, api: Api) -> None:
    api.create(JOBS, job(parallelism=2, completions=2))
    server.settle()
    api.delete(f"{JOBS}/one", {"propagationPolicy": "Background"})
    server.settle()
    assert names(api, PODS) == []


def test_budgets_have_a_status(server: EmbeddedTransport, api: Api) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    api.create(path, {"metadata": {"name": "b"}, "spec": spec})
    for name in ("a", "b"):
        api.create(PODS, pod(name))
        api.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}})
        ready = [{"type": "Ready", "status": "True"}]
        api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": ready}}, STRATEGIC)
    server.settle()
    assert api.get(f"{path}/b")["status"]["disruptionsAllowed"] == 1
    older = api.get(f"{path.replace('v1', 'v1beta1', 1)}/b")
    assert (older["apiVersion"], older["status"]["disruptionsAllowed"]) == ("policy/v1beta1", 1)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert api.call("POST", f"{PODS}/a/eviction", eviction).status == 201
    server.settle()
    assert api.get(f"{path}/b")["status"]["disruptionsAllowed"] == 0
    assert api.call("POST", f"{PODS}/b/eviction", eviction | {"metadata": {"name": "b"}}).status == 429
