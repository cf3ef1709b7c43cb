"""Reading an object of a built-in kind, as a server written in Go would: wrong types are errors, unknown fields are
dropped, and quantities and times come out in canonical form.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from .quantities import QuantityFormatError, canonical
from .schema import Json, Schema

_DEEPEST: Final = 200
_GO_TYPES: Final = {
    "string": "string",
    "integer": "int64",
    "number": "float64",
    "boolean": "bool",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "bytes": "[]uint8",
}


class DecodeError(ValueError):
    """The object cannot be read; says why."""


def decode(value: Json, schema: Schema, path: str = "", unknown: list[str] | None = None, depth: int = 0) -> Json:
    """A copy of the value as its schema has it. Raises DecodeError."""
    if depth > _DEEPEST:
        raise DecodeError("exceeded max depth")
    kind = schema.type
    if kind == "object":
        if not isinstance(value, dict):
            raise _mismatch(value, schema, path)
        return _object(value, schema, path, unknown, depth)
    if kind == "array":
        if not isinstance(value, list):
            raise _mismatch(value, schema, path)
        items = schema.items
        assert items is not None
        return [decode(item, items, f"{path}[{index}]", unknown, depth + 1) for index, item in enumerate(value)]
    read = _SCALARS.get(kind)
    return value if read is None else read(value, schema, path)


def _object(value: dict[str, Json], schema: Schema, path: str, unknown: list[str] | None, depth: int) -> Json:
    kept: dict[str, Json] = {}
    properties, values = schema.properties, schema.values
    for name, part in value.items():
        known = properties.get(name) or values
        inside = f"{path}.{name}" if path else name
        if known is None:
            if unknown is not None:
                unknown.append(inside)
        elif part is not None:
            kept[name] = decode(part, known, inside, unknown, depth + 1)
        elif known.nullable:
            kept[name] = None
        elif values is not None and not properties:
            kept[name] = "" if values.type in ("string", "bytes") else None
    return kept


def _string(value: Json, schema: Schema, path: str) -> Json:
    if not isinstance(value, str):
        raise _mismatch(value, schema, path)
    return value


def _integer(value: Json, schema: Schema, path: str) -> Json:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise _mismatch(value, schema, path)
    return value


def _number(value: Json, schema: Schema, path: str) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(value, schema, path)
    return value


def _boolean(value: Json, schema: Schema, path: str) -> Json:
    if not isinstance(value, bool):
        raise _mismatch(value, schema, path)
    return value


def _intstr(value: Json, schema: Schema, path: str) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise DecodeError("cannot unmarshal into an integer or string: " + path)
    return value


def _quantity(value: Json, schema: Schema, path: str) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise DecodeError("cannot unmarshal into a quantity: " + path)
    try:
        return canonical(value if isinstance(value, str) else repr(value))
    except QuantityFormatError as error:
        raise DecodeError(str(error)) from None


def _time(value: Json, schema: Schema, path: str) -> Json:
    try:
        read = datetime.fromisoformat(value).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise DecodeError(f'parsing time {_shown(value)} as "2006-01-02T15:04:05Z07:00": cannot parse') from None
    precision = "microseconds" if schema.type == "microtime" else "seconds"
    return read.isoformat(timespec=precision).replace("+00:00", "Z")


def _bytes(value: Json, schema: Schema, path: str) -> Json:
    if not isinstance(value, str):
        raise _mismatch(value, schema, path)
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise DecodeError("illegal base64 data") from None
    return value


_SCALARS: Final[dict[str, Callable[[Json, Schema, str], Json]]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "intstr": _intstr,
    "quantity": _quantity,
    "time": _time,
    "microtime": _time,
    "bytes": _bytes,
}


def _mismatch(value: Json, schema: Schema, path: str) -> DecodeError:
    return DecodeError(f"json: cannot unmarshal {_json_type(value)} into Go struct field {path} of type {_go(schema)}")


def _go(schema: Schema) -> str:
    if schema.type == "array" and schema.items is not None:
        return f"[]{_go(schema.items)}"
    if schema.type == "object":
        return f"v1.{schema.name}" if schema.name else f"map[string]{_go(schema.values) if schema.values else 'any'}"
    return _GO_TYPES.get(schema.type, schema.type)


def _json_type(value: Json) -> str:
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((dict, "object"), (list, "array"), (str, "string"), (int, "number"), (float, "number")):
        if isinstance(value, kind):
            return name
    return "null"


def _shown(value: Json) -> str:
    return f'"{value}"' if isinstance(value, str) and len(value) < 100 else "value"
