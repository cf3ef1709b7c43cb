"""What both servers do with lists and watches. Imported by test_conformance.py here and in tests/kube."""

from __future__ import annotations

from typing import Any

import pytest

from embedded.api import Api, config_map, pod
from embedded.conformance_objects import maps, pods

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


def names(listed: Any) -> list[str]:
    found = [item["metadata"]["name"] for item in listed["items"]]
    return [name for name in found if name != "kube-root-ca.crt"]


def test_a_list_is_in_order_and_has_a_version(api: Api, namespace: str) -> None:
    for name in ("c", "a", "b"):
        api.create(maps(namespace), config_map(name))
    listed = api.get(maps(namespace))
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(listed) == ["a", "b", "c"]
    newest = max(int(item["metadata"]["resourceVersion"]) for item in listed["items"])
    assert int(listed["metadata"]["resourceVersion"]) >= newest


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("color=red", ["a", "c"]),
        ("color==red,size=big", ["c"]),
        ("color!=red", ["b", "d"]),
        ("color in (red, blue)", ["a", "b", "c"]),
        ("color notin (red)", ["b", "d"]),
        ("size", ["c"]),
        ("!color", ["d"]),
        ("", ["a", "b", "c", "d"]),
    ],
)
def test_label_selectors(api: Api, namespace: str, selector: str, expected: list[str]) -> None:
    labels: dict[str, dict[str, str]] = {
        "a": {"color": "red"}, "b": {"color": "blue"}, "c": {"color": "red", "size": "big"}, "d": {},
    }  # fmt: skip
    for name, own in labels.items():
        api.create(maps(namespace), config_map(name, own))
    assert names(api.get(maps(namespace), labelSelector=selector)) == expected


def test_selectors_that_make_no_sense(api: Api, namespace: str) -> None:
    assert api.call("GET", maps(namespace), labelSelector="a in b").status == 400
    assert api.call("GET", maps(namespace), labelSelector="a=(b").status == 400
    assert api.call("GET", maps(namespace), labelSelector="a>b").status == 400
    assert api.call("GET", maps(namespace), fieldSelector="data.a=1").status == 400
    assert api.call("GET", maps(namespace), fieldSelector="metadata.name").status == 400


def test_how_queries_are_read(api: Api, namespace: str) -> None:
    """Whatever is not `false` or `0` is a yes. A negative limit is none."""
    api.create(maps(namespace), config_map("a"))
    assert "a" in names(api.get(maps(namespace), limit=-1))
    assert api.call("GET", maps(namespace), limit="x").status == 400
    assert api.call("GET", maps(namespace), timeoutSeconds="x").status == 400
    for word in ("yes", "TRUE", "t"):
        assert api.watch(maps(namespace), 1, watch=word, resourceVersion="0")[0]["type"] == "ADDED"
    for word in ("False", "0"):
        assert api.get(maps(namespace), watch=word)["kind"] == "ConfigMapList"


def test_field_selectors(api: Api, namespace: str) -> None:
    for name in ("a", "b"):
        api.create(pods(namespace), pod(name))
    api.create(f"{pods(namespace)}/b/binding", {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n1"}})
    assert names(api.get(pods(namespace), fieldSelector="metadata.name=a")) == ["a"]
    assert names(api.get(pods(namespace), fieldSelector="spec.nodeName=n1")) == ["b"]
    assert names(api.get(pods(namespace), fieldSelector="spec.nodeName=")) == ["a"]
    assert names(api.get(pods(namespace), fieldSelector="spec.nodeName!=,status.phase=Pending")) == ["b"]
    assert names(api.get("/api/v1/pods", fieldSelector=f"metadata.namespace={namespace}")) == ["a", "b"]


def test_pages(api: Api, namespace: str) -> None:
    for name in ("a", "b", "c", "d", "e"):
        api.create(maps(namespace), config_map(name, {"paged": "yes"}))
    first = api.get(maps(namespace), limit=2, labelSelector="paged=yes")
    assert names(first) == ["a", "b"]
    api.create(maps(namespace), config_map("bb", {"paged": "yes"}))
    api.delete(f"{maps(namespace)}/d")
    # Later pages show the moment of the first.
    second = api.get(maps(namespace), limit=2, labelSelector="paged=yes", **{"continue": first["metadata"]["continue"]})
    assert names(second) == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = api.get(maps(namespace), limit=2, labelSelector="paged=yes", **{"continue": second["metadata"]["continue"]})
    assert names(third) == ["e"]
    assert "continue" not in third["metadata"]


def test_a_page_says_how_many_are_left(api: Api, namespace: str) -> None:
    for name in ("a", "b", "c"):
        api.create(pods(namespace), pod(name))
    assert api.get(pods(namespace), limit=1)["metadata"]["remainingItemCount"] == 2


def test_pages_that_cannot_be(api: Api, namespace: str) -> None:
    assert api.call("GET", maps(namespace), limit="few").status == 400
    assert api.call("GET", maps(namespace), **{"continue": "nonsense"}, limit=1).status == 400
    assert api.call("GET", maps(namespace), resourceVersion="new").status >= 400


def test_a_list_at_a_version(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a"))
    then = api.get(maps(namespace))["metadata"]["resourceVersion"]
    api.create(maps(namespace), config_map("b"))
    at = api.get(maps(namespace), resourceVersion=then, resourceVersionMatch="Exact", limit=500)
    assert names(at) == ["a"]
    # A server may answer this from a cache that has not seen the last write yet, so that write is asked for.
    now = api.get(maps(namespace))["metadata"]["resourceVersion"]
    assert names(api.get(maps(namespace), resourceVersion=now)) == ["a", "b"]


def test_a_watch_shows_what_happened(api: Api, namespace: str) -> None:
    start = api.get(maps(namespace))["metadata"]["resourceVersion"]
    path = f"{maps(namespace)}/one"
    api.create(maps(namespace), config_map("one", a="1"))
    api.patch(path, {"data": {"a": "2"}})
    last = api.get(path)
    api.delete(path)
    events = api.watch(maps(namespace), 3, resourceVersion=start)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event["object"]["data"] for event in events] == [{"a": "1"}, {"a": "2"}, {"a": "2"}]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[1] == int(last["metadata"]["resourceVersion"])


def test_a_watch_without_a_version_begins_with_what_is_there(api: Api, namespace: str) -> None:
    for name in ("a", "b"):
        api.create(pods(namespace), pod(name))
    events = api.watch(pods(namespace), 2)
    assert sorted((event["type"], event["object"]["metadata"]["name"]) for event in events) == [
        ("ADDED", "a"), ("ADDED", "b"),
    ]  # fmt: skip


def test_objects_enter_and_leave_a_selection(api: Api, namespace: str) -> None:
    path = f"{maps(namespace)}/one"
    api.create(maps(namespace), config_map("one", {"color": "blue"}))
    start = api.get(maps(namespace))["metadata"]["resourceVersion"]
    for color in ("red", "red", "blue", "red"):
        api.patch(path, {"metadata": {"labels": {"color": color}}, "data": {"last": color}})
    api.patch(path, {"data": {"more": "yes"}})
    api.delete(path)
    events = api.watch(maps(namespace), 5, resourceVersion=start, labelSelector="color=red")
    assert [event["type"] for event in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]


def test_one_object_is_watched_by_its_name(api: Api, namespace: str) -> None:
    start = api.get(maps(namespace))["metadata"]["resourceVersion"]
    for name in ("a", "b"):
        api.create(maps(namespace), config_map(name))
    [event] = api.watch(maps(namespace), 1, resourceVersion=start, fieldSelector="metadata.name=b")
    assert event["object"]["metadata"]["name"] == "b"


def test_watches_that_cannot_be(api: Api, namespace: str) -> None:
    assert api.call("GET", maps(namespace), watch="true", resourceVersion="new").status >= 400
    assert api.call("GET", maps(namespace), watch="true", labelSelector="a in b").status == 400


def test_tables(api: Api, namespace: str) -> None:
    api.create(pods(namespace), pod("a"))
    table = api.get(pods(namespace), accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == [
        "Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates",
    ]  # fmt: skip
    [row] = table["rows"]
    cells = dict(zip(columns, row["cells"], strict=True))
    assert (cells["Name"], cells["Ready"], cells["Status"], cells["Node"]) == ("a", "0/1", "Pending", "<none>")
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert (
        "object" not in api.get(pods(namespace), accept=TABLE, includeObject="None")["rows"][0]
        or not (api.get(pods(namespace), accept=TABLE, includeObject="None")["rows"][0]["object"])
    )
    whole = api.get(f"{pods(namespace)}/a", accept=TABLE, includeObject="Object")
    assert whole["rows"][0]["object"]["spec"]["containers"]


def test_tables_in_a_watch(api: Api, namespace: str) -> None:
    start = api.get(pods(namespace))["metadata"]["resourceVersion"]
    for name in ("a", "b"):
        api.create(pods(namespace), pod(name))
    first, second = api.watch(pods(namespace), 2, accept=TABLE, resourceVersion=start)
    assert first["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"]
    assert not second["object"].get("columnDefinitions")
    assert second["object"]["rows"][0]["cells"][0] == "b"


def test_metadata_alone(api: Api, namespace: str) -> None:
    api.create(pods(namespace), pod("a"))
    listed = api.get(pods(namespace), accept=PARTIAL_LIST)
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    [item] = listed["items"]
    assert item["kind"] == "PartialObjectMetadata"
    assert item["metadata"]["labels"] == {"app": "web"}
    assert "spec" not in item


def test_forms_that_nobody_can_make(api: Api, namespace: str) -> None:
    assert api.call("GET", pods(namespace), accept="text/html").status == 406
