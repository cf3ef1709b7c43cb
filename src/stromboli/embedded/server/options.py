"""The query parameters of requests, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stromboli.embedded.admission import ADMINISTRATOR, User
from stromboli.embedded.schema.field_errors import forbidden, invalid, not_supported, required
from stromboli.embedded.status import bad_request
from stromboli.embedded.status import invalid as invalid_object

from .messages import Request


def flag(query: Mapping[str, str], name: str) -> bool:
    """As Kubernetes reads them: everything is a yes but `false` and `0`."""
    return name in query and query[name].lower() not in ("false", "0")


def number(query: Mapping[str, str], name: str) -> int | None:
    value = query.get(name, "")
    if value == "":
        return None
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise bad_request(f'strconv.ParseInt: parsing "{value[:50]}": invalid syntax')
    return int(value)


def is_dry_run(values: Any, kind: str) -> bool:
    """`dryRun=All`, in a query or in the options of a deletion."""
    if isinstance(values, str):
        values = [values] if values else []
    if not isinstance(values, list):
        raise bad_request("dryRun must be a list")
    for value in values:
        if value != "All":
            raise invalid_object("meta.k8s.io", kind, "", [not_supported("dryRun", value, ("All",))])
    return bool(values)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    manager: str
    dry_run: bool
    validation: str  # Ignore, Warn or Strict
    force: bool = False
    user: User = ADMINISTRATOR


def write_options(request: Request, kind: str, *, is_apply: bool = False) -> WriteOptions:
    query = request.query
    manager = query.get("fieldManager", "")
    if len(manager) > 128 or not manager.isprintable():
        problem = invalid("fieldManager", manager[:128], "must be at most 128 printable characters")
        raise invalid_object("meta.k8s.io", kind, "", [problem])
    if is_apply and not manager:
        raise invalid_object("meta.k8s.io", kind, "", [required("fieldManager", "is required for apply patch")])
    force = flag(query, "force")
    if force and not is_apply:
        problem_text = "may not be specified for non-apply patch"
        raise invalid_object("meta.k8s.io", kind, "", [forbidden("force", problem_text)])
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        supported = ("", "Ignore", "Strict", "Warn")
        raise invalid_object("meta.k8s.io", kind, "", [not_supported("fieldValidation", validation, supported)])
    if not manager:
        # As Kubernetes does: the name of the program, without its version.
        manager = request.headers.get("user-agent", "").partition("/")[0][:128] or "unknown"
    return WriteOptions(manager, is_dry_run(query.get("dryRun", ""), kind), validation, force, request.user)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_seconds: int | None = None
    propagation: str = ""
    uid: str = ""
    version: str = ""
    dry_run: bool = False
    orphan: bool | None = None
    user: User = ADMINISTRATOR


def delete_options(body: Any, query: Mapping[str, str], user: User = ADMINISTRATOR) -> DeleteOptions:
    """From the body, or from the query if there is no body."""
    if body is not None and not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized: DeleteOptions must be an object")
    body = body or {}
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request(f"expected DeleteOptions, got {str(body['kind'])[:50]!r}")
    grace = body.get("gracePeriodSeconds", number(query, "gracePeriodSeconds"))
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise bad_request("gracePeriodSeconds must be a whole number")
    propagation = body.get("propagationPolicy", query.get("propagationPolicy", "")) or ""
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = flag(query, "orphanDependents")
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        supported = ("Foreground", "Background", "Orphan", "nil")
        problem = not_supported("propagationPolicy", propagation, supported)
        raise invalid_object("meta.k8s.io", "DeleteOptions", "", [problem])
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise bad_request("preconditions must be an object")
    return DeleteOptions(
        grace_seconds=grace,
        propagation=propagation,
        uid=str(preconditions.get("uid") or ""),
        version=str(preconditions.get("resourceVersion") or ""),
        dry_run=is_dry_run(body.get("dryRun") or query.get("dryRun", ""), "DeleteOptions"),
        orphan=orphan if isinstance(orphan, bool) else None,
        user=user,
    )
