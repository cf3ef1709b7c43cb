"""What metadata may look like: names, labels, annotations, owners, finalizers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import invalid, required, too_long

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_label = re.compile(_LABEL)
_subdomain = re.compile(_SUBDOMAIN)
_qualified = re.compile(_QUALIFIED)
_label_value = re.compile(rf"({_QUALIFIED})?")
_STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")
MOST_ANNOTATIONS: Final = 256 * 1024  # bytes, of all annotations together

NameRule = Callable[[str], str]
"""What is wrong with a name; an empty text if nothing is."""


def subdomain(name: str) -> str:
    if len(name) > 253:
        return "must be no more than 253 characters"
    if not _subdomain.fullmatch(name):
        return (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            rf"'{_SUBDOMAIN}')"
        )
    return ""


def label(name: str) -> str:
    if len(name) > 63:
        return "must be no more than 63 characters"
    if not _label.fullmatch(name):
        return (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            f"end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
            f"'{_LABEL}')"
        )
    return ""


def path_segment(name: str) -> str:
    """For kinds whose names may contain anything that fits into a path."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    for part in ("/", "%"):
        if part in name:
            return f"may not contain '{part}'"
    return ""


def qualified_name(name: str) -> str:
    prefix, slash, rest = name.rpartition("/")
    if slash and subdomain(prefix):
        return f"prefix part {subdomain(prefix)}"
    if len(rest) > 63:
        return "name part must be no more than 63 characters"
    if not _qualified.fullmatch(rest):
        return (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            f"'{_QUALIFIED}')"
        )
    return ""


def label_value(value: str) -> str:
    if len(value) > 63:
        return "must be no more than 63 characters"
    if not _label_value.fullmatch(value):
        return (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
            f"validation is '({_QUALIFIED})?')"
        )
    return ""


def validate_metadata(
    metadata: dict[str, Any], rule: NameRule, path: str = "metadata", *, builtin: bool = False
) -> list[FieldError]:
    """`builtin`: of a kind whose finalizers have full names; definitions and custom kinds may have any."""
    errors: list[FieldError] = []
    name = metadata.get("name", "")
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    elif problem := rule(name):
        errors.append(invalid(f"{path}.name", name, problem))
    errors += validate_labels(metadata.get("labels") or {}, f"{path}.labels")
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        if problem := qualified_name(key.lower()):
            errors.append(invalid(f"{path}.annotations", key, problem))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MOST_ANNOTATIONS:
        errors.append(too_long(f"{path}.annotations", f"must have at most {MOST_ANNOTATIONS} bytes"))
    for finalizer in metadata.get("finalizers") or ():
        if problem := qualified_name(finalizer):
            errors.append(invalid(f"{path}.finalizers", finalizer, problem))
        elif builtin and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            problem = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(f"{path}.finalizers", finalizer, problem))
    return errors + _owners(metadata.get("ownerReferences") or [], f"{path}.ownerReferences")


def validate_labels(labels: dict[str, str], path: str) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        if problem := qualified_name(key):
            errors.append(invalid(path, key, problem))
        if problem := label_value(value):
            errors.append(invalid(path, value, problem))
    return errors


def _owners(owners: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors = []
    for index, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                errors.append(invalid(f"{path}[{index}].{field}", owner.get(field, ""), f"{field} must not be empty"))
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        names = " and ".join(f"{owner.get('kind')} {owner.get('name')}" for owner in controllers[:2])
        errors.append(invalid(path, names, "Only one reference can have Controller set to true"))
    return errors
