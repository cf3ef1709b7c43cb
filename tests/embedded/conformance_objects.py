"""What both servers do with single objects. Imported by test_conformance.py here and in tests/kube."""

from __future__ import annotations

from typing import Any

from embedded.api import Api, config_map, pod


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def causes(body: Any) -> set[tuple[str, str]]:
    return {(one["field"], one["reason"]) for one in body["details"]["causes"]}


def test_what_is_created_can_be_read(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("one", a="1"))
    assert made["metadata"]["namespace"] == namespace
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert api.get(f"{maps(namespace)}/one") == made


def test_a_name_is_used_once(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("one"))
    again = api.call("POST", maps(namespace), config_map("one"))
    assert (again.status, again.reason) == (409, "AlreadyExists")
    assert again.body["message"] == 'configmaps "one" already exists'
    assert again.body["details"] == {"name": "one", "kind": "configmaps"}


def test_what_is_not_there_is_not_found(api: Api, namespace: str) -> None:
    for method in ("GET", "DELETE"):
        answer = api.call(method, f"{maps(namespace)}/none")
        assert (answer.status, answer.reason) == (404, "NotFound")
        assert answer.body["message"] == 'configmaps "none" not found'
    assert api.call("GET", f"/api/v1/namespaces/{namespace}/volcanoes").status == 404
    assert api.call("GET", "/apis/no.such.group/v1/things").status == 404


def test_a_namespace_must_exist(api: Api) -> None:
    answer = api.call("POST", maps("no-such-namespace"), config_map("one"))
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.body["message"] == 'namespaces "no-such-namespace" not found'


def test_the_namespace_of_the_path_holds(api: Api, namespace: str) -> None:
    body = config_map("one")
    body["metadata"]["namespace"] = "another"
    answer = api.call("POST", maps(namespace), body)
    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_names_are_generated(api: Api, namespace: str) -> None:
    body = {"metadata": {"generateName": "few-"}}
    first, second = (api.create(maps(namespace), body)["metadata"]["name"] for _ in range(2))
    assert first.startswith("few-")
    assert len(first) == len("few-") + 5
    assert first != second


def test_invalid_names_and_labels_are_refused(api: Api, namespace: str) -> None:
    nameless = api.call("POST", maps(namespace), {"metadata": {}})
    assert (nameless.status, nameless.reason) == (422, "Invalid")
    assert ("metadata.name", "FieldValueRequired") in causes(nameless.body)
    capital = api.call("POST", maps(namespace), config_map("Capital"))
    assert ("metadata.name", "FieldValueInvalid") in causes(capital.body)
    label = api.call("POST", maps(namespace), config_map("one", {"no spaces": "here"}))
    assert ("metadata.labels", "FieldValueInvalid") in causes(label.body)


def test_a_stale_update_is_a_conflict(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    old = api.create(maps(namespace), config_map("one", a="1"))
    api.replace(path, old | {"data": {"a": "2"}})
    answer = api.call("PUT", path, old | {"data": {"a": "3"}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.body["message"] == (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )
    assert api.get(path)["data"] == {"a": "2"}


def test_an_update_without_a_version_wins(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("one", a="1"))
    assert api.replace(f"{maps(namespace)}/one", config_map("one", a="2"))["data"] == {"a": "2"}


def test_an_update_that_changes_nothing_writes_nothing(api: Api, namespace: str) -> None:
    old = api.create(maps(namespace), config_map("one", a="1"))
    new = api.replace(f"{maps(namespace)}/one", old)
    assert new["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


def test_an_update_must_name_the_object_of_the_path(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("one"))
    assert api.call("PUT", f"{maps(namespace)}/one", config_map("two")).status == 400
    assert api.call("PUT", f"{maps(namespace)}/none", config_map("none")).status == 404
    stranger = config_map("one")
    stranger["metadata"]["uid"] = "4d1e0a3c-1111-4222-8333-444455556666"
    assert api.call("PUT", f"{maps(namespace)}/one", stranger).status == 409


def test_what_the_server_sets_cannot_be_changed(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("one"))
    changed = api.patch(
        f"{maps(namespace)}/one", {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "labels": {"a": "b"}}}
    )
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert changed["metadata"]["labels"] == {"a": "b"}


def test_deletion(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("one"))
    wrong = {"preconditions": {"uid": "4d1e0a3c-1111-4222-8333-444455556666"}}
    refused = api.call("DELETE", f"{maps(namespace)}/one", wrong)
    assert (refused.status, refused.reason) == (409, "Conflict")
    answer = api.delete(f"{maps(namespace)}/one", {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "one", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert api.call("GET", f"{maps(namespace)}/one").status == 404


def test_finalizers_keep_an_object(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    body = config_map("one")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    api.create(maps(namespace), body)
    going = api.delete(path)
    assert going["kind"] == "ConfigMap"
    assert going["metadata"]["deletionTimestamp"]
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0
    more = api.call("PATCH", path, {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}},
                    kind="application/merge-patch+json")  # fmt: skip
    assert (more.status, more.reason) == (422, "Invalid")
    assert ("metadata.finalizers", "FieldValueForbidden") in causes(more.body)
    api.patch(path, {"metadata": {"finalizers": None}})
    assert api.call("GET", path).status == 404


def test_a_collection_is_deleted_by_selector(api: Api, namespace: str) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        api.create(maps(namespace), config_map(name, {"color": color}))
    api.delete(maps(namespace), labelSelector="color=red")
    names = {item["metadata"]["name"] for item in api.get(maps(namespace))["items"]}
    assert names - {"kube-root-ca.crt"} == {"b"}


def test_a_dry_run_writes_nothing(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("one"), dryRun="All")
    assert made["metadata"]["uid"]
    assert api.call("GET", f"{maps(namespace)}/one").status == 404
    api.create(maps(namespace), config_map("one", a="1"))
    assert api.patch(f"{maps(namespace)}/one", {"data": {"a": "2"}}, dryRun="All")["data"] == {"a": "2"}
    api.delete(f"{maps(namespace)}/one", dryRun="All")
    assert api.get(f"{maps(namespace)}/one")["data"] == {"a": "1"}
    assert api.call("POST", maps(namespace), config_map("two"), dryRun="Some").status == 422


def test_unknown_fields_are_dropped(api: Api, namespace: str) -> None:
    made = api.create(pods(namespace), pod("a", noSuchField=1))
    assert "noSuchField" not in made["spec"]


def test_values_of_the_wrong_type_are_refused(api: Api, namespace: str) -> None:
    for body in (
        pod("a", containers="none"), pod("a", terminationGracePeriodSeconds="soon"), pod("a", hostNetwork="yes"),
        {"metadata": "none"}, [], "text", 7,
    ):  # fmt: skip
        answer = api.call("POST", pods(namespace), body)
        assert (answer.status, answer.reason) == (400, "BadRequest"), body


def test_bodies_that_are_not_objects_are_refused(api: Api, namespace: str) -> None:
    assert api.call("POST", pods(namespace), b"{").status == 400
    assert api.call("POST", pods(namespace), b"").status == 400
    assert api.call("POST", pods(namespace), b"{}", kind="text/html").status == 415
    wrong = api.call("POST", pods(namespace), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    assert wrong.status == 400
    version = api.call("POST", pods(namespace), pod() | {"apiVersion": "v2"})
    assert version.status == 400


def test_a_collection_of_all_namespaces_cannot_be_deleted(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("one"))
    assert api.call("DELETE", "/api/v1/configmaps").status == 405
    assert api.call("DELETE", "/api/v1/configmaps", labelSelector="a=b").status == 405
    assert api.call("GET", f"{maps(namespace)}/one").status == 200


def test_finalizers_have_full_names(api: Api, namespace: str) -> None:
    for finalizer, status in (("x", 422), ("example.com/x", 201), ("foregroundDeletion", 201)):
        body = config_map(finalizer.lower().replace("/", "-"))
        body["metadata"]["finalizers"] = [finalizer]
        assert api.call("POST", maps(namespace), body).status == status, finalizer


def test_pods_name_nodes_properly(api: Api, namespace: str) -> None:
    for field, value in (("nodeSelector", {"a b": "c"}), ("nodeSelector", {"a": "b c"}), ("nodeName", "a b")):
        body = pod("a")
        body["spec"][field] = value
        assert api.call("POST", pods(namespace), body).status == 422, field


def test_methods_that_a_resource_does_not_have(api: Api, namespace: str) -> None:
    for method, path in (("POST", f"{maps(namespace)}/one"), ("PUT", maps(namespace)), ("PATCH", maps(namespace))):
        answer = api.call(method, path, config_map("one"), kind="application/json")
        assert (answer.status, answer.reason) == (405, "MethodNotAllowed"), (method, path)


def test_yaml_can_be_sent(api: Api, namespace: str) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: '1'}\n"
    answer = api.call("POST", maps(namespace), text, kind="application/yaml")
    assert answer.status == 201
    assert answer.body["data"] == {"a": "1"}


def test_secrets_take_plain_text(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    made = api.create(f"/api/v1/namespaces/{namespace}/secrets", body)
    assert made["data"] == {"a": "Yg==", "c": "ZA=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made
    bad = {"metadata": {"name": "t"}, "data": {"a": "?"}}
    assert api.call("POST", f"/api/v1/namespaces/{namespace}/secrets", bad).status == 400


def test_immutable_config_maps(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("one", a="1") | {"immutable": True})
    answer = api.call("PATCH", f"{maps(namespace)}/one", {"data": {"a": "2"}}, kind="application/merge-patch+json")
    assert (answer.status, answer.reason) == (422, "Invalid")


def test_leases_are_created_by_an_update(api: Api, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/one"
    body = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me", "renewTime": "2030-01-01T00:00:00.000000Z"}}
    answer = api.call("PUT", path, body)
    assert answer.status == 201
    assert api.get(path)["spec"]["renewTime"] == "2030-01-01T00:00:00.000000Z"


def test_some_namespaces_stay(api: Api) -> None:
    answer = api.call("DELETE", "/api/v1/namespaces/default")
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.body["message"] == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_discovery(api: Api) -> None:
    groups = {group["name"]: group for group in api.get("/apis")["groups"]}
    assert {"apps", "batch", "policy", "scheduling.k8s.io", "coordination.k8s.io"} <= set(groups)
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert api.get("/apis/apps")["name"] == "apps"
    resources = {one["name"]: one for one in api.get("/api/v1")["resources"]}
    assert resources["pods"]["kind"] == "Pod"
    assert resources["pods"]["shortNames"] == ["po"]
    assert {"create", "list", "watch", "patch", "deletecollection"} <= set(resources["pods"]["verbs"])
    assert {"pods/status", "pods/binding", "pods/eviction", "pods/log"} <= set(resources)
    assert not resources["nodes"]["namespaced"]
    assert api.call("GET", "/apis/apps/v9").status == 404
    assert api.get("/version")["major"] == "1"
