"""What is wrong with a field, in the words of Kubernetes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

MOST_ERRORS: Final = 100
"""Of one request. A body can have a million mistakes, and nobody reads more."""

_REASONS: Final = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueTooLong": "Too long",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    reason: str
    field: str
    message: str  # without the field

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, "Required value" + (f": {detail}" if detail else ""))


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def broken(field: str, sentence: str) -> FieldError:
    """A rule, whose sentence has the value if there is one."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {sentence}")


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def not_supported(field: str, value: Any, supported: tuple[Any, ...]) -> FieldError:
    known = ", ".join(shown(one) for one in supported)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {shown(value)}: supported values: {known}")


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {shown(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def too_long(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueTooLong", field, f"Too long: {detail}")


def shown(value: Any) -> str:
    """A value in a message; long ones are cut."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:197] + "..."
