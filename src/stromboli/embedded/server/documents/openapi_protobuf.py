"""The OpenAPI v2 document in protobuf, the only form that kubectl before 1.27 reads.

Of every schema only what kubectl looks at is written: the type, the fields, references, and the extensions that say
which kind it is and how lists are merged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

# Field numbers of the messages; see the messages of the same names in gnostic's OpenAPIv2.proto.
_SWAGGER, _INFO, _PATHS, _DEFINITIONS = 1, 2, 8, 9  # Document
_REF, _FORMAT, _DESCRIPTION, _REQUIRED = 1, 2, 4, 19  # Schema
_ADDITIONAL_PROPERTIES, _TYPE, _ITEMS, _PROPERTIES, _SCHEMA_EXTENSION = 21, 22, 23, 25, 31  # Schema
_PATCH, _OPERATION_ID, _PARAMETERS, _OPERATION_EXTENSION = 8, 5, 8, 13  # PathItem, Operation


def encode_document(document: Mapping[str, Any]) -> bytes:
    """The document that `server.openapi` makes."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = (_named(2, path, _path_item(item)) for path, item in document["paths"].items())
    definitions = (_named(1, name, _schema(schema)) for name, schema in document["definitions"].items())
    return b"".join(
        (
            _text(_SWAGGER, "2.0"),
            _message(_INFO, info),
            _message(_PATHS, b"".join(paths)),
            _message(_DEFINITIONS, b"".join(definitions)),
        )
    )


def _path_item(item: Mapping[str, Any]) -> bytes:
    patch = item["patch"]
    parameters = []
    for one in patch["parameters"]:
        query = _text(2, "query") + _text(4, one["name"]) + _text(6, "string")
        # Four messages around it: an item, a parameter, not in the body, in the query.
        parameters.append(_message(_PARAMETERS, _message(1, _message(2, _message(3, query)))))
    extensions = _extensions(_OPERATION_EXTENSION, patch)
    operation = _text(_OPERATION_ID, patch["operationId"]) + b"".join(parameters) + extensions
    return _message(_PATCH, operation)


def _schema(schema: Mapping[str, Any]) -> bytes:
    parts = []
    if "$ref" in schema:
        parts.append(_text(_REF, schema["$ref"]))
    for number, name in ((_FORMAT, "format"), (_DESCRIPTION, "description")):
        if schema.get(name):
            parts.append(_text(number, schema[name]))
    parts += [_text(_REQUIRED, name) for name in schema.get("required", ())]
    if "additionalProperties" in schema:
        parts.append(_message(_ADDITIONAL_PROPERTIES, _message(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_message(_TYPE, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(_ITEMS, _message(1, _schema(schema["items"]))))
    if "properties" in schema:
        fields = (_named(1, name, _schema(part)) for name, part in schema["properties"].items())
        parts.append(_message(_PROPERTIES, b"".join(fields)))
    parts.append(_extensions(_SCHEMA_EXTENSION, schema))
    return b"".join(parts)


def _extensions(number: int, owner: Mapping[str, Any]) -> bytes:
    """Their values are YAML, which JSON is, too."""
    return b"".join(
        _named(number, name, _text(2, json.dumps(value))) for name, value in owner.items() if name.startswith("x-")
    )


def _named(number: int, name: str, value: bytes) -> bytes:
    return _message(number, _text(1, name) + _message(2, value))


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, data: bytes) -> bytes:
    return bytes((*_varint(number << 3 | 2), *_varint(len(data)))) + data


def _varint(number: int) -> Iterable[int]:
    while number >= 0x80:
        yield number & 0x7F | 0x80
        number >>= 7
    yield number
