"""The OpenAPI documents: what `kubectl explain` shows, and what `kubectl apply` reads how to merge lists from.

Only what clients look at is there: the schemas with their kinds, and, of the paths, the patch operations, because from
their parameters clients learn what the server supports.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from stromboli.embedded.kinds import ResourceType
from stromboli.embedded.schema import Schema, definition
from stromboli.embedded.server.catalog import Catalog
from stromboli.embedded.server.messages import JSON, Request, Response, json_response
from stromboli.embedded.status import not_acceptable, unknown_path

from .openapi_protobuf import MEDIA_TYPE, encode_document

_INFO: Final = {"title": "Stromboli", "version": "v1"}
_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation", "force")
_KIND: Final = "x-kubernetes-group-version-kind"


class OpenApi:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._revision = -1
        self._documents: dict[str, bytes] = {}

    def handle(self, request: Request) -> Response:
        if self._revision != self._catalog.revision:
            self._documents.clear()
            self._revision = self._catalog.revision
        path = request.path.rstrip("/")
        accept = request.headers.get("accept", "") or JSON
        if path == "/openapi/v2" and accept.strip().startswith(MEDIA_TYPE):
            return self._protobuf()
        if not any(part.partition(";")[0].strip() in (JSON, "application/*", "*/*") for part in accept.split(",")):
            raise not_acceptable([JSON])
        if path not in self._documents:
            self._documents[path] = json_response(self._document(path)).body
        return Response(200, self._documents[path])

    def _protobuf(self) -> Response:
        if MEDIA_TYPE not in self._documents:
            self._documents[MEDIA_TYPE] = encode_document(_version_2(list(self._catalog.types())))
        return Response(200, self._documents[MEDIA_TYPE], MEDIA_TYPE.replace("@", "."))  # "@" is not allowed there

    def _document(self, path: str) -> dict[str, Any]:
        match path.split("/")[1:]:
            case ["openapi", "v2"]:
                return _version_2(list(self._catalog.types()))
            case ["openapi", "v3"]:
                return self._index()
            case ["openapi", "v3", "api", "v1"]:
                return _version_3(self._catalog.in_group("", "v1"))
            case ["openapi", "v3", "apis", group, version]:
                found = self._catalog.in_group(group, version)
                if group and found:
                    return _version_3(found)
        raise unknown_path()

    def _index(self) -> dict[str, Any]:
        paths = {}
        for group, versions in self._catalog.versions().items():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                digest = hashlib.blake2b(f"{path} {self._revision}".encode(), digest_size=8).hexdigest()
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}


def _version_3(types: list[ResourceType]) -> dict[str, Any]:
    reference = "#/components/schemas/"
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _paths(types, lambda name: {"name": name, "in": "query", "schema": {"type": "string"}}),
        "components": {"schemas": _definitions(types, reference)},
    }


def _version_2(types: list[ResourceType]) -> dict[str, Any]:
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": _paths(types, lambda name: {"name": name, "in": "query", "type": "string"}),
        "definitions": _definitions(types, "#/definitions/"),
    }


def _paths(types: list[ResourceType], parameter: Any) -> dict[str, Any]:
    paths = {}
    for one in types:
        base = f"/apis/{one.group}/{one.version}" if one.group else "/api/v1"
        scope = "/namespaces/{namespace}" if one.namespaced else ""
        operation = {
            "operationId": f"patch{one.kind}",
            "parameters": [parameter(name) for name in _PARAMETERS],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            _KIND: _gvk(one),
        }
        paths[f"{base}{scope}/{one.plural}/{{name}}"] = {"patch": operation}
    return paths


def _definitions(types: list[ResourceType], reference: str) -> dict[str, Any]:
    named: dict[str, Schema] = {}
    written: dict[str, Any] = {}
    for one in types:
        _collect(one.schema, named)
        group = ".".join(reversed(one.group.split("."))) if one.group else "core"
        schema = definition(one.schema, reference)
        schema["properties"]["metadata"] = {
            "description": "Standard metadata of an object.",
            "allOf": [{"$ref": f"{reference}ObjectMeta"}],
            "default": {},
        }
        if reference.startswith("#/definitions"):
            schema["properties"]["metadata"] = {"$ref": f"{reference}ObjectMeta"}
        written[f"{group}.{one.version}.{one.kind}"] = schema | {_KIND: [_gvk(one)]}
    for name, type in named.items():
        written[name] = definition(type, reference)
    return _plain_references(written) if reference.startswith("#/definitions") else written


def _plain_references(value: Any) -> Any:
    """In version 2 a reference stands alone."""
    if isinstance(value, dict):
        if "allOf" in value and value.get("default") == {}:
            return value["allOf"][0]
        return {name: _plain_references(part) for name, part in value.items()}
    return [_plain_references(part) for part in value] if isinstance(value, list) else value


def _collect(schema: Schema, named: dict[str, Schema]) -> None:
    """All named types that a schema uses."""
    parts = [*schema.properties.values(), schema.values, schema.items]
    for part in parts:
        if part is None:
            continue
        if part.name and part.properties:
            if part.name in named:
                continue
            named[part.name] = part
        _collect(part, named)


def _gvk(one: ResourceType) -> dict[str, str]:
    return {"group": one.group, "version": one.version, "kind": one.kind}
