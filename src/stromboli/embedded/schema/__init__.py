"""What the fields of a kind are, and everything that goes by it: decoding, pruning, defaults, validation, OpenAPI."""

from .builtin import builtin_types, object_schema, with_metadata
from .custom import SchemaError, custom_schema, definition, to_openapi
from .decoder import DecodeError, decode
from .defaults import apply_defaults
from .field_errors import FieldError
from .protobuf import ProtobufError, decode_protobuf
from .pruning import prune
from .rules import rule_errors
from .schema import ANY, MISSING, Json, Schema
from .validation import validate_builtin, validate_custom

__all__ = [
    "ANY",
    "MISSING",
    "DecodeError",
    "FieldError",
    "Json",
    "ProtobufError",
    "Schema",
    "SchemaError",
    "apply_defaults",
    "builtin_types",
    "custom_schema",
    "decode",
    "decode_protobuf",
    "definition",
    "object_schema",
    "prune",
    "rule_errors",
    "to_openapi",
    "validate_builtin",
    "validate_custom",
    "with_metadata",
]
