"""Reading the protobuf form of objects, which kubectl sends with `create` and `drain`.

The bytes are a magic number, an envelope with the kind, and the object. Field numbers are in the schema files. Answers
are always JSON: every client that sends protobuf accepts JSON as well.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from .builtin import builtin_types, object_schema
from .schema import MISSING, Schema

MAGIC: Final = b"k8s\x00"
_DEEPEST: Final = 100
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Value = int | bytes


class ProtobufError(ValueError):
    """The bytes are not a protobuf object that we know."""


def decode_protobuf(data: bytes) -> dict[str, Any]:
    """The object as JSON has it; raises ProtobufError."""
    if not data.startswith(MAGIC):
        raise ProtobufError("the magic number is missing")
    type_meta, raw = b"", b""
    for number, value in _fields(data[len(MAGIC) :]):
        if number == 1:
            type_meta = _as_bytes(value)
        elif number == 2:
            raw = _as_bytes(value)
    names = {number: _text(value) for number, value in _fields(type_meta)}
    api_version, kind = names.get(1, ""), names.get(2, "")
    if kind not in builtin_types():
        raise ProtobufError(f"unknown kind {kind[:100]!r}")
    return {"apiVersion": api_version, "kind": kind, **_message(raw, object_schema(kind), 0)}


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"unknown wire type {wire}")
        if position + size > end:
            raise ProtobufError("unexpected end")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while shift < 70:
        if position >= len(data):
            raise ProtobufError("unexpected end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise ProtobufError("a number is too long")


def _message(data: bytes, schema: Schema, depth: int, prefix: tuple[int, ...] = ()) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise ProtobufError("nested too deeply")
    by_number = {part.number: (name, part) for name, part in schema.properties.items() if part.number}
    embedded = {number[: len(prefix) + 1] for number in by_number if len(number) > len(prefix) + 1}
    decoded: dict[str, Any] = {}
    for number, value in _fields(data):
        path = (*prefix, number)
        if path in embedded:
            decoded |= _message(_as_bytes(value), schema, depth + 1, path)
            continue
        found = by_number.get(path)
        if found is None:
            # The status of a new object is never taken from the client.
            if value and depth:
                raise ProtobufError(f"field {number} of {schema.name or 'the object'} is not supported; send JSON")
            continue
        name, part = found
        if part.type == "array" and part.items is not None:
            decoded.setdefault(name, []).append(_value(value, part.items, depth))
        elif part.type == "object" and part.values is not None:
            key, entry = _entry(_as_bytes(value), part.values, depth)
            decoded.setdefault(name, {})[key] = entry
        else:
            decoded[name] = _value(value, part, depth)
    return _without_empty(decoded, schema)


def _without_empty(decoded: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Go writes fields without a value as empty ones; in JSON they are absent."""
    return {name: value for name, value in decoded.items() if not _is_empty(name, value, schema.properties[name])}


def _is_empty(name: str, value: Any, schema: Schema) -> bool:
    if value is False:
        return schema.default is MISSING
    return value is None or value == "" or (value == {} and name in ("status", "metadata"))


def _entry(data: bytes, schema: Schema, depth: int) -> tuple[str, Any]:
    key, value = "", _value(b"" if schema.type != "integer" else 0, schema, depth)
    for number, found in _fields(data):
        if number == 1:
            key = _text(found)
        elif number == 2:
            value = _value(found, schema, depth)
    return key, value


def _value(value: Value, schema: Schema, depth: int) -> Any:
    match schema.type:
        case "integer" | "number":
            number = _as_int(value)
            return number - (1 << 64) if number >= 1 << 63 else number
        case "boolean":
            return bool(_as_int(value))
        case "string":
            return _text(value)
        case "bytes":
            return base64.b64encode(_as_bytes(value)).decode()
        case "quantity":
            return "".join(_text(text) for number, text in _fields(_as_bytes(value)) if number == 1) or "0"
        case "time" | "microtime":
            return _time(_as_bytes(value), schema.type)
        case "intstr":
            parts = dict(_fields(_as_bytes(value)))
            return _text(parts.get(3, b"")) if parts.get(1) else _signed32(_as_int(parts.get(2, 0)))
        case "object":
            return _message(_as_bytes(value), schema, depth + 1)
    raise ProtobufError("a field is not supported in protobuf; send JSON")


def _time(data: bytes, kind: str) -> str | None:
    parts = dict(_fields(data))
    seconds, nanos = _as_int(parts.get(1, 0)), _as_int(parts.get(2, 0))
    if not seconds and not nanos:
        return None
    if seconds >= 1 << 40 or nanos >= 10**9:
        raise ProtobufError("a time is out of range")
    moment = datetime.fromtimestamp(0, tz=UTC) + timedelta(seconds=seconds, microseconds=nanos // 1000)
    precision = "microseconds" if kind == "microtime" else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _signed32(number: int) -> int:
    number &= 0xFFFF_FFFF
    return number - (1 << 32) if number >= 1 << 31 else number


def _as_bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("expected bytes, found a number")
    return value


def _as_int(value: Value) -> int:
    if not isinstance(value, int):
        raise ProtobufError("expected a number, found bytes")
    return value


def _text(value: Value) -> str:
    try:
        return _as_bytes(value).decode()
    except UnicodeDecodeError:
        raise ProtobufError("a text is not UTF-8") from None
