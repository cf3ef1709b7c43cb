"""Media types: what the client wants to have, and what it has sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from stromboli import plain_json, plain_yaml
from stromboli.embedded.schema import ProtobufError, decode_protobuf
from stromboli.embedded.status import bad_request, not_acceptable, too_large, unsupported_media_type
from stromboli.listeners import API_LIMITS

from .messages import JSON, Request

_LARGEST_YAML: Final = 256 * 1024  # its parser needs seconds for a megabyte, in which nobody else is answered
_YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml")
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
PATCHES: Final = (JSON_PATCH, MERGE, STRATEGIC, APPLY)


@dataclass(frozen=True, slots=True)
class Accepted:
    """One of the forms that the client accepts."""

    shape: str = ""
    """"" for the object itself, or Table, PartialObjectMetadata, PartialObjectMetadataList, APIGroupDiscoveryList"""
    version: str = "v1"


def negotiate(header: str, shapes: tuple[str, ...] = ()) -> Accepted:
    """The first form in the Accept header that we can produce; raises a StatusError if there is none."""
    if not header.strip():
        return Accepted()
    for part in header.split(","):
        media, *options = (piece.strip() for piece in part.split(";"))
        if media not in (JSON, "application/*", "*/*"):
            continue
        parameters = dict(option.split("=", 1) for option in options if "=" in option)
        shape = parameters.get("as", "")
        if not shape:
            return Accepted()
        if shape in shapes:
            return Accepted(shape, parameters.get("v", "v1"))
    raise not_acceptable([JSON])


def read_body(request: Request) -> Any:
    """The parsed body of a write; raises a StatusError."""
    media = media_type(request)
    if media in _YAML:
        return read_yaml(request.body)
    if media == PROTOBUF:
        return _read_protobuf(request.body)
    if media not in ("", JSON):
        raise unsupported_media_type([JSON, _YAML[0], PROTOBUF])
    return read_json(request.body)


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def read_json(body: bytes) -> Any:
    _check_size(body)
    try:
        return plain_json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from None


def read_yaml(body: bytes) -> Any:
    _check_size(body)
    try:
        return plain_json.decode(body)  # nearly always JSON in fact, and much faster
    except plain_json.TooDeep as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    except msgspec.DecodeError:
        pass
    if len(body) > _LARGEST_YAML:
        raise bad_request(f"error decoding YAML: more than {_LARGEST_YAML} bytes are accepted as JSON only")
    if b"&" in body and b"*" in body:
        # An alias may stand for a large value any number of times.
        raise bad_request("error decoding YAML: anchors and aliases are not supported")
    try:
        return msgspec.json.decode(msgspec.json.encode(plain_yaml.load(body.decode())))
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding YAML: {' '.join(str(error).split())[:300]}") from None


def _read_protobuf(body: bytes) -> Any:
    _check_size(body)
    try:
        return decode_protobuf(body)
    except ProtobufError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type protobuf): {error}") from None


def _check_size(body: bytes) -> None:
    if len(body) > API_LIMITS.body_bytes:
        raise too_large(API_LIMITS.body_bytes)
