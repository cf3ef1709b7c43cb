"""Checking a value against its schema. Returns what is wrong, in the words that the API server has for it.

For custom kinds this is the whole of OpenAPI that a structural schema may use. For built-in kinds types were checked
when the object was decoded; what is left are required fields, enumerations and minimums.
"""

from __future__ import annotations

import re
from typing import Any, Final

from stromboli.api.validation.patterns import TooCostly, pattern

from .custom import custom_schema
from .field_errors import MOST_ERRORS, FieldError, duplicate, invalid, not_supported, required, type_invalid
from .schema import Json, Schema

_DEEPEST: Final = 100
_JSON_TYPES: Final = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}


def validate_builtin(value: Json, schema: Schema, path: str = "") -> list[FieldError]:
    errors: list[FieldError] = []
    _builtin(value, schema, path, errors)
    return errors


def _builtin(value: Json, schema: Schema, path: str, errors: list[FieldError]) -> None:
    if len(errors) >= MOST_ERRORS:
        return
    if isinstance(value, dict):
        _builtin_object(value, schema, path, errors)
    elif isinstance(value, list):
        if schema.items is not None:
            for index, item in enumerate(value):
                _builtin(item, schema.items, f"{path}[{index}]", errors)
    elif schema.enum and value not in schema.enum and value != "":
        errors.append(not_supported(path, value, schema.enum))
    elif "minimum" in schema.facets and isinstance(value, int) and value < schema.facets["minimum"]:
        least = schema.facets["minimum"]
        detail = "must be greater than or equal to 0" if least == 0 else f"must be greater than or equal to {least}"
        errors.append(invalid(path, value, detail))


def _builtin_object(value: dict[str, Json], schema: Schema, path: str, errors: list[FieldError]) -> None:
    for name in schema.required:
        part = value.get(name)
        if part is None or part == "" or part == []:
            errors.append(required(f"{path}.{name}" if path else name))
    for name, part in value.items():
        known = schema.properties.get(name) or schema.values
        # Metadata has rules of its own, which are checked elsewhere.
        if known is None or part is None or known.type == "any" or (name == "metadata" and not path):
            continue
        kind = type(part)
        if kind is dict or kind is list or known.enum or known.facets:
            _builtin(part, known, f"{path}.{name}" if path else name, errors)


def validate_custom(value: Json, schema: Schema, path: str = "") -> list[FieldError]:
    errors: list[FieldError] = []
    _custom(value, schema, path, errors, 0)
    return errors


def _custom(value: Json, schema: Schema, path: str, errors: list[FieldError], depth: int) -> None:
    if len(errors) >= MOST_ERRORS:
        return
    if depth > _DEEPEST:
        errors.append(invalid(path, "...", "is nested too deeply"))
        return
    if value is None:
        if not schema.nullable and schema.type not in ("any", "intstr"):
            errors.append(_type_error(path, value, schema.type))
        return
    if not _has_type(value, schema.type):
        errors.append(_type_error(path, value, schema.type))
        return
    if schema.enum and value not in schema.enum:
        errors.append(not_supported(path, value, schema.enum))
    if schema.facets:
        _facets(value, schema.facets, path, errors)
    if isinstance(value, dict):
        errors += [required(f"{path}.{name}" if path else name) for name in schema.required if name not in value]
        for name, part in value.items():
            known = schema.child(name)
            if known is not None:
                _custom(part, known, f"{path}.{name}" if path else name, errors, depth + 1)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            _custom(item, schema.items, f"{path}[{index}]", errors, depth + 1)
        _unique(value, schema, path, errors)


def _has_type(value: Json, kind: str) -> bool:
    if kind == "any":
        return True
    if kind == "object":
        return isinstance(value, dict)
    if kind == "intstr":
        return isinstance(value, int | str) and not isinstance(value, bool)
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _JSON_TYPES[kind])  # type: ignore[arg-type]


def _type_error(path: str, value: Json, wanted: str) -> FieldError:
    got = _name_of_type(value)
    expected = "integer or string" if wanted == "intstr" else wanted
    return type_invalid(path, got, f'{path} in body must be of type {expected}: "{got}"')


def _name_of_type(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names: tuple[tuple[type, str], ...] = (
        (dict, "object"), (list, "array"), (str, "string"), (int, "integer"), (float, "number"),
    )  # fmt: skip
    return next(name for kind, name in names if isinstance(value, kind))


def _facets(value: Json, facets: Any, path: str, errors: list[FieldError]) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        _numeric(value, facets, path, errors)
    elif isinstance(value, str):
        _textual(value, facets, path, errors)
    elif isinstance(value, list | dict):
        _sized(value, facets, path, errors)
    for rule, wanted in (("allOf", None), ("anyOf", 1), ("oneOf", 1)):
        if rule in facets:
            _alternatives(value, facets[rule], rule, wanted, path, errors)
    if "not" in facets and _fits(value, facets["not"]):
        errors.append(invalid(path, value, f"{path} in body must not validate the schema (not)"))


def _numeric(value: float, facets: Any, path: str, errors: list[FieldError]) -> None:
    least, most = facets.get("minimum"), facets.get("maximum")
    if least is not None and (value < least or (facets.get("exclusiveMinimum") and value == least)):
        word = "greater than" if facets.get("exclusiveMinimum") else "greater than or equal to"
        errors.append(invalid(path, value, f"{path} in body should be {word} {least}"))
    if most is not None and (value > most or (facets.get("exclusiveMaximum") and value == most)):
        word = "less than" if facets.get("exclusiveMaximum") else "less than or equal to"
        errors.append(invalid(path, value, f"{path} in body should be {word} {most}"))
    step = facets.get("multipleOf")
    if step and value % step:
        errors.append(invalid(path, value, f"{path} in body should be a multiple of {step}"))
    if facets.get("format") == "int32" and not -(2**31) <= value < 2**31:
        errors.append(invalid(path, value, f"{path} in body must be of type int32"))


def _textual(value: str, facets: Any, path: str, errors: list[FieldError]) -> None:
    if len(value) < facets.get("minLength", 0):
        errors.append(invalid(path, value, f"{path} in body should be at least {facets['minLength']} chars long"))
    if "maxLength" in facets and len(value) > facets["maxLength"]:
        errors.append(invalid(path, value, f"{path} in body should be at most {facets['maxLength']} chars long"))
    written = facets.get("pattern")
    if isinstance(written, str) and len(value) < 100_000 and (problem := _pattern_problem(written, value)):
        errors.append(invalid(path, value, f"{path} in body {problem}"))
    if facets.get("format") == "date-time" and not _DATE_TIME.fullmatch(value):
        errors.append(invalid(path, value, f'{path} in body must be of type date-time: "{value}"'))


_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _pattern_problem(written: str, value: str) -> str | None:
    """What is wrong with a value that has to match."""
    compiled = pattern(written)
    try:
        if compiled is None or compiled.found_in(value):
            return None
    except TooCostly:
        return f"takes too long to compare with '{written[:200]}'"
    return f"should match '{written}'"


def _sized(value: list[Json] | dict[str, Json], facets: Any, path: str, errors: list[FieldError]) -> None:
    what = "Items" if isinstance(value, list) else "Properties"
    noun = "items" if isinstance(value, list) else "properties"
    if len(value) < facets.get(f"min{what}", 0):
        errors.append(invalid(path, len(value), f"{path} in body should have at least {facets[f'min{what}']} {noun}"))
    if len(value) > facets.get(f"max{what}", len(value)):
        errors.append(invalid(path, len(value), f"{path} in body should have at most {facets[f'max{what}']} {noun}"))


def _alternatives(
    value: Json, schemas: Any, rule: str, wanted: int | None, path: str, errors: list[FieldError]
) -> None:
    fitting = sum(_fits(value, one) for one in schemas)
    if wanted is None and fitting < len(schemas):
        errors.append(invalid(path, value, f"{path} in body must validate all the schemas ({rule})"))
    elif wanted is not None and (fitting < wanted or (rule == "oneOf" and fitting > wanted)):
        word = "at least one schema" if rule == "anyOf" else "one and only one schema"
        errors.append(invalid(path, value, f'"{path}" must validate {word} ({rule})'))


def _fits(value: Json, written: Any) -> bool:
    return not validate_custom(value, custom_schema(written))


def _unique(items: list[Json], schema: Schema, path: str, errors: list[FieldError]) -> None:
    if not schema.keys and not schema.is_set:
        return
    seen = set()
    for index, item in enumerate(items):
        if len(errors) >= MOST_ERRORS:
            return
        identity = repr([item.get(key) for key in schema.keys] if schema.keys and isinstance(item, dict) else item)
        if identity in seen:
            errors.append(duplicate(f"{path}[{index}]", item))
        seen.add(identity)
