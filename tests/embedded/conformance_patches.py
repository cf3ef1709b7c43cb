"""What both servers do with patches. Imported by test_conformance.py here and in tests/kube."""

from __future__ import annotations

from typing import Any

from embedded.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, config_map, pod
from embedded.conformance_objects import maps, pods


def container(body: Any) -> Any:
    [only] = body["spec"]["containers"]
    return only


def test_a_merge_patch_changes_what_it_names(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("one", {"kept": "yes"}, a="1", b="2"))
    changed = api.patch(f"{maps(namespace)}/one", {"data": {"a": None, "c": "3"}})
    assert changed["data"] == {"b": "2", "c": "3"}
    assert changed["metadata"]["labels"] == {"kept": "yes"}


def test_a_merge_patch_with_a_stale_version_is_a_conflict(api: Api, namespace: str) -> None:
    old = api.create(maps(namespace), config_map("one", a="1"))
    api.patch(f"{maps(namespace)}/one", {"data": {"a": "2"}})
    patch = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    answer = api.call("PATCH", f"{maps(namespace)}/one", patch, kind=MERGE)
    assert (answer.status, answer.reason) == (409, "Conflict")


def test_a_json_patch(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    api.create(maps(namespace), config_map("one", a="1", b="2"))
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "x"},
        {"op": "remove", "path": "/data/b"},
        {"op": "add", "path": "/metadata/labels", "value": {"slash": "d"}},
        {"op": "copy", "from": "/data/a", "path": "/data/c"},
        {"op": "move", "from": "/data/c", "path": "/data/d"},
    ]
    changed = api.patch(path, operations, JSON_PATCH)
    assert changed["data"] == {"a": "x", "d": "x"}
    assert changed["metadata"]["labels"] == {"slash": "d"}


def test_a_json_patch_that_does_not_fit(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    api.create(maps(namespace), config_map("one", a="1"))
    for operations in (
        [{"op": "test", "path": "/data/a", "value": "2"}],
        [{"op": "remove", "path": "/data/none"}],
    ):
        answer = api.call("PATCH", path, operations, kind=JSON_PATCH)
        assert (answer.status, answer.reason) == (422, "Invalid"), operations
    assert api.call("PATCH", path, {"not": "a list"}, kind=JSON_PATCH).status == 400
    assert api.get(path)["data"] == {"a": "1"}


def test_a_strategic_merge_patch_merges_by_key(api: Api, namespace: str) -> None:
    path = f"{pods(namespace)}/a"
    api.create(pods(namespace), pod("a"))
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Odd", "status": "True"}]
    api.patch(f"{path}/status", {"status": {"phase": "Running", "conditions": conditions}}, STRATEGIC)
    changed = api.patch(
        f"{path}/status",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Odd", "$patch": "delete"}]}},
        STRATEGIC,
    )
    assert [(one["type"], one["status"]) for one in changed["status"]["conditions"]] == [("Ready", "False")]
    assert changed["status"]["phase"] == "Running"
    image = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    changed = api.patch(path, image, STRATEGIC)
    assert container(changed)["image"] == "busybox:2"
    assert container(changed)["env"] == [{"name": "A", "value": "1"}]


def test_lists_of_values_are_merged_as_sets(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    body = config_map("one", {"other": "that"})
    body["metadata"]["finalizers"] = ["example.com/a"]
    api.create(maps(namespace), body)
    changed = api.patch(path, {"metadata": {"finalizers": ["example.com/b"]}}, STRATEGIC)
    assert sorted(changed["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    removal = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    assert api.patch(path, removal, STRATEGIC)["metadata"]["finalizers"] == ["example.com/b"]
    replacing = {"metadata": {"labels": {"$patch": "replace", "only": "this"}}}
    assert api.patch(path, replacing, STRATEGIC)["metadata"]["labels"] == {"only": "this"}
    api.patch(path, {"metadata": {"finalizers": None}})


def test_patches_that_cannot_be(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    api.create(maps(namespace), config_map("one"))
    assert api.call("PATCH", path, {}, kind="application/json").status == 415
    assert api.call("PATCH", path, b"{", kind=STRATEGIC).status == 400
    assert api.call("PATCH", path, b"{", kind=MERGE).status >= 400
    assert api.call("PATCH", f"{maps(namespace)}/none", {}, kind=MERGE).status == 404
    assert api.call("PATCH", path, {"data": "text"}, kind=MERGE).status in (400, 422)
    assert api.call("PATCH", path, {"metadata": {"name": "two"}}, kind=MERGE).status in (400, 422)


def test_status_and_object_are_written_apart(api: Api, namespace: str) -> None:
    api.create(pods(namespace), pod("a"))
    path = f"{pods(namespace)}/a"
    through_object = api.patch(path, {"status": {"phase": "Running"}, "metadata": {"labels": {"x": "1"}}})
    assert through_object["status"]["phase"] == "Pending"
    assert through_object["metadata"]["labels"]["x"] == "1"
    through_status = api.patch(f"{path}/status", {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}})
    assert through_status["status"]["phase"] == "Running"
    assert "nodeName" not in through_status["spec"]


# -- server-side apply ------------------------------------------------------------------------------------------------


def entry(body: Any, manager: str, operation: str) -> Any:
    found = [
        one for one in body["metadata"].get("managedFields", [])
        if (one["manager"], one["operation"]) == (manager, operation)
    ]  # fmt: skip
    return found[0]["fieldsV1"] if found else None


def test_apply_creates_and_changes(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    made = api.apply(path, config_map("one", {"x": "1"}, a="1", b="2"), "me")
    assert made.status == 201
    assert entry(made.body, "me", "Apply")["f:data"] == {"f:a": {}, "f:b": {}}
    changed = api.apply(path, config_map("one", {"x": "1"}, a="2"), "me")
    assert changed.status == 200
    assert changed.body["data"] == {"a": "2"}, "what is no longer applied is removed"
    again = api.apply(path, config_map("one", {"x": "1"}, a="2"), "me")
    assert again.body["metadata"]["resourceVersion"] == changed.body["metadata"]["resourceVersion"]


def test_what_others_own_stays(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    api.apply(path, config_map("one", a="1", b="2"), "me")
    api.apply(path, config_map("one", b="2", c="3"), "you")
    assert api.apply(path, config_map("one", a="1"), "me").body["data"] == {"a": "1", "b": "2", "c": "3"}
    assert api.apply(path, config_map("one"), "you").body["data"] == {"a": "1"}


def test_conflicts_of_appliers(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    api.apply(path, config_map("one", a="1", b="2"), "me")
    refused = api.apply(path, config_map("one", a="9"), "you")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "me": .data.a'
    assert refused.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.a"}
    ]
    forced = api.apply(path, config_map("one", a="9"), "you", force="true")
    assert forced.body["data"] == {"a": "9", "b": "2"}
    assert entry(forced.body, "me", "Apply")["f:data"] == {"f:b": {}}
    assert entry(forced.body, "you", "Apply")["f:data"] == {"f:a": {}}


def test_an_update_takes_fields_from_appliers(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    api.apply(path, config_map("one", a="1", b="2"), "me")
    changed = api.patch(path, {"data": {"a": "2"}}, fieldManager="editor")
    assert entry(changed, "editor", "Update")["f:data"] == {"f:a": {}}
    assert entry(changed, "me", "Apply")["f:data"] == {"f:b": {}}
    refused = api.apply(path, config_map("one", a="1", b="2"), "me")
    assert refused.status == 409
    assert 'conflict with "editor" using v1' in refused.body["message"]
    assert api.apply(path, config_map("one", a="2", b="2"), "me").status == 200, "equal values are no conflict"


def test_patches_that_are_refused_as_invalid(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    api.create(maps(namespace), config_map("one"))
    assert api.call("PATCH", path, [{"op": "bogus", "path": "/data"}], kind=JSON_PATCH).status == 422
    assert api.call("PATCH", path, {"metadata": {"uid": "other"}}, kind=MERGE).status == 422


def test_apply_merges_lists_by_key(api: Api, namespace: str) -> None:
    path = f"{pods(namespace)}/a"
    body = pod("a")
    api.apply(path, body, "me")
    extra = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {"x": "y"}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    }  # fmt: skip
    both = api.apply(path, extra, "you").body
    assert container(both)["env"] == [{"name": "A", "value": "1"}]
    assert entry(both, "you", "Apply")["f:spec"]["f:containers"] == {
        'k:{"name":"main"}': {".": {}, "f:name": {}, "f:image": {}}
    }


def test_apply_that_cannot_be(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    body = config_map("one")
    nobody = api.call("PATCH", path, body, kind=APPLY)
    assert nobody.status in (400, 422)
    assert api.apply(path, config_map("two"), "me").status == 400
    assert api.apply(path, b"a: [", "me").status == 400
    managed = config_map("one")
    managed["metadata"]["managedFields"] = [{"manager": "x", "operation": "Apply", "apiVersion": "v1"}]
    assert api.apply(path, managed, "me").status == 400
    managed["metadata"]["managedFields"] = []
    assert api.apply(path, managed, "me").status == 400


def test_a_create_owns_its_fields(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("one", a="1"), fieldManager="creator")
    assert entry(made, "creator", "Update")["f:data"].keys() - {"."} == {"f:a"}
    default = api.create(maps(namespace), config_map("two", a="1"))
    assert entry(default, "conformance", "Update") is not None, "the name of the program"
