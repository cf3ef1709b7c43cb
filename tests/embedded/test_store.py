"""The store and what it remembers; bytes and numbers that come from outside."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from embedded.api import Api, EmbeddedTransport, config_map
from stromboli.embedded.schema import ProtobufError, builtin_types, decode_protobuf
from stromboli.embedded.schema.language import parse_types
from stromboli.embedded.schema.quantities import QuantityFormatError, canonical
from stromboli.embedded.store import ObjectKey, SqliteBackend, Store

MAPS = "/api/v1/namespaces/default/configmaps"


def key(name: str) -> ObjectKey:
    return ObjectKey("configmaps", "default", name)


def test_versions_count_commits() -> None:
    store = Store()
    first = store.put(key("a"), {"metadata": {"uid": "1"}})
    second = store.put(key("b"), {"metadata": {"uid": "2"}})
    gone = store.delete(key("a"))
    assert (second.version, gone.version, store.version) == (first.version + 1, first.version + 2, first.version + 2)
    assert [record.key.name for record in store.list("configmaps")] == ["b"]
    changes = store.history("configmaps").since(first.version - 1)
    assert changes is not None
    assert [change.type for change in changes] == ["ADDED", "ADDED", "DELETED"]


def test_the_past_can_be_listed_while_it_is_remembered() -> None:
    store = Store(window=3)
    versions = [store.put(key(f"n{number}"), {"metadata": {"uid": str(number)}}).version for number in range(7)]
    assert len(store.list_at("configmaps", versions[4]) or ()) == 5
    assert store.list_at("configmaps", versions[0]) is None


def test_a_watch_that_is_too_slow_ends() -> None:
    transport = EmbeddedTransport(Store(window=2))
    api = Api(transport)
    start = api.get(MAPS)["metadata"]["resourceVersion"]
    for number in range(6):
        api.create(MAPS, config_map(f"n{number}"))
    [event] = transport.events(MAPS, {"watch": "1", "resourceVersion": start}, {})
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    page = api.call("GET", MAPS, resourceVersion=start, resourceVersionMatch="Exact", limit=5)
    assert (page.status, page.reason) == (410, "Expired")


def test_bookmarks_and_initial_events() -> None:
    transport = EmbeddedTransport()
    api = Api(transport)
    api.create(MAPS, config_map("one"))
    query = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
             "allowWatchBookmarks": "true"}  # fmt: skip
    added, end = transport.events(MAPS, query, {})
    assert (added["type"], end["type"]) == ("ADDED", "BOOKMARK")
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_owners_are_known() -> None:
    store = Store()
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}
    store.put(key("a"), {"metadata": {"uid": "1"}})
    store.put(key("b"), {"metadata": {"uid": "2", "ownerReferences": [owner]}})
    assert [found.name for found in store.dependents("1")] == ["b"]
    store.put(key("b"), {"metadata": {"uid": "2"}})
    assert store.dependents("1") == []


def test_a_file_keeps_objects_and_versions(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    backend = SqliteBackend(path)
    store = Store(backend)
    store.put(key("a"), {"metadata": {"uid": "1"}, "data": {"ü": "☃"}})
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    store.put(key("b"), {"metadata": {"uid": "2"}})
    last = store.delete(key("b")).version
    backend.close()
    backend = SqliteBackend(path)
    again = Store(backend)
    assert (again.version, [record.key.name for record in again.list("configmaps")]) == (last, ["a"])
    assert again.list("configmaps")[0].value()["data"] == {"ü": "☃"}
    assert backend.check() == "ok"
    backend.close()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1500Mi", "1500Mi"), ("1.5Gi", "1536Mi"), ("2048", "2048"),
        ("1e3", "1e3"), ("0", "0"), ("-5", "-5"), ("100k", "100k"), ("1000k", "1M"), ("0.0000000001", "1n"),
        ("512", "512"), ("1Ki", "1Ki"),
    ],
)  # fmt: skip
def test_quantities_have_one_form(written: str, expected: str) -> None:
    assert canonical(written) == expected


@pytest.mark.parametrize("written", ["", "much", "1 Gi", "1gi", "--1", "1e9999", "1" * 100, "١"])
def test_what_is_no_quantity(written: str) -> None:
    with pytest.raises(QuantityFormatError):
        canonical(written)


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def test_protobuf_as_kubectl_sends_it() -> None:
    metadata = field(1, b"settings") + field(11, field(1, b"app") + field(2, b"web")) + field(8, b"")
    body = field(1, metadata) + field(2, field(1, b"color") + field(2, b"red"))
    envelope = field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, body)
    assert decode_protobuf(b"k8s\0" + envelope) == {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": {"app": "web"}},
        "data": {"color": "red"},
    }  # fmt: skip
    transport = EmbeddedTransport()
    answer = Api(transport).call("POST", MAPS, b"k8s\0" + envelope, kind="application/vnd.kubernetes.protobuf")
    assert (answer.status, answer.body["data"]) == (201, {"color": "red"})


@pytest.mark.parametrize(
    "data",
    [
        b"", b"k8s", b"k8s\0\xff", b"k8s\0" + field(1, field(2, b"Unknown")), b"\0" * 20,
        b"k8s\0" + field(1, field(2, b"ConfigMap")) + b"\x12\xff\xff\xff\xff\x0f",
        b"k8s\0" + field(1, field(2, b"ConfigMap")) + field(2, struct.pack("B", 0x0B)),
    ],
)  # fmt: skip
def test_protobuf_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode_protobuf(data)


def test_mistakes_in_the_schema_language_are_found() -> None:
    for text in ("A\n  b nosuchtype\n", "A\n  b Missing\n", "A\n  b string wrong=1\n"):
        with pytest.raises(ValueError, match=r"line 2|never defined"):
            parse_types(text)
    assert builtin_types()["Container"].properties["ports"].keys == ("containerPort", "protocol")
