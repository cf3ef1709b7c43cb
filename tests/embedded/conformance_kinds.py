"""What is special about pods, workloads and custom kinds, on both servers. Imported by test_conformance.py."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from embedded.api import JSON_PATCH, MERGE, STRATEGIC, Api, pod
from embedded.conformance_objects import causes, pods

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def test_defaults_of_a_pod(api: Api, namespace: str) -> None:
    made = api.create(pods(namespace), pod("a"))
    spec = made["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["securityContext"] == {}
    assert spec["enableServiceLinks"] is True
    assert spec["priority"] == 0
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert [one["key"] for one in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
    ]  # fmt: skip
    [container] = spec["containers"]
    assert container == {
        "name": "main",
        "image": "busybox:1",
        "env": [{"name": "A", "value": "1"}],
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_quantities_are_canonical(api: Api, namespace: str) -> None:
    limits = {"cpu": 1.5, "memory": "1024Mi", "example.com/gpu": "2"}
    container = {"name": "main", "image": "x:latest", "resources": {"limits": limits, "requests": {"cpu": "500m"}}}
    made = api.create(pods(namespace), pod("a", containers=[container]))
    [container] = made["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "2"}
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2"}
    assert container["imagePullPolicy"] == "Always"
    assert made["status"]["qosClass"] == "Burstable"
    bad = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "much"}}}
    assert api.call("POST", pods(namespace), pod("b", containers=[bad])).status == 400


def test_pods_that_are_not_valid(api: Api, namespace: str) -> None:
    for spec, field in (
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"image": "x"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}, "spec.containers[1].name"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"containers": [{"name": "Capital", "image": "x"}]}, "spec.containers[0].name"),
    ):
        answer = api.call("POST", pods(namespace), pod("a", **spec))
        assert (answer.status, answer.reason) == (422, "Invalid"), spec
        assert field in {path for path, _ in causes(answer.body)}, answer.body


def test_requests_within_limits(api: Api, namespace: str) -> None:
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
    answer = api.call(
        "POST", pods(namespace), pod("a", containers=[{"name": "m", "image": "x", "resources": resources}])
    )
    assert answer.status == 422
    assert "must be less than or equal to cpu limit" in answer.body["message"]


def test_most_of_a_pod_never_changes(api: Api, namespace: str) -> None:
    api.create(pods(namespace), pod("a"))
    path = f"{pods(namespace)}/a"
    answer = api.call("PATCH", path, {"spec": {"nodeSelector": {"a": "b"}}}, kind=MERGE)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert ("spec", "FieldValueForbidden") in causes(answer.body)
    assert api.patch(path, {"spec": {"activeDeadlineSeconds": 5}})["spec"]["activeDeadlineSeconds"] == 5


def test_gates_of_a_pod_can_only_be_removed(api: Api, namespace: str) -> None:
    if int(api.get("/version")["minor"].rstrip("+")) < 27:
        pytest.skip("scheduling gates need Kubernetes 1.27")
    path, gates = f"{pods(namespace)}/a", [{"name": "example.com/one"}, {"name": "example.com/two"}]
    [waits] = api.create(pods(namespace), pod("a", schedulingGates=gates))["status"]["conditions"]
    assert (waits["type"], waits["status"], waits["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    bound = api.call("POST", f"{path}/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}})
    assert (bound.status, bound.reason) == (409, "Conflict")
    assert "has non-empty .spec.schedulingGates" in bound.body["message"]
    removal = {"spec": {"schedulingGates": [{"name": "example.com/one", "$patch": "delete"}]}}
    assert api.patch(path, removal, STRATEGIC)["spec"]["schedulingGates"] == gates[1:]
    again = api.call("PATCH", path, {"spec": {"schedulingGates": gates}}, kind=MERGE)
    assert (again.status, causes(again.body)) == (422, {("spec.schedulingGates[0].name", "FieldValueForbidden")})
    assert not api.patch(path, {"spec": {"schedulingGates": None}}, MERGE)["spec"].get("schedulingGates")
    placed = api.call("POST", pods(namespace), pod("b", schedulingGates=gates, nodeName="n1"))
    assert (placed.status, causes(placed.body)) == (422, {("spec.nodeName", "FieldValueForbidden")})


def test_binding(api: Api, namespace: str) -> None:
    api.create(pods(namespace), pod("a"))
    binding = {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "annotations": {"by": "test"}},
        "target": {"kind": "Node", "name": "n1"},
    }  # fmt: skip
    answer = api.create(f"{pods(namespace)}/a/binding", binding)
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)
    bound = api.get(f"{pods(namespace)}/a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"by": "test"}
    [scheduled] = bound["status"]["conditions"]
    assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "True")
    again = api.call("POST", f"{pods(namespace)}/a/binding", binding)
    assert (again.status, again.reason) == (409, "Conflict")
    assert 'pod a is already assigned to node "n1"' in again.body["message"]
    assert api.call("POST", f"{pods(namespace)}/none/binding", binding | {"metadata": {"name": "none"}}).status == 404
    assert api.call("POST", f"{pods(namespace)}/a/binding", {"target": {}, "metadata": {"name": "a"}}).status >= 400
    nameless = api.call("POST", f"{pods(namespace)}/a/binding", {"target": {"kind": "Node", "name": "n1"}})
    assert (nameless.status, nameless.body["message"]) == (400, "name in URL does not match name in Binding object")


def test_a_running_pod_gets_its_grace_period(api: Api, namespace: str) -> None:
    path = f"{pods(namespace)}/a"
    api.create(pods(namespace), pod("a", terminationGracePeriodSeconds=20))
    api.create(f"{path}/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}})
    going = api.delete(path)
    assert going["metadata"]["deletionGracePeriodSeconds"] == 20
    assert api.get(path)["metadata"]["deletionTimestamp"]
    sooner = api.delete(path, {"gracePeriodSeconds": 5})
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
    later = api.delete(path, {"gracePeriodSeconds": 50})
    assert later["metadata"]["deletionGracePeriodSeconds"] == 5
    gone = api.delete(path, {"gracePeriodSeconds": 0})
    assert gone["kind"] == "Pod"
    assert api.call("GET", path).status == 404


def test_a_pod_without_a_node_goes_at_once(api: Api, namespace: str) -> None:
    api.create(pods(namespace), pod("a"))
    assert api.delete(f"{pods(namespace)}/a")["metadata"]["name"] == "a"
    assert api.call("GET", f"{pods(namespace)}/a").status == 404


def test_eviction_and_budgets(api: Api, namespace: str) -> None:
    for name in ("a", "b"):
        api.create(pods(namespace), pod(name))
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
        api.create(f"{pods(namespace)}/{name}/binding", body)
        ready = [{"type": "Ready", "status": "True"}]
        api.patch(f"{pods(namespace)}/{name}/status", {"status": {"phase": "Running", "conditions": ready}}, STRATEGIC)
    budgets = f"/apis/{api.budget_version}/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    api.create(budgets, {"metadata": {"name": "keep"}, "spec": spec})

    def allow(disruptions: int) -> None:
        status = {
            "observedGeneration": 1, "disruptionsAllowed": disruptions, "currentHealthy": 2, "desiredHealthy": 1,
            "expectedPods": 2,
        }  # fmt: skip
        api.patch(f"{budgets}/keep/status", {"status": status})

    def evict(name: str) -> Any:
        body = {"apiVersion": api.budget_version, "kind": "Eviction", "metadata": {"name": name}}
        return api.call("POST", f"{pods(namespace)}/{name}/eviction", body)

    allow(0)
    refused = evict("a")
    assert (refused.status, refused.reason) == (429, "TooManyRequests")
    assert refused.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = refused.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    # Recent servers say more about why.
    assert cause["message"].startswith("The disruption budget keep ")
    allow(1)
    assert evict("a").status == 201
    assert api.get(f"{pods(namespace)}/a")["metadata"]["deletionTimestamp"]
    assert "a" in api.get(f"{budgets}/keep")["status"]["disruptedPods"]
    assert evict("b").status == 429, "the budget is used up"
    assert evict("none").status == 404
    for name in ("a", "b"):
        api.delete(f"{pods(namespace)}/{name}", {"gracePeriodSeconds": 0})


def test_priorities(api: Api, namespace: str) -> None:
    name = f"class-{secrets.token_hex(4)}"
    api.create(PRIORITIES, {"metadata": {"name": name}, "value": 77, "preemptionPolicy": "Never"})
    try:
        made = api.create(pods(namespace), pod("a", priorityClassName=name))
        assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (77, "Never")
        unknown = api.call("POST", pods(namespace), pod("b", priorityClassName="no-such-class"))
        assert (unknown.status, unknown.reason) == (403, "Forbidden")
        assert unknown.body["message"].endswith("no PriorityClass with name no-such-class was found")
        assert api.call("POST", pods(namespace), pod("b", priority=5)).status == 403
        changed = api.call("PATCH", f"{PRIORITIES}/{name}", {"value": 78}, kind=MERGE)
        assert (changed.status, changed.reason) == (422, "Invalid")
    finally:
        api.delete(f"{PRIORITIES}/{name}")
    huge = {"metadata": {"name": "too-high"}, "value": 2_000_000_000}
    assert api.call("POST", PRIORITIES, huge).status in (403, 422)


def replica_set(name: str = "set", replicas: int = 2) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x:1"}]}}
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip


def test_scale(api: Api, namespace: str) -> None:
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    api.create(sets, replica_set())
    scale = api.get(f"{sets}/set/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"]["selector"] == "app=set"
    scale["spec"]["replicas"] = 5
    assert api.replace(f"{sets}/set/scale", scale)["spec"] == {"replicas": 5}
    changed = api.get(f"{sets}/set")
    assert changed["spec"]["replicas"] == 5
    assert changed["metadata"]["generation"] == 2
    assert api.patch(f"{sets}/set/scale", {"spec": {"replicas": 1}})["spec"] == {"replicas": 1}
    assert api.call("PATCH", f"{sets}/set/scale", {"spec": {"replicas": -1}}, kind=MERGE).status == 422


def test_replica_sets_that_are_not_valid(api: Api, namespace: str) -> None:
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    other = replica_set()
    other["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    answer = api.call("POST", sets, other)
    assert answer.status == 422
    assert ("spec.template.metadata.labels", "FieldValueInvalid") in causes(answer.body)
    missing = replica_set()
    del missing["spec"]["selector"]
    assert api.call("POST", sets, missing).status == 422
    assert api.call("POST", sets, replica_set(replicas=-1)).status == 422


def test_a_generation_counts_changes_of_the_spec(api: Api, namespace: str) -> None:
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    assert api.create(sets, replica_set())["metadata"]["generation"] == 1
    assert api.patch(f"{sets}/set", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 1
    assert api.patch(f"{sets}/set", {"spec": {"replicas": 3}})["metadata"]["generation"] == 2
    assert api.patch(f"{sets}/set/status", {"status": {"replicas": 1}})["metadata"]["generation"] == 2


def test_jobs_get_a_selector(api: Api, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x:1"}]}}
    made = api.create(jobs, {"metadata": {"name": "one"}, "spec": {"template": template}})
    assert (made["spec"]["parallelism"], made["spec"]["completions"], made["spec"]["backoffLimit"]) == (1, 1, 6)
    uid = made["metadata"]["uid"]
    # Since 1.27 the label has a prefix, and pods have it with and without.
    assert made["spec"]["selector"]["matchLabels"] in (
        {"controller-uid": uid}, {"batch.kubernetes.io/controller-uid": uid},
    )  # fmt: skip
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert (labels["controller-uid"], labels["job-name"]) == (uid, "one")
    always = {"spec": {"restartPolicy": "Always", "containers": [{"name": "main", "image": "x:1"}]}}
    answer = api.call("POST", jobs, {"metadata": {"name": "two"}, "spec": {"template": always}})
    assert answer.status == 422
    assert ("spec.template.spec.restartPolicy", "FieldValueRequired") in causes(answer.body)
    changed = api.call("PATCH", f"{jobs}/one", {"spec": {"completions": 3}}, kind=MERGE)
    assert changed.status == 422


# -- custom kinds -----------------------------------------------------------------------------------------------------


def definition(group: str) -> dict[str, Any]:
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "word": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
            "parts": {
                "type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {
                    "type": "object", "required": ["id"],
                    "properties": {"id": {"type": "string"}, "weight": {"type": "integer", "default": 3}},
                },
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "port": {"x-kubernetes-int-or-string": True},
            "replicas": {"type": "integer"},
        },
    }  # fmt: skip
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}}
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"balloons.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": "balloons", "kind": "Balloon", "shortNames": ["bl"]},
        },
    }  # fmt: skip


@pytest.fixture
def balloons(api: Api, namespace: str) -> Iterator[str]:
    group = f"g{secrets.token_hex(4)}.example.com"
    made = api.create(DEFINITIONS, definition(group))
    assert made["spec"]["names"]["listKind"] == "BalloonList"
    assert made["spec"]["names"]["singular"] == "balloon"
    path = f"/apis/{group}/v1/namespaces/{namespace}/balloons"
    for _ in range(500):  # a server may need a moment until it serves a new kind
        if api.call("GET", path).status == 200:
            break
    yield path
    api.delete(f"{DEFINITIONS}/balloons.{group}")


def balloon(name: str = "one", **spec: Any) -> dict[str, Any]:
    return {"kind": "Balloon", "metadata": {"name": name}, "spec": {"size": 3, **spec}}


def of(path: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "/".join(path.split("/")[2:4]), **body}


def test_custom_objects_get_defaults_and_lose_unknown_fields(api: Api, balloons: str) -> None:
    body = balloon(unknown=1, free={"any": {"thing": 1}}, parts=[{"id": "a", "odd": True}])
    made = api.create(balloons, of(balloons, body))
    assert made["spec"] == {
        "size": 3, "color": "red", "free": {"any": {"thing": 1}}, "parts": [{"id": "a", "weight": 3}],
    }  # fmt: skip
    assert made["metadata"]["generation"] == 1


def test_custom_objects_are_validated(api: Api, balloons: str) -> None:
    for spec, field in (
        ({"size": 11}, "spec.size"),
        ({"size": 0}, "spec.size"),
        ({"size": "3"}, "spec.size"),
        ({"size": None}, "spec.size"),
        ({"color": "green"}, "spec.color"),
        ({"word": "toolong"}, "spec.word"),
        ({"word": "A"}, "spec.word"),
        ({"parts": [{}]}, "spec.parts[0].id"),
        ({"port": 1.5}, "spec.port"),
    ):
        answer = api.call("POST", balloons, of(balloons, balloon(**spec)))
        assert (answer.status, answer.reason) == (422, "Invalid"), (spec, answer.body)
        paths = {path for path, _ in causes(answer.body)}
        assert field in paths or field.replace("[0]", "") in paths, (spec, answer.body)
    for port in (80, "http"):
        api.create(balloons, of(balloons, balloon(f"port-{port}", port=port)))


def test_custom_objects_are_updated_with_a_version(api: Api, balloons: str) -> None:
    made = api.create(balloons, of(balloons, balloon()))
    path = f"{balloons}/one"
    unversioned = api.call("PUT", path, of(balloons, balloon(size=4)))
    assert unversioned.status == 422
    assert ("metadata.resourceVersion", "FieldValueInvalid") in causes(unversioned.body)
    made["spec"]["size"] = 4
    made["status"] = {"phase": "Up"}
    changed = api.replace(path, made)
    assert changed["metadata"]["generation"] == 2
    assert "status" not in changed
    with_status = api.patch(f"{path}/status", {"status": {"phase": "Up"}, "spec": {"size": 9}})
    assert (with_status["status"], with_status["spec"]["size"]) == ({"phase": "Up"}, 4)
    assert with_status["metadata"]["generation"] == 2


def test_custom_objects_know_no_strategic_patches(api: Api, balloons: str) -> None:
    api.create(balloons, of(balloons, balloon()))
    assert api.call("PATCH", f"{balloons}/one", {"spec": {"size": 4}}, kind=STRATEGIC).status == 415
    add = [{"op": "add", "path": "/spec/word", "value": "abc"}]
    assert api.patch(f"{balloons}/one", add, JSON_PATCH)["spec"]["word"] == "abc"


def test_custom_objects_are_applied(api: Api, balloons: str) -> None:
    path = f"{balloons}/one"
    assert api.apply(path, of(balloons, balloon(word="a")), "me").status == 201
    other = of(balloons, {"kind": "Balloon", "metadata": {"name": "one"}, "spec": {"color": "blue"}})
    both = api.apply(path, other, "you").body
    assert both["spec"] == {"size": 3, "color": "blue", "word": "a"}
    assert api.apply(path, of(balloons, balloon()), "me").body["spec"] == {"size": 3, "color": "blue"}
    assert api.apply(path, of(balloons, balloon(color="red")), "me").status == 409


def test_custom_objects_scale(api: Api, balloons: str) -> None:
    api.create(balloons, of(balloons, balloon(replicas=2)))
    assert api.get(f"{balloons}/one/scale")["spec"] == {"replicas": 2}
    assert api.patch(f"{balloons}/one/scale", {"spec": {"replicas": 4}})["spec"] == {"replicas": 4}
    assert api.get(f"{balloons}/one")["spec"]["replicas"] == 4


def test_custom_objects_have_columns(api: Api, balloons: str) -> None:
    api.create(balloons, of(balloons, balloon()))
    table = api.get(balloons, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"][0]["cells"] == ["one", 3]


def test_definitions_that_are_not_valid(api: Api) -> None:
    wrong = definition("toys.example.com")
    wrong["metadata"]["name"] = "other.toys.example.com"
    answer = api.call("POST", DEFINITIONS, wrong)
    assert answer.status == 422
    assert ("metadata.name", "FieldValueInvalid") in causes(answer.body)
    schemaless = definition("toys.example.com")
    del schemaless["spec"]["versions"][0]["schema"]
    assert api.call("POST", DEFINITIONS, schemaless).status == 422
    typeless = definition("toys.example.com")
    typeless["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"x": {}}}}
    assert api.call("POST", DEFINITIONS, typeless).status == 422
    storeless = definition("toys.example.com")
    storeless["spec"]["versions"][0]["storage"] = False
    assert api.call("POST", DEFINITIONS, storeless).status == 422
