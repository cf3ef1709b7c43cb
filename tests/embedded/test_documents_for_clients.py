"""Discovery in its newer form, and the OpenAPI documents: what kubectl reads before it does anything."""

from __future__ import annotations

from typing import Any

import pytest

from embedded.api import Api, EmbeddedTransport
from embedded.conformance_kinds import DEFINITIONS, definition
from stromboli.embedded.server import Request, Response

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.fixture
def transport() -> EmbeddedTransport:
    return EmbeddedTransport()


@pytest.fixture
def api(transport: EmbeddedTransport) -> Api:
    return Api(transport)


def ask(transport: EmbeddedTransport, path: str, accept: str) -> Response:
    outcome = transport.server.handle(Request("GET", path, {}, {"accept": accept}), transport.now)
    assert isinstance(outcome, Response)
    return outcome


def resources(api: Api, path: str) -> dict[str, Any]:
    groups = api.get(path, accept=AGGREGATED)["items"]
    return {
        f"{group['metadata']['name']}/{version['version']}/{one['resource']}": one
        for group in groups
        for version in group["versions"]
        for one in version["resources"]
    }


def test_all_resources_in_two_documents(transport: EmbeddedTransport, api: Api) -> None:
    assert "as=APIGroupDiscoveryList" in ask(transport, "/apis", AGGREGATED).content_type
    assert resources(api, "/api")["/v1/pods"]["shortNames"] == ["po"]
    subresources = {one["subresource"] for one in resources(api, "/api")["/v1/pods"]["subresources"]}
    assert subresources == {"status", "binding", "eviction", "log"}
    assert "apps/v1/replicasets" in resources(api, "/apis")
    api.create(DEFINITIONS, definition("toys.example.com"))
    balloons = resources(api, "/apis")["toys.example.com/v1/balloons"]
    assert (balloons["scope"], balloons["responseKind"]["kind"]) == ("Namespaced", "Balloon")
    assert api.get("/apis")["kind"] == "APIGroupList", "the older form for those who do not ask for the newer one"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*(references(part) for part in value.values()))
    return set().union(*(references(part) for part in value)) if isinstance(value, list) else set()


def test_every_reference_leads_somewhere(api: Api) -> None:
    api.create(DEFINITIONS, definition("toys.example.com"))
    for path in api.get("/openapi/v3")["paths"]:
        document = api.get(f"/openapi/v3/{path}")
        schemas = document["components"]["schemas"]
        assert references(document) <= {f"#/components/schemas/{name}" for name in schemas}
        kinds = [schema["x-kubernetes-group-version-kind"] for schema in schemas.values()
                 if "x-kubernetes-group-version-kind" in schema]  # fmt: skip
        assert kinds
    document = api.get("/openapi/v2")
    assert references(document) <= {f"#/definitions/{name}" for name in document["definitions"]}


def test_lists_say_how_they_are_merged(api: Api) -> None:
    spec = api.get("/openapi/v3/api/v1")["components"]["schemas"]["PodSpec"]
    containers = spec["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    patch = api.get("/openapi/v3/api/v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert {"dryRun", "fieldValidation"} <= {parameter["name"] for parameter in patch["parameters"]}


def test_a_new_definition_shows(api: Api) -> None:
    assert "apis/toys.example.com/v1" not in api.get("/openapi/v3")["paths"]
    api.create(DEFINITIONS, definition("toys.example.com"))
    assert "apis/toys.example.com/v1" in api.get("/openapi/v3")["paths"]
    assert api.call("GET", "/openapi/v3/apis/nobody.example.com/v1").status == 404


def test_old_clients_get_protobuf(transport: EmbeddedTransport) -> None:
    answer = ask(transport, "/openapi/v2", OPENAPI_PROTOBUF)
    assert answer.status == 200
    assert answer.body.startswith(b"\x0a\x032.0"), "the first field, swagger"
    assert b"x-kubernetes-patch-merge-key" in answer.body
    assert ask(transport, "/openapi/v2", "text/html").status == 406
